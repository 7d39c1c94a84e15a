//! Resolves redirects as specified in RFC 3986, section 5, including malformed redirects that servers send.

use crate::servers::url::escaped;

/// Returns the target of a redirect, given the `Location` header in the response to a request for `base`. Returns None
/// if the target is not an HTTP URL.
///
/// Spaces, non-ASCII characters and other bytes that need escaping are escaped, since many servers do not escape them.
pub(super) fn redirect_target(base: &str, location: &[u8]) -> Option<String> {
    // Fragments are never sent to servers.
    let location = location.split(|byte| *byte == b'#').next()?.trim_ascii();
    let reference = escaped(location.iter().copied());
    let (scheme, rest) = base.split_once("://")?;
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = target.split('?').next().unwrap_or_default();
    if let Some((other, tail)) = reference.split_once(':').filter(|(other, _)| is_scheme(other)) {
        let is_http = other.eq_ignore_ascii_case("http") || other.eq_ignore_ascii_case("https");
        return (is_http && tail.starts_with("//")).then(|| format!("{}:{tail}", other.to_ascii_lowercase()));
    }
    match reference.as_bytes() {
        [] => None,
        [b'/', b'/', ..] => Some(format!("{scheme}:{reference}")),
        [b'/', ..] => Some(format!("{scheme}://{authority}{reference}")),
        [b'?', ..] => Some(format!("{scheme}://{authority}{path}{reference}")),
        _ => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            Some(format!("{scheme}://{authority}{}", without_dots(&format!("{folder}/{reference}"))))
        }
    }
}

fn is_scheme(text: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "+.-".contains(letter);
    text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(is_letter)
}

/// Resolves the segments `.` and `..` of a path that may have a query.
fn without_dots(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                // A path that ends in a dot segment refers to a folder.
                kept.extend(is_last.then_some(""));
            }
            _ => kept.push(segment),
        }
    }
    format!("/{}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_rfc_3986_says() {
        let base = "https://host:8443/data/run 1/f.root?x=1".replace(' ', "%20");
        for (location, expected) in [
            ("http://other/f.root", "http://other/f.root"),
            ("HTTPS://other:1/f?a=http://x", "https://other:1/f?a=http://x"),
            ("//other/f", "https://other/f"),
            ("/f.root", "https://host:8443/f.root"),
            ("?y=2", "https://host:8443/data/run%201/f.root?y=2"),
            ("g.root", "https://host:8443/data/run%201/g.root"),
            ("./g.root?a/../b", "https://host:8443/data/run%201/g.root?a/../b"),
            ("../../../g", "https://host:8443/g"),
            ("../", "https://host:8443/data/"),
            ("..", "https://host:8443/data/"),
            (" /a b#top ", "https://host:8443/a%20b"),
            ("/50%/%41", "https://host:8443/50%/%41"),
        ] {
            assert_eq!(redirect_target(&base, location.as_bytes()).as_deref(), Some(expected), "{location}");
        }
        assert_eq!(redirect_target("http://host", b"f").as_deref(), Some("http://host/f"));
        assert_eq!(redirect_target("http://host?x", b"f").as_deref(), Some("http://host/f"));
    }

    #[test]
    fn bytes_that_a_url_must_escape_are_escaped() {
        let target = redirect_target("http://h/", b"http://o/a b/\xc3\xa9\xff\"<>\\^`{|}\t.root");
        assert_eq!(target.as_deref(), Some("http://o/a%20b/%C3%A9%FF%22%3C%3E%5C%5E%60%7B%7C%7D%09.root"));
    }

    #[test]
    fn a_redirect_to_anything_but_http_leads_nowhere() {
        for location in ["", "#top", "file:///etc/passwd", "http:/f", "javascript:f", "root://host//f"] {
            assert_eq!(redirect_target("http://h/f", location.as_bytes()), None, "{location}");
        }
    }
}
