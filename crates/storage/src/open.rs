//! Opens the store for a path or URL.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use branchline_trace::environment::TRACE;
use branchline_trace::journal;

use crate::bridge::{self, BridgedFile, Library};
use crate::http::{is_set_for_fsspec, HttpFile};
use crate::limits::EXPECTED_ROUND_TRIP;
use crate::local::mounted;
use crate::replicas::{avoid, is_avoided, is_silence, is_silent, nearest_in, note_silence, open_patiently};
use crate::replicas::{replicas_in, trust, Replicated};
use crate::s3::open_s3;
use crate::secrets::without_secrets;
use crate::servers::failure::Fault;
use crate::servers::url::element_of;
use crate::settings::links::{link_to, Link, Measured};
use crate::settings::Settings;
use crate::{
    Access, AccessMode, Cached, Faulty, ReadAhead, Result, Staged, StorageError, StorageErrorKind, Store, Throttled,
    XrootdFile,
};

/// Base directory of relative paths; None for the process's working directory.
static BASE: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Sets the base directory of relative paths, which replaces the working directory; None restores the working
/// directory.
pub fn set_base_directory(directory: Option<PathBuf>) {
    *BASE.write().unwrap_or_else(PoisonError::into_inner) = directory;
}

/// Resolves a local path against the base directory. Absolute paths are not changed.
fn location_of(path: &str) -> PathBuf {
    let base = BASE.read().unwrap_or_else(PoisonError::into_inner);
    base.as_deref().map_or_else(|| PathBuf::from(path), |directory| directory.join(path))
}

/// Opens a file for reading. `path` is a plain path, or a URL with the scheme `file`, `http`, `https`, `dav`, `davs`,
/// `s3`, `webhdfs`, `root`, `roots`, `xroot` or `xroots`; Python libraries read all other schemes. Several paths
/// separated by ` | ` are replicas of one file.
pub fn open(path: &str, access: &Access) -> Result<Arc<dyn Store>> {
    begin_trace()?;
    let store = kept_near(path, access)?;
    Ok(match access.read_ahead_bytes {
        None => store,
        Some(buffer_bytes) => Arc::new(ReadAhead::new(store, buffer_bytes)),
    })
}

/// Starts recording the trace that is requested by an environment variable. If the trace cannot be written, the error
/// names the variable, since no file is at fault.
fn begin_trace() -> Result<()> {
    let unwritable = |error: std::io::Error| {
        let folder = std::env::var_os(TRACE).unwrap_or_default();
        let folder = folder.to_string_lossy();
        let reason = format!("{TRACE}={folder}: the trace cannot be written there: {error}");
        StorageError::option(&folder, reason)
    };
    journal::begin_from_environment().map_err(unwritable)
}

/// Returns the size and identity of a file on a server, for optional uses. Each replica is tried once, with a short
/// timeout that does not exceed the timeout of `access`. Storage elements that were recently silent are skipped.
pub fn size_and_identity(path: &str, access: &Access) -> Result<(u64, Option<String>)> {
    let settings = Settings::from_environment()?.chosen(access).once();
    let mut last = None;
    for replica in replicas_in(path) {
        let element = element_of(replica);
        if is_avoided(&element) {
            continue;
        }
        let opened = measured(replica, access, &settings);
        match opened.and_then(|store| Ok((store.size_bytes()?, store.identity()))) {
            Ok(found) => return Ok(found),
            Err(error) => {
                if error.kind == StorageErrorKind::Timeout {
                    avoid(&element, is_silence(&error));
                }
                last = Some(error);
            }
        }
    }
    let silent = || {
        let fault = Fault::new(StorageErrorKind::Timeout, "its servers recently did not answer");
        fault.at(path, None)
    };
    Err(last.unwrap_or_else(silent))
}

/// Opens the store, and wraps it in a local copy or cache if requested. Files on local disks are not wrapped.
fn kept_near(path: &str, access: &Access) -> Result<Arc<dyn Store>> {
    let replicas = replicas_in(path);
    let replicas = if replicas.len() < 2 { vec![path] } else { replicas };
    let store = of_replicas(&replicas, access)?;
    // A local copy does not make a file on a local disk faster.
    let is_as_it_is = access.throttle.is_none() && access.fault.is_none();
    if is_as_it_is && replicas.iter().all(|path| is_on_this_machine(path)) {
        return Ok(store);
    }
    kept_here(store, access)
}

