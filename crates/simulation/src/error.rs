//! Errors for invalid input.

/// An invalid value, with a message for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

/// Result of an operation with user input.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns the value if it is finite and positive.
pub(crate) fn positive(value: f64, what: &str) -> Result<f64> {
    if value.is_finite() && value > 0.0 {
        return Ok(value);
    }
    Err(Error(format!("{what} must be above 0, got {value}")))
}

/// Returns the value if it is finite and not negative.
pub(crate) fn not_negative(value: f64, what: &str) -> Result<f64> {
    if value.is_finite() && value >= 0.0 {
        return Ok(value);
    }
    Err(Error(format!("{what} must not be below 0, got {value}")))
}
