//! Parses and formats URLs of files on servers.

use crate::servers::failure::Fault;
use crate::StorageErrorKind;

/// Parts of a URL `scheme://user:password@host:port/path?query`. The parts are not percent-decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) has_password: bool,
    /// Host, without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// Path, including the slash after the host; may be empty.
    pub(crate) path: String,
    /// Query, without the question mark; None if the URL has no question mark.
    pub(crate) query: Option<String>,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = |reason: &str| Fault::new(StorageErrorKind::UnsupportedScheme, reason);
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is not a URL"))?;
        if text.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(wrong("the URL contains a space or control character; escape it, for example as %20"));
        }
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(split);
        let (path, query) = match tail.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (tail, None),
        };
        let (userinfo, address) = match authority.rsplit_once('@') {
            Some((userinfo, address)) => (Some(userinfo), address),
            None => (None, authority),
        };
        let (host, port) = split_address(address).ok_or_else(|| wrong("the URL has no host or an invalid port"))?;
        Ok(Self {
            scheme: scheme.to_ascii_lowercase(),
            user: userinfo.map(|info| info.split(':').next().unwrap_or_default().to_owned()),
            has_password: userinfo.is_some_and(|info| info.contains(':')),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
            query,
        })
    }

    /// Returns the host and port as written in a URL.
    pub(crate) fn address(&self) -> String {
        let host = bracketed(&self.host);
        self.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    /// Returns whether the host is a loopback address.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// Returns the storage element's name in reports, for a path or URL. An fsspec URL such as `zip://a::https://host/f` is
/// a chain of URLs, whose last URL determines the storage element.
pub(crate) fn element_of(location: &str) -> String {
    let alone = Url::parse(location).ok().filter(|url| !url.scheme.contains("::"));
    match alone.map_or_else(|| Url::parse(last_link(location)), Ok) {
        Ok(url) => format!("{}://{}", url.scheme, url.address()),
        Err(_) => format!("local:{}", rustix::system::uname().nodename().to_string_lossy()),
    }
}

fn last_link(chain: &str) -> &str {
    let begin = chain.rfind("://").and_then(|at| chain.get(..at)?.rfind("::")).map_or(0, |at| at + 2);
    chain.get(begin..).unwrap_or(chain)
}

/// Escapes all bytes of a URL that are not allowed in a request as `%XX`. Existing escapes are kept.
pub(crate) fn escaped(bytes: impl Iterator<Item = u8>) -> String {
    let each = |byte: u8| {
        let is_plain = byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
        if is_plain {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    bytes.map(each).collect()
}

/// Percent-encodes a string for use in a URL. Only letters, digits, `-._~` and the bytes in `kept` stay unchanged.
pub(crate) fn percent_encoded(text: &str, kept: &[u8]) -> String {
    let each = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || kept.contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(each).collect()
}

/// Adds the brackets that a URL requires around an IPv6 address. Other hosts are not changed.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// Splits `host`, `host:port` or `[address]:port` into host and port; returns None if the string is invalid.
pub(crate) fn split_address(address: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, behind) = rest.split_once(']')?;
            (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
        }
        None => match address.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    let port = match port {
        Some(port) => Some(port.parse::<u16>().ok().filter(|port| *port != 0)?),
        None => None,
    };
    let is_host = !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@[]".contains(&byte));
    is_host.then_some((host, port))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_apart() {
        let url = Url::parse("root://me@[::1]:1094//data/f.root?a=b?c").unwrap();
        assert_eq!((url.scheme.as_str(), url.user.as_deref()), ("root", Some("me")));
        assert_eq!((url.host.as_str(), url.port, url.address().as_str()), ("::1", Some(1094), "[::1]:1094"));
        assert_eq!((url.path.as_str(), url.query.as_deref()), ("//data/f.root", Some("a=b?c")));
        assert!(url.is_loopback() && !url.has_password);
        let url = Url::parse("HTTPS://u:p@x@host").unwrap();
        assert_eq!((url.scheme.as_str(), url.host.as_str(), url.port, url.path.as_str()), ("https", "host", None, ""));
        assert!(url.has_password && !url.is_loopback());
    }

    #[test]
    fn the_element_of_a_chain_is_that_of_its_last_link() {
        for (location, element) in [
            ("https://me@h:1/f.root?a=b::c", "https://h:1"),
            ("root://[::1]:1094//f.root", "root://[::1]:1094"),
            ("zip://f.root::https://h/a.zip", "https://h"),
            ("zip://f.root::https://[::1]:8/a.zip", "https://[::1]:8"),
            ("simplecache::zip://f.root::s3://bucket/a.zip", "s3://bucket"),
            ("simplecache::http://h/f.root", "http://h"),
        ] {
            assert_eq!(element_of(location), element);
        }
        for here in ["/a/b::c.root", "zip://f.root::/a.zip", "zip://f.root::file:///a.zip", "::://", "a://::"] {
            assert!(element_of(here).starts_with("local:"), "{here}");
        }
    }

    #[test]
    fn wrong_urls_are_refused() {
        for text in
            ["plain", "root://", "root:///f", "root://h:0/f", "root://h:99999/f", "root://h:x/f", "root://[::1/f"]
        {
            assert!(Url::parse(text).is_err(), "{text}");
        }
        for text in ["root://h/a b", "http://h/a\r\nHost: x", "root://h/\0"] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }
}