/// Opens a store that reads one of these replicas and switches to another replica after a failure.
fn of_replicas(replicas: &[&str], access: &Access) -> Result<Arc<dyn Store>> {
    let settings = Settings::from_environment()?.chosen(access);
    // A single replica on a server needs no wrapper, because the client retries failed requests itself.
    if let ([path], None) = (replicas, &access.fault)
        && is_at_a_server(path)
    {
        return only_replica(path, access, &settings);
    }
    let own = access.clone();
    let open_one = move |path: &str, settings: &Settings| measured(path, &own, settings);
    Ok(Arc::new(Replicated::open(replicas, &settings, Arc::new(open_one))?))
}

/// Opens the only replica of a file, and records whether its server answers.
fn only_replica(path: &str, access: &Access, settings: &Settings) -> Result<Arc<dyn Store>> {
    let element = element_of(path);
    let was_silent = is_silent(&element);
    let opened = open_patiently(&element, settings, |settings| measured(path, access, settings));
    match &opened {
        Ok(_) => trust(&element),
        Err(error) if is_silence(error) || was_silent && error.kind == StorageErrorKind::Timeout => {
            note_silence(&element);
        }
        Err(_) => {}
    }
    opened
}

/// Wraps a store in a local copy or cache, if requested.
fn kept_here(store: Arc<dyn Store>, access: &Access) -> Result<Arc<dyn Store>> {
    if access.mode == AccessMode::Stage {
        let folder = access.stage_dir.clone().unwrap_or_else(std::env::temp_dir);
        return Ok(Arc::new(Staged::copy(store, &folder, access.requests_in_flight.unwrap_or(usize::MAX))?));
    }
    match &access.cache_dir {
        Some(folder) => Ok(Arc::new(Cached::around(store, folder, access.cache_bytes)?)),
        None => Ok(store),
    }
}

fn is_at_a_server(path: &str) -> bool {
    split_scheme(path).is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
}

/// Returns whether a file that was just opened is known to be on a local disk.
fn is_on_this_machine(path: &str) -> bool {
    match split_scheme(path) {
        None => mounted::is_here(&location_of(path)),
        Some((_, rest)) => {
            !is_at_a_server(path) && path_of_file_url(path, rest).is_ok_and(|path| mounted::is_here(&path))
        }
    }
}

/// Returns the paths of the local files among the replicas in `path`. Each replica is a path or URL.
pub fn local_paths(path: &str) -> Vec<PathBuf> {
    let local = |one: &str| match split_scheme(one) {
        None => Some(PathBuf::from(one)),
        Some((_, rest)) if !is_at_a_server(one) => path_of_file_url(one, rest).ok(),
        Some(_) => None,
    };
    replicas_in(path).into_iter().filter_map(local).collect()
}

/// Returns the measured link to a file's storage element, or a default before the first measurement. Returns None if a
/// file is not read by one of Branchline's own network clients.
pub fn link_expected(path: &str, access: &Access) -> Option<Link> {
    let path = nearest_in(path);
    let (scheme, _) = split_scheme(path)?;
    let scheme = scheme.to_ascii_lowercase();
    const OURS: [&str; 10] = ["root", "roots", "xroot", "xroots", "http", "https", "dav", "davs", "s3", "webhdfs"];
    let known = || link_to(&element_of(path), access.throttle.as_deref());
    let expected = || Link { round_trip: EXPECTED_ROUND_TRIP, bytes_per_second: 0.0 };
    OURS.contains(&scheme.as_str()).then(|| known().unwrap_or_else(expected))
}

/// Opens the store of one replica and measures the link to the storage element.
fn measured(path: &str, access: &Access, settings: &Settings) -> Result<Arc<dyn Store>> {
    let throttle = access.throttle.as_deref();
    Ok(Arc::new(Measured::open(&element_of(path), throttle, || troubled(path, access, settings))?))
}

