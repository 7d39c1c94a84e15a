//! A plain or TLS connection on which every wait has a deadline.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::server::Server;
use crate::servers::addresses::reach;
use crate::servers::failure::{Fault, Result};
use crate::servers::tls;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Size of the receive buffer, larger than most responses. File data bypasses the buffer.
const BUFFER_BYTES: usize = 64 << 10;

enum Wire {
    Plain(TcpStream),
    Secure(Box<Secure>),
}

type Secure = StreamOwned<ClientConnection, TcpStream>;

/// A connection to a server.
pub(super) struct Link {
    wire: Option<Wire>,
    buffer: Box<[u8]>,
    /// Range of the received bytes in the buffer that have not been consumed.
    held: std::ops::Range<usize>,
    silence: Duration,
    /// Host and port, for messages.
    pub(super) server: String,
}

impl Link {
    pub(super) fn connect(server: &Server, settings: &Settings) -> Result<Self> {
        let name = server.to_string();
        let addresses = addresses_of(server, settings.connect_timeout)?;
        let connect = |address, limit| TcpStream::connect_timeout(&address, limit);
        let is_silence = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        match reach(&addresses, settings.connect_timeout, connect, is_silence) {
            Some(Ok(stream)) => Self::over(stream, name, settings.silence),
            Some(Err(error)) => Err(Fault::connection(&name, "while connecting", &error)),
            None => Err(Fault::connection(&name, "while connecting", &io::ErrorKind::AddrNotAvailable.into())),
        }
    }

    fn over(stream: TcpStream, server: String, silence: Duration) -> Result<Self> {
        let prepared = stream.set_nodelay(true);
        prepared.map_err(|error| Fault::connection(&server, "while connecting", &error))?;
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let wire = Some(Wire::Plain(stream));
        let mut link = Self { wire, buffer, held: 0..0, silence: Duration::ZERO, server };
        link.set_silence(silence)?;
        Ok(link)
    }

    /// Sets the silence timeout, which applies to every receive and send.
    pub(super) fn set_silence(&mut self, silence: Duration) -> Result<()> {
        if silence != self.silence {
            let stream = match &self.wire {
                Some(Wire::Plain(stream)) => stream,
                Some(Wire::Secure(secure)) => secure.get_ref(),
                None => return Err(self.lost()),
            };
            let set = stream.set_read_timeout(Some(silence)).and_then(|()| stream.set_write_timeout(Some(silence)));
            set.map_err(|error| Fault::connection(&self.server, "while connecting", &error))?;
            self.silence = silence;
        }
        Ok(())
    }

    /// Raises the silence timeout to `announced`, a wait that the server has announced.
    pub(super) fn allow_silence(&mut self, announced: Duration) -> Result<()> {
        self.set_silence(announced.max(self.silence))
    }

    /// Returns the client's address as seen by the server, unless NAT changes the address.
    pub(super) fn own_address(&self) -> Result<SocketAddr> {
        let stream = match &self.wire {
            Some(Wire::Plain(stream)) => stream,
            Some(Wire::Secure(secure)) => secure.get_ref(),
            None => return Err(self.lost()),
        };
        stream.local_addr().map_err(|error| Fault::connection(&self.server, "while logging in", &error))
    }

    pub(super) fn is_secure(&self) -> bool {
        matches!(self.wire, Some(Wire::Secure(_)))
    }

    /// Switches the connection to TLS, starting at the next byte in both directions.
    pub(super) fn secure(&mut self, host: &str, deadline: Instant) -> Result<()> {
        let refused = |reason: String| {
            Fault::new(StorageErrorKind::Refused, format!("no secure connection to {}: {reason}", self.server))
        };
        if !self.held.is_empty() {
            return Err(Fault::protocol(&self.server, "plain bytes before the TLS handshake"));
        }
        let name = ServerName::try_from(host.to_owned()).map_err(|error| refused(error.to_string()))?;
        let connection = ClientConnection::new(configuration()?, name).map_err(|error| refused(error.to_string()))?;
        let Some(Wire::Plain(stream)) = self.wire.take() else { return Err(self.lost()) };
        let mut secure = StreamOwned::new(connection, stream);
        let mut shake_hands = || {
            while secure.conn.is_handshaking() {
                send_tls(&mut secure)?;
                if secure.conn.is_handshaking() {
                    receive_tls(&mut secure, deadline)?;
                }
            }
            send_tls(&mut secure)
        };
        shake_hands().map_err(|error| self.tls_fault(&error))?;
        self.wire = Some(Wire::Secure(Box::new(secure)));
        Ok(())
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        let sent = match &mut self.wire {
            Some(Wire::Plain(stream)) => stream.write_all(bytes),
            Some(Wire::Secure(secure)) => secure.write_all(bytes).and_then(|()| secure.flush()),
            None => return Err(self.lost()),
        };
        sent.map_err(|error| Fault::connection(&self.server, "while a request was sent", &error))
    }

