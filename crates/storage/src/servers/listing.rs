//! Folder listings in the formats of different servers.

/// Format of a folder listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingForm {
    /// XRootD's response to `kXR_dirlist`: each name is on a line, followed by a line with `id size flags time`.
    Xrootd,
    /// The response to WebDAV's `PROPFIND`.
    Webdav,
    /// The JSON list that nginx generates for a folder.
    Json,
    /// A web page that contains links to the entries.
    Html,
    /// The response to S3's `ListObjectsV2`.
    S3,
}

/// A folder listing, which consists of pages from one or more servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listing {
    /// Format of all pages.
    pub form: ListingForm,
    /// Pages of the listing, as unparsed responses.
    pub pages: Vec<Vec<u8>>,
}
