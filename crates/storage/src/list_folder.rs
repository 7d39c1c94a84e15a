//! Lists folders on servers with Branchline's own clients.

use std::time::Duration;

use crate::http::list_http;
use crate::replicas::{avoid, is_avoided};
use crate::s3::list_s3;
use crate::secrets::without_secrets;
use crate::servers::failure::Fault;
use crate::servers::listing::{Listing, ListingForm};
use crate::servers::url::element_of;
use crate::settings::Settings;
use crate::xrootd::list_xrootd;
use crate::{Access, Result, StorageError, StorageErrorKind};

/// Returns the time limit for a Python library that lists the folder at `url`.
pub fn listing_wait(url: &str, access: &Access, once: bool) -> Result<Duration> {
    Ok(settings_for(url, access, once)?.time_limit(0))
}

fn settings_for(url: &str, access: &Access, once: bool) -> Result<Settings> {
    let settings = Settings::from_environment()?.chosen(access).at(&element_of(url));
    Ok(if once { settings.once() } else { settings })
}

/// Lists the folder at `url`, with the timeouts and retries of `access`. Schemes that need a Python library are not
/// supported. Optional listings set `once`, so that a failed request is not retried.
pub fn list_folder(url: &str, access: &Access, once: bool) -> Result<Listing> {
    let settings = settings_for(url, access, once)?;
    if once && is_avoided(&settings.element) {
        return Err(Fault::new(StorageErrorKind::Timeout, "its server recently did not answer").at(url, None));
    }
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let listed = match scheme.as_str() {
        "root" | "roots" | "xroot" | "xroots" => {
            list_xrootd(url, &settings).map(|pages| Listing { form: ListingForm::Xrootd, pages })
        }
        "http" | "https" | "dav" | "davs" => list_http(url, &settings),
        "s3" => list_s3(url, &settings).map(|pages| Listing { form: ListingForm::S3, pages }),
        _ => {
            let shown = without_secrets(url);
            let message = format!("{shown}: folders at {scheme}:// cannot be listed; name the files one by one.");
            return Err(StorageError::unsupported_scheme(&shown, message));
        }
    };
    listed.map_err(|fault| {
        if fault.kind == StorageErrorKind::Timeout {
            // A server that asks to wait does answer.
            avoid(&settings.element, fault.retry_may_help);
        }
        fault.at(url, None)
    })
}
