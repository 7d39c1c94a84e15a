//! Which branch a user means by a name.

/// The branches that a name may stand for, by the strictest rule that any branch matches.
///
/// `paths` are the chains of names, `names` the branches' own. A name is the branch's own; the end of a chain
/// (`fCoordinates/fCoordinates.fX`); the same without dimensions, dots at the end and prefixes that repeat the parent's
/// name, with dots or slashes (`Tracks.fP`, `Tracks/fP` for `Tracks/Tracks.fP[5]`); or such a chain without some of its
/// middle (`first.fX` for `first/fCoordinates/fCoordinates.fX`).
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
    // `x[3]` is no name for `x[5]`, nor for `x`.
    let fits = |path: &str| dimensions(name).is_empty() || dimensions(path) == dimensions(name);
    let plain = matching(&|path, _| fits(path) && self::pieces(path).ends_with(&pieces));
    if !plain.is_empty() {
        return plain;
    }
    matching(&|path, _| fits(path) && is_within(&pieces, &self::pieces(path)))
}

/// The pieces of a chain between slashes and dots, without dimensions and repeated prefixes.
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

/// The dimensions at the end of a name, such as `[2][3]`.
fn dimensions(name: &str) -> &str {
    let mut before = name;
    while let Some((shorter, _)) = before.strip_suffix(']').and_then(|open| open.rsplit_once('[')) {
        before = shorter;
    }
    &name[before.len()..]
}

/// Bytes of the pieces with their dots that a name has in common with that of its parent, its last piece excepted.
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

/// Whether a chain has these pieces in this order, begins with the first and ends with the last of them.
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
