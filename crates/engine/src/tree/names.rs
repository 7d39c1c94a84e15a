//! Resolves the name of a branch as a user writes it.

/// Returns the branches that a name may refer to, by the first of the rules below that matches any branch.
///
/// `branches` yields the full path and the own name of each branch. The rules, from strict to loose:
///
/// * the name of the branch;
/// * the end of a path (`fCoordinates/fCoordinates.fX`);
/// * the end of a path with dots or slashes, ignoring dimensions, trailing dots and prefixes that repeat the parent's
///   name (`Tracks.fP` or `Tracks/fP` for `Tracks/Tracks.fP[5]`);
/// * a path without some of the inner names (`first.fX` for `first/fCoordinates/fCoordinates.fX`).
pub fn candidates<'a>(name: &str, branches: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> Vec<usize> {
    let matching = |fits: &dyn Fn(&str, &str) -> bool| -> Vec<usize> {
        let all = branches.clone().enumerate();
        all.filter(|(_, (path, own))| fits(path, own)).map(|(index, _)| index).collect()
    };
    let own = matching(&|_, own| own == name || own.strip_suffix('.') == Some(name));
    if !own.is_empty() {
        return own;
    }
    let ends = matching(&|path, _| path.strip_suffix(name).is_some_and(|before| before.ends_with('/')));
    let pieces = pieces(name);
    if !ends.is_empty() || pieces.is_empty() {
        return ends;
    }
    // Dimensions must match if they are given: `x[3]` matches neither `x[5]` nor `x`.
    let fits = |path: &str| dimensions(name).is_empty() || dimensions(path) == dimensions(name);
    let plain = matching(&|path, _| fits(path) && self::pieces(path).ends_with(&pieces));
    if !plain.is_empty() {
        return plain;
    }
    matching(&|path, _| fits(path) && is_within(&pieces, &self::pieces(path)))
}

/// Splits a path at slashes and dots, and drops dimensions and repeated prefixes.
fn pieces(path: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut parent = "";
    for own in path.split('/') {
        let own = &own[..own.len() - dimensions(own).len()];
        let own = own.strip_suffix('.').unwrap_or(own);
        let repeated = repeated_prefix(parent, own);
        pieces.extend(own[repeated..].split('.').filter(|piece| !piece.is_empty()));
        parent = own;
    }
    pieces
}

/// Returns the dimensions at the end of a name, such as `[2][3]`.
fn dimensions(name: &str) -> &str {
    let mut before = name;
    while let Some((shorter, _)) = before.strip_suffix(']').and_then(|open| open.rsplit_once('[')) {
        before = shorter;
    }
    &name[before.len()..]
}

/// Returns the length of the leading pieces (including their dots) that a branch name shares with the name of its
/// parent. The last piece of the branch name never counts.
fn repeated_prefix(parent: &str, own: &str) -> usize {
    let mut repeated = 0;
    for (piece, of_parent) in own.split_inclusive('.').zip(parent.split('.')) {
        if piece.strip_suffix('.') != Some(of_parent) {
            break;
        }
        repeated += piece.len();
    }
    repeated
}

/// Whether `chain` contains all `pieces` in order, begins with the first piece and ends with the last.
fn is_within(pieces: &[&str], chain: &[&str]) -> bool {
    if pieces.len() < 2 || chain.first() != pieces.first() || chain.last() != pieces.last() {
        return false;
    }
    let mut rest = chain.iter();
    pieces.iter().all(|piece| rest.any(|one| one == piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [&str; 10] = [
        "Tracks",
        "Tracks/Tracks.fP[5]",
        "Tracks/Tracks.fC[15]",
        "first",
        "first/fCoordinates",
        "first/fCoordinates/fCoordinates.fX",
        "second/fCoordinates/fCoordinates.fX",
        "Header./Header.Base/Header.fName",
        "a/b",
        "matrix[2][3]",
    ];

    fn found(name: &str) -> Vec<&'static str> {
        let own = |path: &'static str| path.rsplit('/').next().unwrap();
        candidates(name, PATHS.iter().map(|path| (*path, own(path)))).into_iter().map(|index| PATHS[index]).collect()
    }

    #[test]
    fn a_name_is_read_strictly_first() {
        assert_eq!(found("Tracks"), ["Tracks"]);
        assert_eq!(found("Tracks.fP[5]"), ["Tracks/Tracks.fP[5]"]);
        assert_eq!(found("b"), ["a/b"]);
        assert_eq!(found("fCoordinates"), ["first/fCoordinates"]);
        assert_eq!(found("Header"), [] as [&str; 0]);
    }

    #[test]
    fn dimensions_prefixes_and_the_middle_may_be_left_out() {
        for name in ["Tracks.fP", "Tracks/Tracks.fP", "Tracks/fP", "fP", "Tracks/fP[5]"] {
            assert_eq!(found(name), ["Tracks/Tracks.fP[5]"], "{name}");
        }
        for name in ["first.fX", "first/fX", "first/fCoordinates.fX", "first.fCoordinates.fX"] {
            assert_eq!(found(name), ["first/fCoordinates/fCoordinates.fX"], "{name}");
        }
        assert_eq!(found("Header.fName"), ["Header./Header.Base/Header.fName"]);
        assert_eq!(found("Header/fName"), ["Header./Header.Base/Header.fName"]);
        assert_eq!(found("matrix"), ["matrix[2][3]"]);
        for name in ["Tracks.fP[3]", "Tracks[5]", "matrix[3]", "matrix[2]"] {
            assert_eq!(found(name), [] as [&str; 0], "{name}");
        }
    }

    #[test]
    fn all_that_a_name_may_mean_are_found() {
        assert_eq!(found("fX").len(), 2);
        assert_eq!(found("fCoordinates/fCoordinates.fX").len(), 2);
        assert_eq!(found("fQ"), [] as [&str; 0]);
        assert_eq!(found(""), [] as [&str; 0]);
        assert_eq!(found("/[.]"), [] as [&str; 0]);
    }
}
