//! What is in a folder at a server, as the server writes it down.

use std::time::Duration;

use crate::http::{list_http, FolderAnswer};
use crate::s3::list_s3;
use crate::settings::Settings;
use crate::url::{element_of, without_secrets};
use crate::xrootd::list_xrootd;
use crate::{Result, StorageError};

/// The form of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingForm {
    /// XRootD's answer to `kXR_dirlist`: lines of names, each followed by one with `id size flags time`.
    Xrootd,
    /// The answer to WebDAV's `PROPFIND`.
    Webdav,
    /// The list of JSON that nginx makes of a folder.
    Json,
    /// A page with links.
    Html,
    /// The answer to S3's `ListObjectsV2`.
    S3,
}

/// A folder as its server or servers list it: one page after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// How the pages are to be read.
    pub form: ListingForm,
    /// Answers, as they came.
    pub pages: Vec<Vec<u8>>,
}

/// How long a library may take to list a folder.
pub fn listing_wait(once: bool) -> Duration {
    settings_for("", once).patience(0)
}

fn settings_for(url: &str, once: bool) -> Settings {
    let settings = Settings::from_environment().at(&element_of(url));
    if once {
        Settings { tries_max: 1, ..settings.for_one_of_several() }
    } else {
        settings
    }
}

/// Lists the folder at `url`, of a scheme that is read here without a library of Python's; tried `once` where it would
/// only be good to know.
pub fn list_folder(url: &str, once: bool) -> Result<Listing> {
    let settings = settings_for(url, once);
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme).to_ascii_lowercase();
    let listed = match scheme.as_str() {
        "root" | "roots" | "xroot" | "xroots" => {
            list_xrootd(url, &settings).map(|pages| Listing { form: ListingForm::Xrootd, pages })
        }
        "http" | "https" | "dav" | "davs" => {
            list_http(url, &settings).map(|FolderAnswer { form, body }| Listing { form, pages: vec![body] })
        }
        "s3" => list_s3(url, &settings).map(|pages| Listing { form: ListingForm::S3, pages }),
        _ => {
            let shown = without_secrets(url);
            let message = format!("{shown}: folders at {scheme}:// cannot be listed; name the files one by one.");
            return Err(StorageError::unsupported_scheme(&shown, message));
        }
    };
    listed.map_err(|fault| fault.at(url, None))
}
