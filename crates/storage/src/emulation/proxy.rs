//! A TCP proxy that emulates a slow link and injects faults, usable with any client.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{poll, PollFd, PollFlags};
use rustix::net::sockopt::set_socket_linger;

use super::delay_line::{DelayLine, Load, Piece};
use super::draw::drawn;
use super::fault_plan::{next, FaultKind, FaultPlan};
use super::shared_link::{sleep_until, Direction, Link};
use super::throttle::Throttle;
use crate::limits::CONNECT_TIMEOUT;

/// Maximum time by which a connection may be ahead of the bandwidth limit. This compensates for threads that wake up
/// late. It is also the time slice of a connection before other connections can send.
const AHEAD: Duration = Duration::from_millis(2);
/// Maximum size of a read buffer, used without a bandwidth limit.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// Minimum size of a read buffer: the payload of one packet.
const PIECE_BYTES_MIN: usize = 1460;
/// Maximum number of received bytes that are copied to a smaller buffer, so that the large buffer can be reused
/// immediately.
const COPIED_BYTES_MAX: usize = 32 << 10;
/// Maximum number of buffers that are kept for reuse: enough for the data in flight at 100 ms and 600 MB/s.
const FREE_BUFFERS_MAX: usize = (64 << 20) / PIECE_BYTES_MAX;

/// Traffic counters of a proxy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Number of connections made.
    pub connections_count: u64,
    /// Number of bytes from clients to the server.
    pub to_server_bytes: u64,
    /// Number of bytes from the server to clients.
    pub to_client_bytes: u64,
    /// Number of responses that were replaced by a fault.
    pub faults_count: u64,
}

#[derive(Debug, Default)]
struct Counted {
    connections: AtomicU64,
    to_server: AtomicU64,
    to_client: AtomicU64,
    requests: AtomicU64,
    faults: AtomicU64,
}

/// A running proxy. All connections share one emulated link, and are closed when the proxy is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Socket whose closing stops the acceptor thread.
    is_open: Option<UnixStream>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    target: Vec<SocketAddr>,
    link: Link,
    plan: Option<FaultPlan>,
    counted: Counted,
    is_closed: AtomicBool,
    connections: Mutex<Vec<Weak<Connection>>>,
    free: Mutex<Vec<Vec<u8>>>,
}

impl Shared {
    /// Returns a free buffer, or a new buffer with `bytes` bytes if no buffer is free.
    fn buffer(&self, bytes: usize) -> Vec<u8> {
        lock(&self.free).pop().unwrap_or_else(|| vec![0; bytes])
    }

    /// Keeps a buffer for reuse, if it is large and not too many buffers are free.
    fn give_back(&self, buffer: Vec<u8>) {
        let mut free = lock(&self.free);
        if buffer.len() > COPIED_BYTES_MAX && free.len() < FREE_BUFFERS_MAX {
            free.push(buffer);
        }
    }
}

/// A proxied connection, with its client side and its server side.
#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    /// Time at which the TCP handshake over the emulated link would be complete.
    ready: Instant,
    to_server: DelayLine,
    to_client: DelayLine,
    /// Fault to inject into the next bytes from the server, if any.
    fault: Mutex<Option<FaultKind>>,
}

