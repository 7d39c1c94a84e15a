//! The checksums of a whole file that HTTP and S3 servers give in the headers of an answer to HEAD.

use super::client::{Answer, Client};
use super::location::{Location, Protocol};
use crate::servers::checksum::checksum;
use crate::settings::Settings;

/// The checksums of a file and their kinds, as `adler32:a1b2c3d`: those of RFC 3230 (`Digest`) over
/// HTTP, those that an object was stored with from S3. Empty if the server gives none.
pub(super) fn checksums(client: &Client, location: &Location, settings: &Settings) -> Vec<String> {
    let (header, read): (_, fn(&Answer) -> Vec<String>) = match location.protocol {
        Protocol::Http => (("Want-Digest", "adler32, crc32c;q=0.5, md5;q=0.3"), digests),
        Protocol::S3 => (("x-amz-checksum-mode", "ENABLED"), of_object),
        // It has checksums of the checksums of blocks, which no other place knows.
        Protocol::WebHdfs => return Vec::new(),
    };
    match location.request(client, "HEAD", &[header], settings) {
        Ok(answer) if answer.status() == 200 => read(&answer),
        _ => Vec::new(),
    }
}

fn digests(answer: &Answer) -> Vec<String> {
    let each = answer.header("digest").unwrap_or_default().split(',');
    each.filter_map(|one| one.trim().split_once('=')).filter_map(|(kind, value)| checksum(kind, value)).collect()
}

/// The checksums of an object of S3. One that was stored in parts has checksums of the checksums of these, with their
/// number behind a dash, and the entity tag of one that is encrypted by keys of the user's is no checksum ("Checking
/// object integrity in Amazon S3").
fn of_object(answer: &Answer) -> Vec<String> {
    let is_whole = answer.header("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
    let kinds = if is_whole { &["crc32", "crc32c", "crc64nvme", "sha1", "sha256"][..] } else { &[] };
    let given = |kind: &&str| checksum(kind, answer.header(&format!("x-amz-checksum-{kind}"))?);
    let is_encrypted = answer.header("x-amz-server-side-encryption").is_some_and(|how| how != "AES256")
        || answer.header("x-amz-server-side-encryption-customer-algorithm").is_some();
    let tag = answer.header("etag").filter(|_| !is_encrypted).map(|tag| tag.trim_matches('"'));
    kinds.iter().filter_map(given).chain(tag.and_then(|tag| checksum("md5", tag))).collect()
}
