//! Authenticates the user at a server: `unix`, `host`, a shared secret (`sss`) and tokens (`ztn`).

use std::fs;
use std::time::Instant;

use super::server::Server;
use super::session::{Answer, Session};
use super::shared_secret::{self, UserAndHost};
use super::wire::Request;
use crate::limits::LOGIN_PROTOCOLS_MAX;
use crate::secrets::quoted;
use crate::servers::failure::{Fault, Result};
use crate::servers::token;
use crate::StorageErrorKind;

/// Protocols that only XRootD's own client supports.
const BY_XROOTD_CLIENT: &[&str] = &["gsi", "krb5", "pwd"];

/// The longest name that servers take at login is eight letters; longer ones are cut.
pub(super) fn user_name(server: &Server) -> String {
    server.user.clone().unwrap_or_else(own_name)
}

fn own_name() -> String {
    let id = rustix::process::geteuid().as_raw();
    name_in("/etc/passwd", id).or_else(|| std::env::var("USER").ok()).unwrap_or_else(|| format!("u{id}"))
}

fn own_group() -> String {
    let id = rustix::process::getegid().as_raw();
    name_in("/etc/group", id).unwrap_or_else(|| format!("g{id}"))
}

/// The name that goes with a number in a list of lines `name:...:number:...`.
fn name_in(list: &str, id: u32) -> Option<String> {
    let lines = fs::read_to_string(list).ok()?;
    let id = id.to_string();
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

/// Tries the server's protocols, in its order, until one is accepted. `wanted` is `&P=name,arguments&P=...`.
pub(super) fn identify(session: &mut Session, server: &Server, wanted: &[u8], deadline: Instant) -> Result<()> {
    let wanted = String::from_utf8_lossy(wanted).into_owned();
    let mut offered = Vec::new();
    let mut refused = Vec::new();
    for Protocol { name, arguments } in protocols_in(&wanted) {
        offered.push(quoted(name.as_bytes()));
        let credentials = match credentials(name, arguments, server, session) {
            None => continue,
            Some(Err(fault)) => {
                refused.push(fault.reason);
                continue;
            }
            Some(Ok(credentials)) => credentials,
        };
        match session.exchange(Request::auth(name, &credentials), deadline) {
            Ok(Answer::Done(_)) => return Ok(()),
            Ok(_) => refused.push(format!("{name}: the server wants more credentials than there are")),
            Err(fault) if session.is_broken => return Err(fault),
            Err(fault) => refused.push(format!("{name}: {}", fault.reason)),
        }
    }
    let kind = if refused.is_empty() || offered.iter().any(|name| BY_XROOTD_CLIENT.contains(&name.as_str())) {
        StorageErrorKind::LoginUnknown
    } else {
        StorageErrorKind::Permission
    };
    let mut reason = format!("{} wants you to log in, by {}", session.link.server, offered.join(" or "));
    if refused.is_empty() {
        reason += "; this client supports unix, host, sss and ztn (a token, over roots://)";
    } else {
        reason += &format!("; these failed: {}", refused.join("; "));
    }
    Err(Fault::new(kind, reason))
}

/// A protocol that a server offers, and its arguments.
#[derive(Debug, PartialEq, Eq)]
struct Protocol<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The different protocols in `&P=name,arguments&P=...`, no more than are tried.
fn protocols_in(wanted: &str) -> Vec<Protocol<'_>> {
    let mut found: Vec<Protocol<'_>> = Vec::new();
    for one in wanted.trim_end_matches('\0').split("&P=").filter(|one| !one.is_empty()) {
        let (name, arguments) = one.split_once(',').unwrap_or((one, ""));
        let protocol = Protocol { name, arguments };
        if found.len() < LOGIN_PROTOCOLS_MAX && !found.contains(&protocol) {
            found.push(protocol);
        }
    }
    found
}

/// The credentials of a protocol; None for one that is not supported.
fn credentials(name: &str, arguments: &str, server: &Server, session: &Session) -> Option<Result<Vec<u8>>> {
    match name {
        "host" => Some(Ok(b"host\0".to_vec())),
        "unix" => Some(Ok(format!("unix\0{} {}\0", user_name(server), own_group()).into_bytes())),
        "ztn" => Some(token_credentials(session.link.is_secure())),
        "sss" => Some(session.link.own_address().and_then(|address| {
            let who = UserAndHost { user: &own_name(), group: &own_group(), address };
            shared_secret::credentials(arguments, &who)
        })),
        _ => None,
    }
}

/// Name, version, `T` for a token, its length with the final zero, and the token.
fn token_credentials(is_secure: bool) -> Result<Vec<u8>> {
    let fault = |reason: &str| Fault::new(StorageErrorKind::Permission, reason);
    if !is_secure {
        return Err(fault("ztn: a token is only sent over TLS, as roots:// has it"));
    }
    let token =
        token::bearer_token()?.ok_or_else(|| fault("ztn: there is no token in BEARER_TOKEN_FILE or BEARER_TOKEN"))?;
    let length = u16::try_from(token.len() + 1).map_err(|_| fault("ztn: the token is too long"))?;
    let mut credentials = b"ztn\0\0T\0\0".to_vec();
    credentials.extend(length.to_be_bytes());
    credentials.extend(token.as_bytes());
    // The zero that ends it, and two that a structure in the server's memory has.
    credentials.extend([0; 3]);
    Ok(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_is_tried_once_and_only_so_many() {
        let protocol = |name, arguments| Protocol { name, arguments };
        let found = protocols_in("&P=sss,0.13:/etc/keys&P=unix&P=unix&P=ztn,1,2\0");
        assert_eq!(found, [protocol("sss", "0.13:/etc/keys"), protocol("unix", ""), protocol("ztn", "1,2")]);
        let many: String = (0..10_000).map(|number| format!("&P=p{number}")).collect();
        assert_eq!(protocols_in(&many).len(), LOGIN_PROTOCOLS_MAX);
    }
}
