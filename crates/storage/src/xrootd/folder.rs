//! Lists XRootD folders on one server or on all servers of a redirector, and queries checksums of files.

use super::pool::pool;
use super::server::entry_of;
use super::server::Server;
use super::session::Answer;
use super::wire::{Request, PORT};
use crate::limits::{LISTING_SERVERS_MAX, REDIRECTS_MAX};
use crate::servers::checksum::checksum;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::servers::url::split_address;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// File ID of requests that do not concern an open file.
const NO_FILE: u64 = u64::MAX;

/// Response to a request, after redirects.
struct Answered {
    bytes: Vec<u8>,
    /// Whether the server that was asked is a data server, and answered without a redirect.
    is_at_data: bool,
}

/// Lists a folder on all servers that have the folder; returns one response per server.
pub(crate) fn list_xrootd(url: &str, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let (entry, path) = entry_of(url)?;
    let locate = |server: &Server| exchanged(server, Request::locate(&format!("*{path}")), settings);
    let servers = with_retries(settings, |_| servers_with(&entry, locate))?;
    let mut pages = Vec::new();
    let mut missing = None;
    for server in servers {
        let list = |_| exchanged(&server, Request::list(&path), settings).map(|answer| answer.bytes);
        match with_retries(settings, list) {
            Ok(page) => pages.push(page),
            // This server has some of the cluster's folders, but not this folder.
            Err(fault) if fault.kind == StorageErrorKind::NotFound => missing = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    match missing {
        Some(fault) if pages.is_empty() => Err(fault),
        _ => Ok(pages),
    }
}

/// Returns the servers that have a path, found by calling `locate` on the entry server and on the redirectors below it.
/// Returns the entry server itself if no other server is found, or if the entry server is a data server: the name that
/// a data server reports for itself may be unknown to other machines.
fn servers_with(entry: &Server, mut locate: impl FnMut(&Server) -> Result<Answered>) -> Result<Vec<Server>> {
    let mut found: Vec<Server> = Vec::new();
    // Redirectors in the order in which they were reported. The first `queried_count` redirectors have been queried.
    let mut redirectors = vec![entry.clone()];
    let mut queried_count = 0;
    while let Some(server) = redirectors.get(queried_count).cloned() {
        let is_entry = queried_count == 0;
        queried_count += 1;
        let answer = match locate(&server) {
            Ok(answer) => answer,
            Err(fault) if is_entry && fault.kind == StorageErrorKind::Refused => return Ok(vec![entry.clone()]),
            // No server below this redirector has the path.
            Err(fault) if !is_entry && fault.kind == StorageErrorKind::NotFound => continue,
            Err(fault) => return Err(fault),
        };
        if is_entry && answer.is_at_data {
            return Ok(vec![entry.clone()]);
        }
        for (kind, other) in locations(&answer.bytes, entry) {
            let named = match kind {
                b'M' | b'm' => &mut redirectors,
                b'S' | b's' => &mut found,
                _ => continue,
            };
            if named.len() < LISTING_SERVERS_MAX && !named.contains(&other) {
                named.push(other);
            }
        }
    }
    // A dCache door may describe itself as a redirector, although it is the only server.
    let is_itself = found.len() == 1 && found.iter().all(|one| one.port == entry.port);
    Ok(if found.is_empty() || is_itself { vec![entry.clone()] } else { found })
}

/// Parses a response such as `Sr[::1]:1094 Mw host:1213`, which states the kind, the allowed access and the address of
/// each server. Returns the kinds and addresses.
fn locations(answer: &[u8], entry: &Server) -> Vec<(u8, Server)> {
    let text = String::from_utf8_lossy(answer);
    let words = text.trim_end_matches('\0').split_ascii_whitespace();
    let one = |word: &str| {
        let address = word.get(2..)?;
        let (host, port) = split_address(address)?;
        // The host may be an IPv4 address in IPv6 notation.
        let old = host.strip_prefix("::ffff:").or_else(|| host.strip_prefix("::")).filter(|old| old.contains('.'));
        let host = old.unwrap_or(host).to_owned();
        let server = Server { host, port: port.unwrap_or(PORT), ..entry.clone() };
        Some((*word.as_bytes().first()?, server))
    };
    words.filter_map(one).collect()
}

/// Sends a request to a server and follows redirects.
fn exchanged(server: &Server, request: Request, settings: &Settings) -> Result<Answered> {
    let mut server = server.clone();
    for redirects_count in 0..=REDIRECTS_MAX {
        let (mut session, answer) = pool().take(&server, NO_FILE, request.clone(), settings)?;
        match answer {
            Some(Answer::Done(bytes)) => {
                return Ok(Answered { bytes, is_at_data: redirects_count == 0 && session.is_data_server });
            }
            Some(Answer::Redirect(target)) => {
                let secure = server.secure || target.secure.unwrap_or(false);
                server = Server { host: target.host, port: target.port, secure, user: server.user.clone() };
            }
            _ => return Err(session.protocol_fault("an authentication request")),
        }
    }
    Err(Fault::new(StorageErrorKind::Refused, format!("too many redirects, the last to {server}")))
}

/// Returns a file's checksum with its kind, such as `adler32:0a1b2c3d`, from the server that the file is read from.
pub(super) fn checksum_at(server: &Server, target: &str, settings: &Settings) -> Option<String> {
    let path = target.split('?').next().unwrap_or(target);
    // The request fails instead of waiting if the server must read the whole file to compute the checksum.
    let answer = exchanged(server, Request::checksum(path), settings).ok()?;
    let text = String::from_utf8_lossy(&answer.bytes).trim_end_matches('\0').to_owned();
    let (kind, value) = text.trim().split_once(' ')?;
    checksum(kind, value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entry() -> Server {
        Server { host: "r".to_owned(), port: 1094, secure: false, user: None }
    }

    fn by_redirector(words: &str) -> Result<Answered> {
        Ok(Answered { bytes: words.as_bytes().to_vec(), is_at_data: false })
    }

    #[test]
    fn servers_are_taken_from_what_a_redirector_says() {
        let found =
            locations(b"Sr[::ffff:10.0.0.1]:1095 Mw[::1]:1213 Swnode.site:7 x Sr[::127.0.0.3]:9 Sr[::1\0", &entry());
        let shown: Vec<String> = found.iter().map(|(kind, one)| format!("{} {one}", char::from(*kind))).collect();
        assert_eq!(shown, ["S 10.0.0.1:1095", "M [::1]:1213", "S node.site:7", "S 127.0.0.3:9"]);
    }

    #[test]
    fn redirectors_that_name_each_other_are_queried_once() {
        let mut queried = Vec::new();
        let found = servers_with(&entry(), |server| {
            queried.push(server.to_string());
            by_redirector("Mrm:1 Mrn:1 Mrr:1094 Srone:1 Srtwo:1")
        });
        assert_eq!(found.unwrap().len(), 2);
        assert_eq!(queried, ["r:1094", "m:1", "n:1"]);
    }

    #[test]
    fn an_answer_with_many_redirectors_does_not_make_as_many_queries() {
        let answer: String = (0..LISTING_SERVERS_MAX * 3).map(|number| format!("Mrm{number}:1 ")).collect();
        let mut queries_count = 0;
        servers_with(&entry(), |_| {
            queries_count += 1;
            by_redirector(&answer)
        })
        .unwrap();
        assert_eq!(queries_count, LISTING_SERVERS_MAX);
    }

    #[test]
    fn a_list_is_not_whole_without_a_redirector_that_fails() {
        let list = |kind| {
            servers_with(&entry(), |server| match server.host.as_str() {
                "r" => by_redirector("Mrm:1 Srone:1 Srtwo:1"),
                _ => Err(Fault::new(kind, format!("{server} fails"))),
            })
        };
        assert_eq!(list(StorageErrorKind::Unreachable).unwrap_err().reason, "m:1 fails");
        assert_eq!(list(StorageErrorKind::NotFound).unwrap().len(), 2);
    }
}