    /// Fills `room`, first with bytes from the buffer and then with bytes from the connection.
    pub(super) fn receive(&mut self, room: &mut [u8], deadline: Instant) -> Result<()> {
        let mut filled = 0;
        while filled < room.len() {
            if self.held.is_empty() {
                let left = &mut room[filled..];
                // Large reads bypass the buffer to avoid a copy.
                if left.len() >= BUFFER_BYTES {
                    filled += receive_some(&mut self.wire, left, deadline).map_err(|error| self.tls_fault(&error))?;
                    continue;
                }
                let count = receive_some(&mut self.wire, &mut self.buffer, deadline);
                self.held = 0..count.map_err(|error| self.tls_fault(&error))?;
            }
            let count = self.held.len().min(room.len() - filled);
            room[filled..filled + count].copy_from_slice(&self.buffer[self.held.start..self.held.start + count]);
            self.held.start += count;
            filled += count;
        }
        Ok(())
    }

    fn lost(&self) -> Fault {
        Fault::new(StorageErrorKind::Unreachable, format!("the connection to {} was lost", self.server))
    }

    fn tls_fault(&self, error: &io::Error) -> Fault {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        match inner {
            Some(error) => tls::fault_of(&self.server, error),
            None => Fault::connection(&self.server, "while waiting for an answer", error),
        }
    }
}

/// Waits until one of these connections has data, and returns the connection's index. Fails at the deadline, or after
/// the silence timeout.
pub(super) fn first_readable(links: &[&Link], deadline: Instant) -> Result<usize> {
    if let Some(index) = links.iter().position(|link| !link.held.is_empty()) {
        return Ok(index);
    }
    let Some(first) = links.first() else { return Ok(0) };
    let fault = |error: &io::Error| Fault::connection(&first.server, "while waiting for an answer", error);
    let mut waits = Vec::with_capacity(links.len());
    for link in links {
        let Some(Wire::Plain(stream)) = &link.wire else { return Err(link.lost()) };
        waits.push(PollFd::new(stream, PollFlags::IN));
    }
    let until = deadline.min(Instant::now() + first.silence);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let time = Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ };
        match poll(&mut waits, Some(&time)) {
            Ok(0) => return Err(fault(&io::ErrorKind::TimedOut.into())),
            // Errors of the connection are not checked here, because receiving will report them.
            Ok(_) => return Ok(waits.iter().position(|wait| !wait.revents().is_empty()).unwrap_or(0)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(fault(&error.into())),
        }
    }
}

/// Resolves a host's addresses. Uses a separate thread, because the system's resolver has no timeout.
fn addresses_of(server: &Server, timeout: Duration) -> Result<Vec<SocketAddr>> {
    if let Ok(address) = server.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, server.port)]);
    }
    let (found, addresses) = mpsc::channel();
    let name = (server.host.clone(), server.port);
    let look_up = move || {
        // Errors are ignored, because the receiver is gone after a timeout.
        let _ = found.send(name.to_socket_addrs().map(Iterator::collect));
    };
    std::thread::Builder::new()
        .name("branchline-lookup".to_owned())
        .spawn(look_up)
        .map_err(|error| Fault::io(&error))?;
    let found = addresses.recv_timeout(timeout).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    found.map_err(|error: io::Error| {
        Fault::new(StorageErrorKind::Unreachable, format!("the host of {server} is unknown: {error}"))
    })
}

/// Receives at least one byte, or fails; returns the number of bytes.
fn receive_some(wire: &mut Option<Wire>, room: &mut [u8], deadline: Instant) -> io::Result<usize> {
    if Instant::now() >= deadline {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let count = match wire {
        Some(Wire::Plain(stream)) => retry_interrupted(|| stream.read(room))?,
        Some(Wire::Secure(secure)) => receive_secure(secure, room, deadline)?,
        None => 0,
    };
    if count == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(count)
}

/// Receives decrypted bytes. Encrypted bytes are read here, because rustls would read them without checking the
/// deadline.
fn receive_secure(secure: &mut Secure, room: &mut [u8], deadline: Instant) -> io::Result<usize> {
    loop {
        match secure.conn.reader().read(room) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        receive_tls(secure, deadline)?;
        send_tls(secure)?;
    }
}

fn receive_tls(secure: &mut Secure, deadline: Instant) -> io::Result<()> {
    if Instant::now() >= deadline {
        return Err(io::ErrorKind::TimedOut.into());
    }
    if retry_interrupted(|| secure.conn.read_tls(&mut secure.sock))? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match secure.conn.process_new_packets() {
        Ok(_) => Ok(()),
        Err(error) => {
            // Sends the TLS alert to the server, if the server still listens.
            let _ = send_tls(secure);
            Err(io::Error::new(io::ErrorKind::InvalidData, error))
        }
    }
}

fn send_tls(secure: &mut Secure) -> io::Result<()> {
    while secure.conn.wants_write() {
        retry_interrupted(|| secure.conn.write_tls(&mut secure.sock))?;
    }
    Ok(())
}

fn retry_interrupted(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn configuration() -> Result<Arc<ClientConfig>> {
    let refused = |error: rustls::Error| Fault::new(StorageErrorKind::Refused, format!("TLS cannot be used: {error}"));
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(tls::authorities());
    let builder = ClientConfig::builder_with_provider(tls::provider());
    let builder = builder.with_safe_default_protocol_versions().map_err(refused)?.with_root_certificates(roots);
    Ok(Arc::new(match tls::own().identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = identity.key()?;
            builder.with_client_auth_cert(identity.chain, key).map_err(refused)?
        }
    }))
}
