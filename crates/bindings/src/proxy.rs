//! A proxy that emulates slow and unreliable connections.

use std::sync::{Mutex, PoisonError};

use branchline_storage as storage;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;

/// Traffic counters of a proxy.
#[pyclass(frozen, get_all)]
pub struct ProxyCounts {
    connections: u64,
    to_server_bytes: u64,
    to_client_bytes: u64,
    faults: u64,
}

/// A running proxy. Closing it ends its connections.
#[pyclass(frozen)]
pub struct Proxy(Mutex<storage::Proxy>);

#[pymethods]
impl Proxy {
    #[new]
    #[pyo3(signature = (listen, target, throttle, fault=None))]
    fn new(py: Python<'_>, listen: &str, target: &str, throttle: &str, fault: Option<&str>) -> PyResult<Self> {
        let throttle: storage::Throttle = throttle.parse().map_err(PyValueError::new_err)?;
        let plan: Option<storage::FaultPlan> = fault.map(str::parse).transpose().map_err(PyValueError::new_err)?;
        let started = py.detach(|| storage::Proxy::start(listen, target, throttle, plan));
        let proxy = started.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self(Mutex::new(proxy)))
    }

    /// The proxy's address as `host:port`.
    #[getter]
    fn address(&self) -> String {
        self.proxy().address().to_string()
    }

    #[getter]
    fn port(&self) -> u16 {
        self.proxy().address().port()
    }

    /// Returns the traffic counters.
    fn counts(&self) -> ProxyCounts {
        let counts = self.proxy().counts();
        ProxyCounts {
            connections: counts.connections_count,
            to_server_bytes: counts.to_server_bytes,
            to_client_bytes: counts.to_client_bytes,
            faults: counts.faults_count,
        }
    }

    /// Closes all connections and stops listening.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.proxy().close());
    }
}

impl Proxy {
    fn proxy(&self) -> std::sync::MutexGuard<'_, storage::Proxy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises ValueError if `throttle` or `fault` is invalid.
#[pyfunction]
#[pyo3(signature = (throttle=None, fault=None))]
pub fn check_trouble(throttle: Option<&str>, fault: Option<&str>) -> PyResult<()> {
    throttle.map(str::parse::<storage::Throttle>).transpose().map_err(PyValueError::new_err)?;
    fault.map(str::parse::<storage::FaultPlan>).transpose().map_err(PyValueError::new_err)?;
    Ok(())
}
