//! Tests of opening valid and invalid paths and URLs.

use std::path::Path;

use super::*;
use crate::StorageErrorKind;

#[test]
fn schemes_are_distinguished_from_plain_paths() {
    assert_eq!(split_scheme("root://host//f.root"), Some(("root", "host//f.root")));
    assert_eq!(split_scheme("s3+x.y-z://b/k"), Some(("s3+x.y-z", "b/k")));
    for path in ["f.root", "/data/f.root", "a:b", "1st://f", "./odd name://f", "://f", ""] {
        assert_eq!(split_scheme(path), None, "{path}");
    }
}

#[test]
fn file_urls_name_local_paths() {
    for (rest, path) in [
        ("/data/f.root", "/data/f.root"),
        ("localhost/data/f.root", "/data/f.root"),
        ("/a%20b/%C3%A4.root", "/a b/\u{e4}.root"),
        ("/50%/%zz/%4", "/50%/%zz/%4"),
    ] {
        assert_eq!(path_of_file_url("", rest).unwrap(), Path::new(path), "{rest}");
    }
}

#[test]
fn a_file_url_with_a_host_or_without_a_path_is_refused() {
    for url in ["file://server/f.root", "file://f.root", "file://"] {
        let error = open(url, &Access::default()).err().expect("not a local file");
        assert_eq!(error.kind, StorageErrorKind::UnsupportedScheme, "{url}");
        assert!(error.message.contains("full path"), "{error}");
    }
}

#[test]
fn other_schemes_are_not_readable_yet_and_say_so() {
    for (url, scheme) in [("hdfs://host//f.root", "hdfs://"), ("gsiftp://host/f", "gsiftp://"), ("GS://b/k", "GS://")] {
        let error = open(url, &Access::default()).err().expect("not a local file");
        assert_eq!(error.kind, StorageErrorKind::UnsupportedScheme, "{url}");
        assert!(error.message.starts_with(url) && error.message.contains(scheme), "{error}");
        assert!(!error.retry_may_help());
    }
}

#[test]
fn files_of_this_machine_are_found_in_urls_and_among_replicas() {
    let found = local_paths("root://host//a.root | file:///b%20c.root | FILE://localhost/d.root | e.root");
    assert_eq!(found, ["/b c.root", "/d.root", "e.root"].map(PathBuf::from));
    assert!(local_paths("https://host/a.root").is_empty() && local_paths("file://host/a.root").is_empty());
}

#[test]
fn a_file_url_with_a_host_is_refused_without_its_password() {
    let error = open("file://me:hidden@host/f.root", &Access::default()).err().unwrap();
    assert!(!format!("{error:?}").contains("hidden") && error.message.contains("file://me:***@host/f.root"), "{error}");
}
