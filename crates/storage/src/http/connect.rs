//! Connects HTTP to the first address of a host that answers.

use std::time::Duration;

use ureq::unversioned::transport::{ConnectionDetails, Connector, NextTimeout, TcpConnector, Transport};
use ureq::Error;

use crate::addresses::reach;

/// Tries the addresses of a host in the order of [`reach`], as all storages do.
#[derive(Debug, Default)]
pub(super) struct FirstReachable(TcpConnector);

impl<T: Transport> Connector<T> for FirstReachable {
    type Out = <TcpConnector as Connector<T>>::Out;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<T>) -> Result<Option<Self::Out>, Error> {
        // A connection through a proxy is there already.
        if chained.is_some() || details.addrs.len() < 2 {
            return self.0.connect(details, chained);
        }
        let connect = |address, limit: Duration| {
            let mut addrs = details.resolver.empty();
            addrs.push(address);
            let one = ConnectionDetails {
                uri: details.uri,
                addrs,
                config: details.config,
                request_level: details.request_level,
                resolver: details.resolver,
                now: (details.current_time)(),
                timeout: NextTimeout { after: limit.into(), ..details.timeout },
                current_time: details.current_time.clone(),
                run_connector: details.run_connector.clone(),
                register_shutdown: details.register_shutdown.clone(),
            };
            self.0.connect(&one, None)
        };
        let is_silence = |error: &Error| matches!(error, Error::Timeout(_));
        reach(&details.addrs, *details.timeout.after, connect, is_silence).unwrap_or(Err(Error::HostNotFound))
    }
}
