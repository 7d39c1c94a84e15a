//! Checksums of whole files that HTTP and S3 servers report in the headers of a HEAD response.

use super::client::{Answer, Client};
use super::location::{Location, Protocol};
use crate::servers::checksum::checksum;
use crate::settings::Settings;

/// Returns the checksums of a file with their kinds, such as `adler32:a1b2c3d`; empty if the server reports none. HTTP
/// servers report checksums in the `Digest` header (RFC 3230), S3 servers report the checksums stored with the object.
pub(super) fn checksums(client: &Client, location: &Location, settings: &Settings) -> Vec<String> {
    let (header, read): (_, fn(&Answer) -> Vec<String>) = match location.protocol {
        Protocol::Http => (("Want-Digest", "adler32, crc32c;q=0.5, md5;q=0.3"), digests),
        Protocol::S3 => (("x-amz-checksum-mode", "ENABLED"), of_object),
        // WebHDFS reports checksums of block checksums, which cannot be compared with any other storage system.
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

/// Returns the checksums of the whole S3 object. The checksums of a multipart object are omitted if they are computed
/// from the checksums of its parts. The entity tag is an MD5 checksum with two exceptions: the tag of a multipart
/// object, which ends in a dash and the number of parts, and the tag of an object that is encrypted with KMS or
/// customer keys ("Checking object integrity in Amazon S3").
fn of_object(answer: &Answer) -> Vec<String> {
    let is_whole = answer.header("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
    let kinds = if is_whole { &["crc32", "crc32c", "crc64nvme", "sha1", "sha256"][..] } else { &[] };
    let given = |kind: &&str| checksum(kind, answer.header(&format!("x-amz-checksum-{kind}"))?);
    let is_encrypted = answer.header("x-amz-server-side-encryption").is_some_and(|how| how != "AES256")
        || answer.header("x-amz-server-side-encryption-customer-algorithm").is_some();
    let tag = answer.header("etag").filter(|_| !is_encrypted).map(|tag| tag.trim_matches('"'));
    kinds.iter().filter_map(given).chain(tag.and_then(|tag| checksum("md5", tag))).collect()
}
