//! The connection pool of this process. A connection serves any file on its server, but only one thread at a time.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::login::start;
use super::server::Server;
use super::session::{Answer, EarlyRequests, KnownServer, Session};
use super::wire::Request;
use crate::limits::{SESSIONS_MAX, SESSION_IDLE_MAX};
use crate::servers::failure::{Fault, Result};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// The pooled connections to one server.
#[derive(Default)]
struct Sessions {
    idle: Vec<Session>,
    busy_count: usize,
    /// Number of connections that are being established ahead of time for any reader. They are included in
    /// `busy_count`.
    expected_count: usize,
    /// Number of readers waiting for a connection.
    waiting_count: usize,
    /// Properties of the server, learned from earlier connections.
    known: KnownServer,
}

#[derive(Default)]
pub(super) struct Pool {
    servers: Mutex<HashMap<Server, Sessions>>,
    given_back: Condvar,
}

/// The current pool, and the ID of the process that created it.
static KEPT: Mutex<Option<(u32, Arc<Pool>)>> = Mutex::new(None);

/// Returns the pool of this process.
pub(super) fn pool() -> Arc<Pool> {
    let process = std::process::id();
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    match kept.as_ref() {
        Some((owner, pool)) if *owner == process => Arc::clone(pool),
        _ => {
            let pool = Arc::new(Pool::default());
            // After a fork, the connections belong to the parent process. Dropping them here would end the parent's
            // sessions on the servers.
            std::mem::forget(kept.replace((process, Arc::clone(&pool))));
            pool
        }
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, HashMap<Server, Sessions>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a connection to this server for exclusive use. Prefers a connection on which `file` is open, then an
    /// idle connection, a new connection, and the next connection that is returned to the pool. If `file` was not open
    /// on the connection, the file is opened, and the response to `open` is returned too.
    pub(super) fn take(
        self: &Arc<Self>,
        server: &Server,
        file: u64,
        open: Request,
        settings: &Settings,
    ) -> Result<(Taken, Option<Answer>)> {
        let deadline = Instant::now() + settings.time_limit(0);
        let mut servers = self.lock();
        loop {
            close_idle(&mut servers);
            let sessions = servers.entry(server.clone()).or_default();
            let has_file = sessions.idle.iter().position(|session| session.opened(file).is_some());
            let found = has_file.or_else(|| sessions.idle.len().checked_sub(1));
            let is_expected = sessions.expected_count > sessions.waiting_count;
            if found.is_some() || sessions.busy_count < SESSIONS_MAX && !is_expected {
                sessions.busy_count += 1;
                let known = sessions.known;
                let idle = found.map(|index| sessions.idle.swap_remove(index));
                drop(servers);
                let mut taken = Taken { session: idle, server: server.clone(), pool: Arc::clone(self) };
                let answer = taken.make_ready(file, open, settings, known)?;
                return Ok((taken, answer));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let reason = format!("all {SESSIONS_MAX} connections to {server} were busy for too long");
                return Err(Fault::new(StorageErrorKind::Timeout, reason));
            }
            sessions.waiting_count += 1;
            servers = self.given_back.wait_timeout(servers, left).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(sessions) = servers.get_mut(server) {
                sessions.waiting_count = sessions.waiting_count.saturating_sub(1);
            }
        }
    }

    /// Announces that another connection to this server will be established, if there are fewer than `count`. Readers
    /// that need a connection wait for the announced connection.
    pub(super) fn expect(self: &Arc<Self>, server: &Server, count: usize) -> Option<ExpectedConnection> {
        let mut servers = self.lock();
        let sessions = servers.entry(server.clone()).or_default();
        if sessions.busy_count + sessions.idle.len() >= count.min(SESSIONS_MAX) {
            return None;
        }
        sessions.busy_count += 1;
        sessions.expected_count += 1;
        let taken = Taken { session: None, server: server.clone(), pool: Arc::clone(self) };
        Some(ExpectedConnection { taken: Some(taken), server: server.clone(), pool: Arc::clone(self) })
    }

    /// Closes files without readers on the idle connections to `server`, and closes connections to any server that have
    /// been idle for too long.
    pub(super) fn close_unused(&self, server: &Server) {
        let mut servers = self.lock();
        close_idle(&mut servers);
        if let Some(sessions) = servers.get_mut(server) {
            sessions.idle.iter_mut().for_each(Session::close_unused);
            sessions.idle.retain(|session| !session.is_broken);
        }
    }
}

/// Closes connections that have been idle for too long. All servers are checked, since some may never be used again.
fn close_idle(servers: &mut HashMap<Server, Sessions>) {
    for sessions in servers.values_mut() {
        sessions.idle.retain(|session| session.last_used.elapsed() < SESSION_IDLE_MAX);
    }
}

/// An announced connection, which is being established for any reader. Once this object is dropped, readers no longer
/// wait for the connection.
pub(super) struct ExpectedConnection {
    taken: Option<Taken>,
    server: Server,
    pool: Arc<Pool>,
}

impl ExpectedConnection {
    /// Connects and opens the file; returns the connection, and the response to `open`.
    pub(super) fn start(&mut self, file: u64, open: Request, settings: &Settings) -> Result<(Taken, Option<Answer>)> {
        let known = self.pool.lock().get(&self.server).map(|sessions| sessions.known).unwrap_or_default();
        let once = || Fault::new(StorageErrorKind::Internal, "a connection was started twice");
        let mut taken = self.taken.take().ok_or_else(once)?;
        let answer = taken.make_ready(file, open, settings, known)?;
        Ok((taken, answer))
    }
}

impl Drop for ExpectedConnection {
    fn drop(&mut self) {
        drop(self.taken.take());
        if let Some(sessions) = self.pool.lock().get_mut(&self.server) {
            sessions.expected_count = sessions.expected_count.saturating_sub(1);
        }
        self.pool.given_back.notify_all();
    }
}

/// A connection in use. When dropped, the connection is returned to the pool, unless it is broken.
pub(super) struct Taken {
    session: Option<Session>,
    server: Server,
    pool: Arc<Pool>,
}

impl Taken {
    /// Connects if necessary, and opens the file if it is not yet open on this connection. Returns the response to
    /// `open`, if the file was opened.
    fn make_ready(
        &mut self,
        file: u64,
        mut open: Request,
        settings: &Settings,
        mut known: KnownServer,
    ) -> Result<Option<Answer>> {
        if let Some(session) = &mut self.session {
            session.wait_max = settings.wait_max;
            session.element.clone_from(&settings.element);
            session.link.set_silence(settings.silence)?;
        } else {
            let is_new = known.early_requests.is_none();
            if open.has_secrets() || is_new && open.has_query() {
                known.early_requests = Some(known.early_requests.unwrap_or_default().min(EarlyRequests::Login));
            }
            let (session, answer) = start(&self.server, settings, known, &mut open)?;
            self.pool.lock().entry(self.server.clone()).or_default().known.early_requests =
                Some(session.early_requests);
            self.session = Some(session);
            if answer.is_some() {
                return Ok(answer);
            }
        }
        if self.opened(file).is_some() {
            return Ok(None);
        }
        self.exchange(open, Instant::now() + settings.time_limit(0)).map(Some)
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

impl Deref for Taken {
    type Target = Session;

    #[allow(clippy::expect_used, reason = "no bytes from outside take the session away")]
    fn deref(&self) -> &Session {
        self.session.as_ref().expect("a connection has a session from make_ready until it is dropped")
    }
}

impl DerefMut for Taken {
    #[allow(clippy::expect_used, reason = "as above")]
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("a connection has a session from make_ready until it is dropped")
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let session = self.session.take().map(|mut session| {
            session.close_unused();
            session.last_used = Instant::now();
            session
        });
        let mut servers = self.pool.lock();
        let sessions = servers.entry(self.server.clone()).or_default();
        sessions.busy_count = sessions.busy_count.saturating_sub(1);
        sessions.known.limits = session.as_ref().and_then(Session::known_limits).or(sessions.known.limits);
        match session {
            Some(session) if !session.is_broken => sessions.idle.push(session),
            // The problem that ended this connection has probably ended the idle connections too.
            _ => sessions.idle.clear(),
        }
        drop(servers);
        self.pool.given_back.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::net::TcpListener;

    use super::super::link::Link;
    use super::*;

    #[test]
    fn connections_that_are_not_used_any_more_are_closed_whatever_server_they_lead_to() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = |port| Server { host: "127.0.0.1".to_owned(), port, secure: false, user: None };
        let used_before = server(listener.local_addr().unwrap().port());
        let settings = Settings::default();
        let pool = Pool::default();
        for age in [SESSION_IDLE_MAX, SESSION_IDLE_MAX / 2] {
            let mut session = Session::over(Link::connect(&used_before, &settings).unwrap(), &settings);
            session.last_used = Instant::now().checked_sub(age).unwrap();
            pool.lock().entry(used_before.clone()).or_default().idle.push(session);
        }
        pool.close_unused(&server(1));
        assert_eq!(pool.lock().get(&used_before).unwrap().idle.len(), 1);
    }
}
