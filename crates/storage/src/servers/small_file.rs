//! Reads small files of users, such as credentials or settings. Another user may have replaced such a file by something
//! else, such as a pipe in `/tmp`.

use std::fs::{self, File};
use std::io::{Error, Read, Result};
use std::path::Path;

/// Returns the bytes of a file. Fails for a pipe or a device, because reading might never end. Fails for a file larger
/// than `bytes_max` bytes.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
    // `/dev/null` is the conventional path for an empty file.
    if path == Path::new("/dev/null") {
        return Ok(Vec::new());
    }
    // The metadata is checked first, because opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::read_small;

    #[test]
    fn only_small_files_are_read() {
        let folder = std::env::temp_dir().join(format!("branchline-small-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (file, pipe) = (folder.join("file"), folder.join("pipe"));
        std::fs::write(&file, b"abc").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read_small(&file, 3).unwrap(), b"abc");
        assert_eq!(read_small(Path::new("/dev/null"), 3).unwrap(), b"");
        assert_eq!(read_small(&file, 2).unwrap_err().to_string(), "it has more than 2 bytes");
        for other in [&*pipe, &*folder, Path::new("/dev/zero")] {
            assert_eq!(read_small(other, 3).unwrap_err().to_string(), "it is not a file");
        }
        assert_eq!(read_small(&folder.join("none"), 3).unwrap_err().kind(), std::io::ErrorKind::NotFound);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
