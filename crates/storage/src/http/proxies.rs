//! Proxies from the environment variables that curl uses: `http_proxy` and `https_proxy` for URLs of that scheme,
//! `all_proxy` for both schemes, and `no_proxy` for hosts and domains that are contacted directly.

use std::env;

use ureq::Proxy;

const VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"];
/// Names that always bypass proxies, because a proxy would resolve them to its own machine.
const LOOPBACK: [&str; 4] = ["localhost", "127.*", "[::1]", "::1"];

/// The proxies of this process, one for each scheme.
#[derive(Debug)]
pub(super) struct Proxies {
    http: Option<Proxy>,
    https: Option<Proxy>,
}

impl Proxies {
    /// Reads the proxies from the environment variables; invalid URLs are ignored.
    pub(super) fn from_environment() -> Self {
        let [http, https, all, without] = VARIABLES.map(value);
        let without = without.unwrap_or_default();
        let proxy = |own: Option<String>| own.or_else(|| all.clone()).and_then(|url| proxy(&url, &without));
        Self { http: proxy(http), https: proxy(https) }
    }

    /// Returns the proxy for the scheme of a URL. Hosts that bypass the proxy are handled by the returned object.
    pub(super) fn of(&self, url: &str) -> Option<Proxy> {
        if url.starts_with("https:") { &self.https } else { &self.http }.clone()
    }
}

/// Returns the values of the environment variables as one string, to detect changes.
pub(super) fn fingerprint() -> String {
    VARIABLES.map(value).map(Option::unwrap_or_default).join("\n")
}

fn value(name: &str) -> Option<String> {
    let known = env::var(name).or_else(|_| env::var(name.to_ascii_uppercase())).ok();
    known.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn proxy(url: &str, without: &str) -> Option<Proxy> {
    let given = Proxy::new(url).ok()?;
    let mut made = Proxy::builder(given.protocol()).host(given.host()).port(given.port());
    if let Some(user) = given.username() {
        made = made.username(user);
    }
    if let Some(password) = given.password() {
        made = made.password(password);
    }
    for one in LOOPBACK {
        made = made.no_proxy(one);
    }
    for one in without.split([',', ' ']).map(|one| one.trim_start_matches('.')).filter(|one| !one.is_empty()) {
        made = made.no_proxy(one);
        // A domain in `no_proxy` includes all hosts of the domain.
        if !one.contains('*') {
            made = made.no_proxy(&format!(".{one}"));
        }
    }
    made.build().ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_domains_are_left_out() {
        let proxy = proxy("http://me:a%20word@proxy.site:3128", ".site.org, other.net").unwrap();
        assert_eq!((proxy.host(), proxy.port(), proxy.password()), ("proxy.site", 3128, Some("a word")));
        let is_left_out = |host: &str| proxy.is_no_proxy(&format!("http://{host}/f").parse().unwrap());
        for host in ["site.org", "se.site.org", "se.other.net:80", "localhost:1", "127.0.0.3", "[::1]:80"] {
            assert!(is_left_out(host), "{host}");
        }
        for host in ["website.org", "other.network", "se.cern.ch"] {
            assert!(!is_left_out(host), "{host}");
        }
    }
}