/// Opens the store of one replica, with emulated delays and faults if requested.
fn troubled(path: &str, access: &Access, settings: &Settings) -> Result<Arc<dyn Store>> {
    let settings = &settings.clone().at(&element_of(path));
    let unreliable = || -> Result<Arc<dyn Store>> {
        match &access.fault {
            None => at_its_place(path, access, settings),
            Some(words) => Ok(Arc::new(Faulty::open(words, path, settings, || at_its_place(path, access, settings))?)),
        }
    };
    match &access.throttle {
        None => unreliable(),
        Some(words) => Ok(Arc::new(Throttled::open(words, path, unreliable)?)),
    }
}

fn at_its_place(path: &str, access: &Access, settings: &Settings) -> Result<Arc<dyn Store>> {
    let Some((scheme, rest)) = split_scheme(path) else {
        return mounted::open(path, &location_of(path), access.local, settings);
    };
    match scheme.to_ascii_lowercase().as_str() {
        "file" => mounted::open(path, &path_of_file_url(path, rest)?, access.local, settings),
        "http" | "https" | "dav" | "davs" => Ok(Arc::new(HttpFile::open(path, settings)?)),
        "s3" => Ok(Arc::new(open_s3(path, settings)?)),
        "webhdfs" if !(is_set_for_fsspec() && bridge::is_registered()) => {
            Ok(Arc::new(HttpFile::open_webhdfs(path, settings)?))
        }
        "root" | "roots" | "xroot" | "xroots" => xrootd(path, settings),
        "hdfs" if bridge::is_registered() => Ok(Arc::new(BridgedFile::open(path, Library::HdfsPackage, settings)?)),
        _ if bridge::is_registered() => Ok(Arc::new(BridgedFile::open(path, Library::Fsspec, settings)?)),
        _ => {
            let path = without_secrets(path);
            let message = format!(
                "{path}: reading {scheme}:// needs a Python library, but Branchline runs without Python; copy the file \
                 to a local disk and give its path."
            );
            Err(StorageError::unsupported_scheme(&path, message))
        }
    }
}

/// Opens a file with Branchline's own client, or with the official XRootD client if the server requires a login that
/// only the official client supports.
fn xrootd(path: &str, settings: &Settings) -> Result<Arc<dyn Store>> {
    match XrootdFile::open(path, settings) {
        Ok(file) => Ok(Arc::new(file)),
        Err(error) if error.kind == StorageErrorKind::LoginUnknown && bridge::is_registered() => {
            match BridgedFile::open(path, Library::XrootdPackage, settings) {
                Ok(file) => Ok(Arc::new(file)),
                // The `xrootd` package is not installed: report the unsupported login as the cause.
                Err(other) if other.kind == StorageErrorKind::UnsupportedScheme => Err(error.with_note(&other.message)),
                Err(other) => Err(other),
            }
        }
        Err(error) => Err(error),
    }
}

/// Splits a URL into its scheme and the part after `://`; returns `None` for a plain path.
fn split_scheme(path: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = path.split_once("://")?;
    let starts_well = |name: &str| name.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_scheme = |name: &str| name.chars().all(|letter| letter.is_ascii_alphanumeric() || "+.-".contains(letter));
    // fsspec chains several schemes in one URL, as in `simplecache::https://`.
    scheme.split("::").all(|name| starts_well(name) && is_scheme(name)).then_some((scheme, rest))
}

/// Returns the path in `file://<rest>`, whose host must be absent or `localhost`.
///
/// The path is used literally, as in ROOT and uproot. If that file does not exist, `%XX` escapes are decoded (RFC
/// 8089).
fn path_of_file_url(url: &str, rest: &str) -> Result<PathBuf> {
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if !(host.is_empty() || host.eq_ignore_ascii_case("localhost")) || path.is_empty() {
        let url = without_secrets(url);
        let message =
            format!("{url}: a file URL must contain the full path of a local file, as in file:///data/f.root.");
        return Err(StorageError::unsupported_scheme(&url, message));
    }
    let written = PathBuf::from(path);
    let is_there = written.symlink_metadata().is_ok();
    Ok(if is_there { written } else { PathBuf::from(OsString::from_vec(percent_decoded(path))) })
}

/// Decodes escapes such as `%20`. A `%` that is not part of an escape is kept.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = match after {
            [high, low, ..] if first == b'%' => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        rest = match escaped {
            Some((high, low)) => {
                decoded.push(high * 16 + low);
                &after[2..]
            }
            None => {
                decoded.push(first);
                after
            }
        };
    }
    decoded
}

fn hex_digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
mod tests;
