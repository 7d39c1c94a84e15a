//! Finds the user's bearer token as specified in WLCG's "Bearer Token Discovery" 1.0.

use std::path::{Path, PathBuf};

use crate::limits::TOKEN_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::StorageErrorKind;

/// Returns the user's token, or None if no token exists. The token is taken from `BEARER_TOKEN`, from the file named by
/// `BEARER_TOKEN_FILE`, from `$XDG_RUNTIME_DIR/bt_u<uid>`, or from the file `bt_u<uid>` in `/tmp`. A variable without a
/// usable token is an error.
pub(crate) fn bearer_token() -> Result<Option<String>> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(token) = set("BEARER_TOKEN") {
        return checked("BEARER_TOKEN", token.as_encoded_bytes()).map(Some);
    }
    if let Some(file) = set("BEARER_TOKEN_FILE") {
        let file = PathBuf::from(file);
        return match read(&file)? {
            Some(token) => Ok(Some(token)),
            None => Err(no_token(&format!("BEARER_TOKEN_FILE names {}, which does not exist", file.display()))),
        };
    }
    let own = format!("bt_u{}", rustix::process::geteuid().as_raw());
    let folder = set("XDG_RUNTIME_DIR").map(PathBuf::from);
    let folders = [folder, Some(PathBuf::from("/tmp"))];
    for folder in folders.into_iter().flatten() {
        if let Some(token) = read(&folder.join(&own))? {
            return Ok(Some(token));
        }
    }
    Ok(None)
}

fn no_token(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("the bearer token cannot be used: {reason}"))
}

fn read(file: &Path) -> Result<Option<String>> {
    match read_small(file, TOKEN_BYTES_MAX) {
        Ok(bytes) => checked(&file.display().to_string(), &bytes).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(no_token(&format!("{}: {error}", file.display()))),
    }
}

/// Returns the token, or an error if the token is not valid in a header.
fn checked(place: &str, bytes: &[u8]) -> Result<String> {
    let token = bytes.trim_ascii();
    if token.is_empty() || !token.iter().all(u8::is_ascii_graphic) {
        return Err(no_token(&format!("{place} contains no valid token")));
    }
    Ok(String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_around_a_token_are_dropped_and_other_letters_refused() {
        assert_eq!(checked("f", b" a.b-c\n").unwrap(), "a.b-c");
        for wrong in [&b""[..], b" \n", b"a b", b"a\r\nHost: x", "\u{e4}".as_bytes()] {
            let error = checked("f", wrong).unwrap_err();
            assert_eq!(error.kind, StorageErrorKind::Permission);
            assert_eq!(error.reason, "the bearer token cannot be used: f contains no valid token");
        }
    }
}
