//! Detects web pages that servers send instead of a file, such as login and error pages.

use crate::secrets::quoted;

/// First characters of web pages, in lower case.
const BEGINNINGS: [&[u8]; 3] = [b"<!doctype html", b"<html", b"<head"];
/// Maximum number of letters of a page title in messages.
const TITLE_LETTERS_MAX: usize = 80;

/// Returns whether a response is a web page, based on its content type and first bytes. The type alone is not enough,
/// since some servers label every unknown file `text/html`.
pub(super) fn is_web_page(content_type: Option<&str>, start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let begins_with =
        |beginning: &&[u8]| start.get(..beginning.len()).is_some_and(|it| it.eq_ignore_ascii_case(beginning));
    is_html(content_type) && start.first().is_none_or(|first| *first == b'<') || BEGINNINGS.iter().any(begins_with)
}

/// Returns whether a content type is that of a web page.
pub(super) fn is_html(content_type: Option<&str>) -> bool {
    let kind = content_type.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("text/html") || kind.eq_ignore_ascii_case("application/xhtml+xml")
}

/// Returns the title in the first bytes of a web page.
pub(super) fn title_of(start: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(start);
    // Lowercasing only ASCII letters preserves the length, so that offsets are valid in `text` too.
    let lower = text.to_ascii_lowercase();
    let opened = lower.find("<title")?;
    let begin = opened + lower.get(opened..)?.find('>')? + 1;
    let end = begin + lower.get(begin..)?.find('<')?;
    let title: String = quoted(text.get(begin..end)?.as_bytes()).chars().take(TITLE_LETTERS_MAX).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_known_by_their_type_and_their_beginning() {
        let html = Some("text/html; charset=utf-8");
        for (content_type, start) in [
            (html, "<!-- a comment -->"),
            (html, "<"),
            (html, "\r\n"),
            (html, ""),
            (Some("application/xhtml+xml"), "<?xml version=\"1.0\"?>"),
            (Some("application/octet-stream"), "\u{feff}\n <!DOCTYPE html>"),
            (None, "<HTML><body>"),
        ] {
            assert!(is_web_page(content_type, start.as_bytes()), "{content_type:?} {start}");
        }
        for (content_type, start) in [
            (html, "root\0\0\u{1}"),
            (html, "r"),
            (None, ""),
            (Some("application/xml"), "<?xml version=\"1.0\"?>"),
            (Some("application/octet-stream"), "<!ATTLIST"),
            (Some("text/htmlx"), "<"),
        ] {
            assert!(!is_web_page(content_type, start.as_bytes()), "{content_type:?} {start}");
        }
    }

    #[test]
    fn titles_are_taken_from_pages() {
        assert_eq!(title_of(b"<HTML><Title lang=en>\nSign  in\n</title>").as_deref(), Some("Sign in"));
        assert_eq!(title_of("<title>\u{130}\u{130}</title>".as_bytes()).as_deref(), Some("\u{130}\u{130}"));
        assert_eq!(
            title_of(format!("<title>{}</title>", "a".repeat(1000)).as_bytes()).map(|title| title.len()),
            Some(80)
        );
        for page in ["", "<title", "<title>", "<title> </title>", "<title>x"] {
            assert_eq!(title_of(page.as_bytes()), None, "{page}");
        }
    }
}
