//! URLs of files at servers: taken apart to be read, and shown without the secrets that may be in them.

use crate::fault::Fault;
use crate::StorageErrorKind;

/// The parts of `scheme://user:password@host:port/path?query`, none of them decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) user: Option<String>,
    pub(crate) has_password: bool,
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
    /// From the slash behind the host on; empty if there is none.
    pub(crate) path: String,
    /// What is behind the first question mark.
    pub(crate) query: Option<String>,
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Self, Fault> {
        let wrong = |reason: &str| Fault::new(StorageErrorKind::UnsupportedScheme, reason);
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
        if text.chars().any(|letter| letter.is_control() || letter == ' ') {
            return Err(wrong("there is a blank or a control character in the URL; write it as %20 and the like"));
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
        let (host, port) = split_address(address).ok_or_else(|| wrong("the URL names no host, or a wrong port"))?;
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

    /// Host and port as they are written in a URL.
    pub(crate) fn address(&self) -> String {
        let host = bracketed(&self.host);
        self.port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"))
    }

    /// Whether the host is this machine by its name.
    pub(crate) fn is_loopback(&self) -> bool {
        self.host == "localhost" || self.host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// The storage element that a path or URL leads to, as it stands in reports.
pub(crate) fn element_of(location: &str) -> String {
    match Url::parse(location) {
        Ok(url) => format!("{}://{}", url.scheme, url.address()),
        Err(_) => format!("local:{}", rustix::system::uname().nodename().to_string_lossy()),
    }
}

/// An IPv6 address in the brackets that a URL wants around it.
pub(crate) fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

/// `host`, `host:port` or `[address]:port`.
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

/// Parts of a query that give access to whoever knows them.
const SECRET_KEYS: &[&str] = &[
    "authz",
    "authorization",
    "token",
    "signature",
    "password",
    "passwd",
    "credential",
    "macaroon",
    "xrd.ztn",
    "secret",
    "key",
    "keyid",
    "jwt",
    "bearer",
    "ticket",
];

/// What may be shown of a URL, or of a server's words about one: passwords and the values of secret parameters become
/// `***`. A plain path stays as it is.
pub fn without_secrets(text: &str) -> String {
    let each: Vec<String> = text.split(" | ").map(without_secrets_of_one).collect();
    each.join(" | ")
}

fn without_secrets_of_one(text: &str) -> String {
    let text = without_password(text);
    let Some((head, query)) = text.split_once('?') else { return text };
    let shown: Vec<String> = query.split('&').map(without_secret_value).collect();
    format!("{head}?{}", shown.join("&"))
}

fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // A URL may stand in another one, behind its path or at once.
    if authority.ends_with(':') && tail.starts_with("//") {
        return format!("{scheme}://{}", without_password(rest));
    }
    let tail = without_password(tail);
    let user = authority.rsplit_once('@').and_then(|(userinfo, address)| Some((userinfo.split_once(':')?.0, address)));
    match user {
        Some((user, address)) => format!("{scheme}://{user}:***@{address}{tail}"),
        None => format!("{scheme}://{authority}{tail}"),
    }
}

fn without_secret_value(parameter: &str) -> String {
    let Some((key, value)) = parameter.split_once('=') else { return parameter.to_owned() };
    let lower = key.to_ascii_lowercase();
    let is_secret =
        SECRET_KEYS.iter().any(|secret| lower.ends_with(secret)) || matches!(&*lower, "sig" | "code" | "auth" | "pwd");
    if is_secret && !value.is_empty() {
        format!("{key}=***")
    } else {
        parameter.to_owned()
    }
}

/// A server's words as a part of our own: one line, not too long, and no secrets that it may say back.
pub(crate) fn quoted(words: &[u8]) -> String {
    const LETTERS_MAX: usize = 300;
    let text = String::from_utf8_lossy(words);
    let visible: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let safe: Vec<String> = visible.split_whitespace().map(without_secrets).map(without_token).collect();
    let mut line = safe.join(" ");
    if line.chars().count() > LETTERS_MAX {
        line = line.chars().take(LETTERS_MAX).chain("...".chars()).collect();
    }
    line
}

/// JSON web tokens start with an encoded `{"`.
fn without_token(word: String) -> String {
    if word.contains("eyJ") {
        "***".to_owned()
    } else {
        word
    }
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

    #[test]
    fn secrets_are_not_shown() {
        for (text, shown) in [
            ("/data/f?token=x", "/data/f?token=***"),
            ("https://u:p@h/f?a=1&authz=Bearer%20x&b=2", "https://u:***@h/f?a=1&authz=***&b=2"),
            (
                "https://h/f?X-Amz-Signature=1&X-Amz-Credential=2&X-Amz-Date=3",
                "https://h/f?X-Amz-Signature=***&X-Amz-Credential=***&X-Amz-Date=3",
            ),
            ("root://me@h//f", "root://me@h//f"),
            ("root://u:p@cache//root://u:p@h:1094//f", "root://u:***@cache//root://u:***@h:1094//f"),
            ("zip://f.root::https://u:p@h/a.zip?sig=1", "zip://f.root::https://u:***@h/a.zip?sig=***"),
            ("simplecache::https://u:p@[::1]:80/f", "simplecache::https://u:***@[::1]:80/f"),
            ("/plain/path", "/plain/path"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
        assert_eq!(
            quoted(b"no\naccess for Bearer eyJhbGciOi.x.y to https://u:p@h/f\0"),
            "no access for Bearer *** to https://u:***@h/f"
        );
        assert_eq!(quoted(&[b'x'; 1000]).len(), 303);
    }
}
