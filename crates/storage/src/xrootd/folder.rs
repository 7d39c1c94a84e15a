//! Folders of XRootD, at one server or at all behind a redirector, and the checksum and size of a file.

use super::pool::pool;
use super::server::entry_of;
use super::server::Server;
use super::session::Answer;
use super::wire::{Request, PORT};
use crate::checksum::checksum;
use crate::fault::{Fault, Result};
use crate::limits::{LISTING_SERVERS_MAX, REDIRECTS_MAX};
use crate::retry::with_retries;
use crate::settings::Settings;
use crate::url::split_address;
use crate::StorageErrorKind;

/// No file: a connection that any file may use.
const NO_FILE: u64 = u64::MAX;

/// Lists a folder at all servers that have it, an answer of each.
pub(crate) fn list_xrootd(url: &str, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let (entry, path) = entry_of(url)?;
    let servers = with_retries(settings, |_| servers_with(&entry, &path, settings))?;
    let mut pages = Vec::new();
    let mut missing = None;
    for server in servers {
        let list = |_| exchanged(&server, Request::list(&path), settings);
        match with_retries(settings, list) {
            Ok(page) => pages.push(page),
            // A server of a cluster that might have had it.
            Err(fault) if fault.kind == StorageErrorKind::NotFound => missing = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    match missing {
        Some(fault) if pages.is_empty() => Err(fault),
        _ => Ok(pages),
    }
}

/// The servers that have a path; the one that was named if it knows no others.
fn servers_with(entry: &Server, path: &str, settings: &Settings) -> Result<Vec<Server>> {
    let mut found: Vec<Server> = Vec::new();
    let mut to_ask = vec![entry.clone()];
    for asked_count in 0.. {
        let Some(server) = to_ask.pop() else { break };
        let answer = match exchanged(&server, Request::locate(&format!("*{path}")), settings) {
            Ok(answer) => answer,
            Err(fault) if asked_count == 0 && fault.kind == StorageErrorKind::Refused => {
                return Ok(vec![entry.clone()])
            }
            Err(fault) if asked_count == 0 => return Err(fault),
            Err(_) => continue,
        };
        for (kind, other) in locations(&answer, entry) {
            match kind {
                b'M' | b'm' if asked_count < LISTING_SERVERS_MAX => to_ask.push(other),
                b'S' | b's' if !found.contains(&other) && found.len() < LISTING_SERVERS_MAX => found.push(other),
                _ => {}
            }
        }
    }
    // A server that is alone names itself by a name that it may have for itself only.
    let is_itself = found.len() == 1 && found.iter().all(|one| one.port == entry.port);
    Ok(if found.is_empty() || is_itself { vec![entry.clone()] } else { found })
}

/// `Sr[::1]:1094 Mw host:1213`: what each is, what may be done there, and where it is.
fn locations(answer: &[u8], entry: &Server) -> Vec<(u8, Server)> {
    let text = String::from_utf8_lossy(answer);
    let words = text.trim_end_matches('\0').split_ascii_whitespace();
    let one = |word: &str| {
        let address = word.get(2..)?;
        let (host, port) = split_address(address)?;
        // An old address that is written as a new one.
        let old = host.strip_prefix("::ffff:").or_else(|| host.strip_prefix("::")).filter(|old| old.contains('.'));
        let host = old.unwrap_or(host).to_owned();
        let server = Server { host, port: port.unwrap_or(PORT), ..entry.clone() };
        Some((*word.as_bytes().first()?, server))
    };
    words.filter_map(one).collect()
}

/// Sends a request to a server, or to those that it redirects us to.
fn exchanged(server: &Server, request: Request, settings: &Settings) -> Result<Vec<u8>> {
    let mut server = server.clone();
    for _ in 0..=REDIRECTS_MAX {
        let (mut session, answer) = pool().take(&server, NO_FILE, request.clone(), settings)?;
        match answer {
            Some(Answer::Done(answer)) => return Ok(answer),
            Some(Answer::Elsewhere(target)) => {
                let secure = server.secure || target.secure.unwrap_or(false);
                server = Server { host: target.host, port: target.port, secure, user: server.user.clone() };
            }
            _ => return Err(session.nonsense("an authentication request")),
        }
    }
    Err(Fault::new(StorageErrorKind::Refused, format!("{server} redirects again and again, to no end")))
}

/// The checksum of a file and its kind, as `adler32:0a1b2c3d`, at the server that it is read from.
pub(super) fn checksum_at(server: &Server, target: &str, settings: &Settings) -> Option<String> {
    let path = target.split('?').next().unwrap_or(target);
    // A server that has to read all of the file for it would have the connection wait.
    let answer = exchanged(server, Request::checksum(path), settings).ok()?;
    let text = String::from_utf8_lossy(&answer).trim_end_matches('\0').to_owned();
    let (kind, value) = text.trim().split_once(' ')?;
    checksum(kind, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_taken_from_what_a_redirector_says() {
        let entry = Server { host: "r".to_owned(), port: 1094, secure: false, user: None };
        let found =
            locations(b"Sr[::ffff:10.0.0.1]:1095 Mw[::1]:1213 Swnode.site:7 x Sr[::127.0.0.3]:9 Sr[::1\0", &entry);
        let shown: Vec<String> = found.iter().map(|(kind, one)| format!("{} {one}", char::from(*kind))).collect();
        assert_eq!(shown, ["S 10.0.0.1:1095", "M [::1]:1213", "S node.site:7", "S 127.0.0.3:9"]);
    }
}
