//! Connects HTTP to the first reachable address of a host.

use std::io;
use std::net::TcpStream;
use std::time::Duration;

use ureq::unversioned::transport::{ConnectionDetails, Connector, Either, Transport};
use ureq::Error;

use super::tcp::Tcp;
use crate::servers::addresses::reach;

/// Connector that tries the addresses of a host in the order of [`reach`], as all network clients do.
#[derive(Debug, Default)]
pub(super) struct FirstReachable;

impl<T: Transport> Connector<T> for FirstReachable {
    type Out = Either<T, Tcp>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<T>) -> Result<Option<Self::Out>, Error> {
        // A connection through a proxy has already been established.
        if let Some(chained) = chained {
            return Ok(Some(Either::A(chained)));
        }
        let connect = |address, limit: Duration| TcpStream::connect_timeout(&address, limit);
        let is_silence = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        let limit = details.timeout.not_zero().map_or(Duration::MAX, |limit| *limit);
        match reach(&details.addrs, limit, connect, is_silence) {
            Some(Ok(stream)) => Ok(Some(Either::B(Tcp::over(stream)?))),
            Some(Err(error)) if is_silence(&error) => Err(Error::Timeout(details.timeout.reason)),
            Some(Err(error)) => Err(Error::Io(error)),
            None => Err(Error::HostNotFound),
        }
    }
}
