//! Listings of folders, as servers write them.

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