impl Proxy {
    /// Starts a proxy that listens at `listen` and forwards every connection to `target`. Both addresses have the form
    /// `host:port`. Port 0 picks a free port.
    pub fn start(listen: &str, target: &str, throttle: Throttle, plan: Option<FaultPlan>) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let target: Vec<SocketAddr> = target.to_socket_addrs()?.collect();
        let shared = Arc::new(Shared {
            target,
            link: Link::new(throttle),
            plan,
            counted: Counted::default(),
            is_closed: AtomicBool::new(false),
            connections: Mutex::default(),
            free: Mutex::default(),
        });
        let (address, own) = (listener.local_addr()?, Arc::clone(&shared));
        let (is_open, end) = UnixStream::pair()?;
        let acceptor = spawn(move || accept_all(&listener, &end, &own))?;
        Ok(Self { address, shared, is_open: Some(is_open), acceptor: Some(acceptor) })
    }

    /// Returns the address at which the proxy listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the traffic counters.
    pub fn counts(&self) -> ProxyCounts {
        let counted = &self.shared.counted;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ProxyCounts {
            connections_count: of(&counted.connections),
            to_server_bytes: of(&counted.to_server),
            to_client_bytes: of(&counted.to_client),
            faults_count: of(&counted.faults),
        }
    }

    /// Closes all connections and stops listening.
    pub fn close(&mut self) {
        self.shared.is_closed.store(true, Ordering::Release);
        // Dropping the socket wakes up the acceptor. Connecting to the proxy instead could block if its address is
        // gone.
        self.is_open = None;
        let Some(acceptor) = self.acceptor.take() else { return };
        drop(acceptor.join());
        let connections = std::mem::take(&mut *lock(&self.shared.connections));
        connections.iter().filter_map(Weak::upgrade).for_each(|connection| connection.close());
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("branchline-proxy".to_owned()).spawn(work)
}

/// Accepts connections until the socket at the other end of `end` is closed.
fn accept_all(listener: &TcpListener, end: &UnixStream, shared: &Arc<Shared>) {
    loop {
        // Errors are ignored, because the loop repeats an interrupted poll.
        let _ = poll(&mut [PollFd::new(listener, PollFlags::IN), PollFd::new(end, PollFlags::IN)], None);
        if shared.is_closed.load(Ordering::Acquire) {
            return;
        }
        let client = match listener.accept() {
            Ok((client, _)) => client,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(_) => {
                // Waits after an error that may be temporary, such as too many open files.
                std::thread::sleep(AHEAD);
                continue;
            }
        };
        let ready = Instant::now() + shared.link.throttle.latency;
        let shared = Arc::clone(shared);
        // If a connection to the target fails, the client's socket is dropped, which closes the connection.
        let _ = spawn(move || {
            let _ = serve(client, ready, &shared);
        });
    }
}

/// Connects to the target and starts forwarding in both directions.
fn serve(client: TcpStream, ready: Instant, shared: &Arc<Shared>) -> io::Result<()> {
    let mut server = Err(io::Error::from(ErrorKind::AddrNotAvailable));
    for address in &shared.target {
        server = TcpStream::connect_timeout(address, CONNECT_TIMEOUT);
        if server.is_ok() {
            break;
        }
    }
    let server = server?;
    // On some systems, an accepted socket inherits this flag from the listener.
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let connection = Arc::new(Connection {
        client,
        server,
        ready,
        to_server: DelayLine::default(),
        to_client: DelayLine::default(),
        fault: Mutex::default(),
    });
    let mut connections = lock(&shared.connections);
    connections.retain(|one| one.strong_count() > 0);
    connections.push(Arc::downgrade(&connection));
    drop(connections);
    if shared.is_closed.load(Ordering::Acquire) {
        connection.close();
    }
    shared.counted.connections.fetch_add(1, Ordering::Relaxed);
    // The connection is closed if a thread cannot be started, since it would hang without all its threads.
    carry(&connection, shared).inspect_err(|_| connection.close())
}

/// Starts the threads that forward the bytes of a connection.
fn carry(connection: &Arc<Connection>, shared: &Arc<Shared>) -> io::Result<()> {
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (own, of) = (Arc::clone(connection), Arc::clone(shared));
        spawn(move || own.receive(direction, &of))?;
        let (own, of) = (Arc::clone(connection), Arc::clone(shared));
        spawn(move || own.send(direction, &of))?;
    }
    Ok(())
}

impl Connection {
    fn line(&self, direction: Direction) -> &DelayLine {
        match direction {
            Direction::ToServer => &self.to_server,
            Direction::ToClient => &self.to_client,
        }
    }

