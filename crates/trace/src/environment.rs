//! Names of all environment variables that the engine reads.
//!
//! ```
//! use branchline_trace::environment::{NAMES, TRACE};
//!
//! assert!(NAMES.contains(&TRACE));
//! ```

/// Folder for traces; each process writes its requests to a file there.
pub const TRACE: &str = "BRANCHLINE_TRACE";
/// `off` disables the clocks of the sensors.
pub const SENSORS: &str = "BRANCHLINE_SENSORS";
/// Seconds after which a running decoder is considered stuck.
pub const DECODER_STUCK: &str = "BRANCHLINE_DECODER_STUCK";
/// Seconds without a response after which a request to a server times out.
pub const STORAGE_TIMEOUT: &str = "BRANCHLINE_STORAGE_TIMEOUT";
/// Maximum total seconds of waits requested by a server.
pub const STORAGE_WAIT: &str = "BRANCHLINE_STORAGE_WAIT";
/// Maximum number of attempts per request.
pub const STORAGE_TRIES: &str = "BRANCHLINE_STORAGE_TRIES";
/// Seconds before the first retry. Each later pause is twice as long.
pub const STORAGE_PAUSE: &str = "BRANCHLINE_STORAGE_PAUSE";

/// All of these variables.
pub const NAMES: [&str; 7] =
    [TRACE, SENSORS, DECODER_STUCK, STORAGE_TIMEOUT, STORAGE_WAIT, STORAGE_TRIES, STORAGE_PAUSE];
