//! Connects to a server and logs in, with as few round trips as possible.

use std::time::Instant;

use super::identify::{identify, user_name};
use super::link::Link;
use super::server::Server;
use super::session::{Answer, EarlyRequests, KnownServer, Session};
use super::wire::{self, flags, number, Request};
use crate::servers::failure::{Fault, Result};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Outcome of an attempt to log in.
enum Started {
    /// The session, and the response to the first request if that request was sent early.
    Ready(Box<Session>, Option<Answer>),
    /// The server did not accept the early requests. The client must reconnect, sending only these early requests.
    Again(EarlyRequests),
}

/// Connects and logs in. If the server accepts early requests, also sends `first` before the login is complete: see
/// [`EarlyRequests`].
pub(super) fn start(
    server: &Server,
    settings: &Settings,
    known: KnownServer,
    first: &mut Request,
) -> Result<(Session, Option<Answer>)> {
    let mut early = if server.secure { EarlyRequests::Nothing } else { known.early_requests.unwrap_or_default() };
    loop {
        let mut session = Session::over(Link::connect(server, settings)?, settings);
        if let Some(limits) = known.limits {
            session.limits = limits;
        }
        let knows_limits = known.limits.is_some();
        let fewer = match log_in(session, server, settings, early, knows_limits, first) {
            Ok(Started::Ready(session, answer)) => return Ok((*session, answer)),
            Ok(Started::Again(fewer)) => fewer,
            // The server may have closed the connection because of an unexpected early request.
            Err(Fault { kind: StorageErrorKind::Unreachable | StorageErrorKind::Protocol, .. })
                if early != EarlyRequests::Nothing =>
            {
                EarlyRequests::Nothing
            }
            Err(fault) => return Err(fault),
        };
        if fewer >= early {
            return Err(Fault::protocol(&server.to_string(), "different requirements at each login"));
        }
        early = fewer;
    }
}

fn log_in(
    mut session: Session,
    server: &Server,
    settings: &Settings,
    early: EarlyRequests,
    knows_limits: bool,
    first: &mut Request,
) -> Result<Started> {
    let deadline = Instant::now() + settings.time_limit(0);
    session.link.send(&wire::HANDSHAKE)?;
    // The response to the handshake is ignored. It arrives on stream 0, which no request uses.
    session.forgotten.insert(0);
    let (mut protocol, mut login) = (Request::protocol(server.secure), Request::login(&user_name(server)));
    let protocol_stream = session.send(&mut protocol)?;
    let early_login = if early >= EarlyRequests::Login { Some(session.send(&mut login)?) } else { None };
    let early_first = if early == EarlyRequests::LoginAndFirst { Some(session.send(first)?) } else { None };
    let asks_limits_early = early_first.is_some() && !knows_limits;
    if asks_limits_early {
        session.request_limits()?;
    }
    let can = session.answer_to(&mut protocol, protocol_stream, deadline)?;
    let can = number(&session.done(can)?, 4)
        .ok_or_else(|| Fault::protocol(&session.link.server, "no list of its features"))?;
    session.limits.pages = can & flags::PAGES != 0;
    session.is_data_server = can & (flags::DATA_SERVER | flags::REDIRECTOR) == flags::DATA_SERVER;
    let is_plain = !server.secure && can & (flags::TLS_NOW | flags::TLS_AFTER_LOGIN) == 0;
    if server.secure && can & flags::TLS_THERE == 0 {
        let reason = format!("{} does not support TLS, which roots:// requires", session.link.server);
        return Err(Fault::new(StorageErrorKind::Refused, reason));
    }
    if early_login.is_some() && !is_plain {
        return Ok(Started::Again(EarlyRequests::Nothing));
    }
    if can & flags::TLS_NOW != 0 || server.secure {
        session.link.secure(&server.host, deadline)?;
    }
    let login_stream = early_login.map_or_else(|| session.send(&mut login), Ok)?;
    let login = session.answer_to(&mut login, login_stream, deadline)?;
    let login = session.done(login)?;
    if can & flags::TLS_AFTER_LOGIN != 0 && !session.link.is_secure() {
        session.link.secure(&server.host, deadline)?;
    }
    // The response contains a session ID of 16 bytes, followed by the server's authentication requirements.
    let wanted = login.get(16..).unwrap_or_default();
    session.login = login.first_chunk().copied().unwrap_or_default();
    if early_first.is_some() && !wanted.is_empty() {
        return Ok(Started::Again(EarlyRequests::Login));
    }
    if !wanted.is_empty() {
        identify(&mut session, server, wanted, deadline)?;
    }
    session.early_requests = match (is_plain, wanted.is_empty()) {
        (true, true) => EarlyRequests::LoginAndFirst,
        (true, false) => EarlyRequests::Login,
        (false, _) => EarlyRequests::Nothing,
    };
    if !knows_limits && !asks_limits_early {
        session.request_limits()?;
    }
    let answer = match early_first.map(|stream| session.answer_to(first, stream, deadline)) {
        Some(Err(fault)) if session.is_broken => return Err(fault),
        // The request may have been refused only because it was sent too early. The caller sends it again.
        answer => answer.and_then(Result::ok),
    };
    Ok(Started::Ready(Box::new(session), answer))
}