    /// Receives bytes from one side at the rate of the link, and queues them for the other side.
    fn receive(&self, direction: Direction, shared: &Shared) {
        let link = &shared.link;
        let mut from = if direction == Direction::ToServer { &self.client } else { &self.server };
        let by_rate = link.throttle.bytes_per_second.map(|rate| (rate * AHEAD.as_secs_f64()) as usize);
        let room_bytes = by_rate.unwrap_or(PIECE_BYTES_MAX).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let mut room = shared.buffer(room_bytes);
        let mut last_due = Instant::now();
        loop {
            let count = match from.read(&mut room) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.close(),
            };
            let now = Instant::now();
            let mut arrival = now;
            if direction == Direction::ToServer {
                arrival = link.take_request(now.max(self.ready) + link.jitter());
                self.count_request(shared);
            }
            let passed = link.pass(direction, arrival, count as u64);
            last_due = last_due.max(passed + link.one_way());
            let load = match count {
                ..=COPIED_BYTES_MAX => Load { buffer: room[..count].to_vec(), length: count },
                _ => Load { buffer: std::mem::replace(&mut room, shared.buffer(room_bytes)), length: count },
            };
            let pieces = match (direction, count) {
                (_, 0) => vec![Piece::End],
                (Direction::ToServer, _) => vec![Piece::Bytes(load)],
                (Direction::ToClient, _) => self.with_fault(load, shared),
            };
            let is_last = !pieces.iter().all(|piece| matches!(piece, Piece::Bytes(_)));
            if !pieces.into_iter().all(|piece| self.line(direction).put(last_due, piece)) || is_last {
                return;
            }
            if let Some(early) = passed.checked_sub(AHEAD) {
                sleep_until(early);
            }
        }
    }

    /// Counts a request, and decides whether its response will fail.
    fn count_request(&self, shared: &Shared) {
        let number = next(&shared.counted.requests);
        if let Some(kind) = shared.plan.as_ref().and_then(|plan| plan.hit("proxy", number)) {
            *lock(&self.fault) = Some(kind);
        }
    }

    /// Returns bytes from the server as pieces, after injecting the pending fault, if any.
    fn with_fault(&self, mut load: Load, shared: &Shared) -> Vec<Piece> {
        let (Some(kind), Some(plan)) = (lock(&self.fault).take(), &shared.plan) else {
            return vec![Piece::Bytes(load)];
        };
        let number = next(&shared.counted.faults);
        match kind {
            FaultKind::Stall => {
                self.to_client.wait_until_closed(plan.stall);
                vec![Piece::Bytes(load)]
            }
            FaultKind::Hang => {
                self.to_client.wait_until_closed(None);
                Vec::new()
            }
            FaultKind::Reset | FaultKind::Missing => vec![Piece::Cut],
            FaultKind::Short => {
                load.length /= 2;
                vec![Piece::Bytes(load), Piece::End]
            }
            FaultKind::Wrong => {
                let place = drawn(plan.seed, ("byte", number)) % load.length as u64;
                load.buffer[place as usize] ^= 1;
                vec![Piece::Bytes(load)]
            }
        }
    }

    /// Sends the bytes whose emulated delay has passed to the other side.
    fn send(&self, direction: Direction, shared: &Shared) {
        let (mut to, count) = match direction {
            Direction::ToServer => (&self.server, &shared.counted.to_server),
            Direction::ToClient => (&self.client, &shared.counted.to_client),
        };
        loop {
            match self.line(direction).take() {
                Some(Piece::Bytes(load)) => {
                    // The bytes are counted before they are sent, because the receiver may read the counters
                    // immediately afterwards.
                    count.fetch_add(load.length as u64, Ordering::Relaxed);
                    if to.write_all(load.bytes()).is_err() {
                        return self.close();
                    }
                    shared.give_back(load.buffer);
                }
                Some(Piece::End) => {
                    // Only this direction ends, because the other direction may continue.
                    let _ = to.shutdown(Shutdown::Write);
                    return;
                }
                Some(Piece::Cut) => {
                    return self.cut();
                }
                None => return,
            }
        }
    }

    /// Resets the connection, so that the client does not see a regular end of the stream. The system sends the reset
    /// when the socket is closed, which happens only after all threads have stopped waiting on it.
    fn cut(&self) {
        let _ = set_socket_linger(&self.client, Some(Duration::ZERO));
        self.to_server.close();
        self.to_client.close();
        let _ = self.client.shutdown(Shutdown::Read);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn close(&self) {
        self.to_server.close();
        self.to_client.close();
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }
}
