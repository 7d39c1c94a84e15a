//! Authenticates the user on a server with `unix`, `host`, a shared secret (`sss`) or a token (`ztn`).

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

/// Authentication protocols that only the official XRootD client supports.
const BY_XROOTD_CLIENT: &[&str] = &["gsi", "krb5", "pwd"];

/// Returns the user name for the login. Servers truncate the name to eight characters.
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

/// Returns the name that belongs to an ID in a file with lines of the form `name:...:id:...`; None if the file has no
/// such line.
fn name_in(list: &str, id: u32) -> Option<String> {
    let lines = fs::read_to_string(list).ok()?;
    let id = id.to_string();
    lines.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id).then(|| name.to_owned())
    })
}

/// Tries the authentication protocols in the order of the server's list until one succeeds. The list `wanted` has the
/// form `&P=name,arguments&P=...`.
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
            Ok(_) => refused.push(format!("{name}: the server asks for additional credentials")),
            Err(fault) if session.is_broken => return Err(fault),
            Err(fault) => refused.push(format!("{name}: {}", fault.reason)),
        }
    }
    let kind = if refused.is_empty() || offered.iter().any(|name| BY_XROOTD_CLIENT.contains(&name.as_str())) {
        StorageErrorKind::LoginUnknown
    } else {
        StorageErrorKind::Permission
    };
    let mut reason = format!("{} requires a login with {}", session.link.server, offered.join(" or "));
    if refused.is_empty() {
        reason += "; this client supports unix, host, sss and ztn (a token, over roots://)";
    } else {
        reason += &format!("; these failed: {}", refused.join("; "));
    }
    Err(Fault::new(kind, reason))
}

/// An authentication protocol that a server offers, with its arguments.
#[derive(Debug, PartialEq, Eq)]
struct Protocol<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// Returns the distinct protocols in a list of the form `&P=name,arguments&P=...`, but at most `LOGIN_PROTOCOLS_MAX`.
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

/// Returns the credentials for an authentication protocol; None if the protocol is not supported.
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

/// Encodes the user's token as credentials: protocol name, version, `T` for a token, length including the final zero,
/// and the token.
fn token_credentials(is_secure: bool) -> Result<Vec<u8>> {
    let fault = |reason: &str| Fault::new(StorageErrorKind::Permission, reason);
    if !is_secure {
        return Err(fault("ztn: a token is only sent over TLS; use roots://"));
    }
    let token = token::bearer_token()?.ok_or_else(|| fault("ztn: no token in BEARER_TOKEN_FILE or BEARER_TOKEN"))?;
    let length = u16::try_from(token.len() + 1).map_err(|_| fault("ztn: the token is too long"))?;
    let mut credentials = b"ztn\0\0T\0\0".to_vec();
    credentials.extend(length.to_be_bytes());
    credentials.extend(token.as_bytes());
    // A terminating zero, and the two bytes of padding at the end of the server's struct.
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
