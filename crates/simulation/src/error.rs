//! What cannot be simulated.

use std::fmt;

/// A value that makes no sense, in words for whoever gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

/// A result, or what cannot be simulated.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// A number that has to be above zero.
pub(crate) fn positive(value: f64, what: &str) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error(format!("{what} is {value}, and must be above 0")))
}

/// A number that may be zero.
pub(crate) fn not_negative(value: f64, what: &str) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error(format!("{what} is {value}, and must not be below 0")))
}
