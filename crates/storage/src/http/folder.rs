//! Folder listings and file metadata from HTTP and WebDAV servers.

use std::io::Read;

use super::client::{client, Answer, Client};
use super::location::{http_location, Location};
use crate::limits::LISTING_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::listing::{Listing, ListingForm};
use crate::servers::retry::with_retries;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Lists the folder at `url` with WebDAV, or from the folder's web page if the server does not support WebDAV.
pub(crate) fn list_http(url: &str, settings: &Settings) -> Result<Listing> {
    let mut location = http_location(url)?;
    if Url::parse(&location.url)?.query.is_none() && !location.url.ends_with('/') {
        location.url.push('/');
    }
    let client = client()?;
    with_retries(settings, |_| {
        let mut answer = location.request(&client, "PROPFIND", &[("Depth", "1")], settings)?;
        match answer.status() {
            207 => return Ok(Listing { form: ListingForm::Webdav, pages: vec![body_of(&mut answer)?] }),
            // Servers without WebDAV send status 405 or 501, or redirect to a login page.
            501 => {}
            401 | 403 | 404 | 410 | 500.. if answer.host() == location.server => {
                return Err(answer.refusal(&*location.authorization));
            }
            _ => {}
        }
        let mut answer =
            location.request(&client, "GET", &[("Accept", "application/json, text/html;q=0.5")], settings)?;
        if answer.status() != 200 {
            return Err(answer.refusal(&*location.authorization));
        }
        let form = match answer.header("content-type").unwrap_or_default() {
            kind if kind.starts_with("application/json") => ListingForm::Json,
            kind if kind.starts_with("text/html") => ListingForm::Html,
            _ => {
                let reason = format!("{} does not list the contents of this folder", answer.server());
                return Err(Fault::new(StorageErrorKind::Refused, reason));
            }
        };
        let page = body_of(&mut answer)?;
        if form == ListingForm::Html && answer.host() != location.server {
            // After a redirect to another server, the page may be a login page, whose links do not lead to the folder's
            // files.
            answer.check_web_page(&page, &*location.authorization)?;
        }
        Ok(Listing { form, pages: vec![page] })
    })
}

/// Reads the whole body of a response that contains no file data.
pub(crate) fn body_of(answer: &mut Answer) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    let result = answer.body().take(LISTING_BYTES_MAX + 1).read_to_end(&mut body);
    result.map_err(|error| answer.broken(&error))?;
    if body.len() as u64 > LISTING_BYTES_MAX {
        return Err(answer.protocol_fault("a list that is too long"));
    }
    answer.got(body.len() as u64);
    Ok(body)
}

/// Returns a file's modification time from a server that reports the time only over WebDAV, such as XRootD.
pub(super) fn last_modified(client: &Client, location: &Location, settings: &Settings) -> Option<String> {
    let mut answer = location.request(client, "PROPFIND", &[("Depth", "0")], settings).ok()?;
    if answer.status() != 207 {
        return None;
    }
    let body = body_of(&mut answer).ok()?;
    let text = String::from_utf8_lossy(&body);
    // Example: `<lp1:getlastmodified>2026-11-21T08:00:00Z</lp1:getlastmodified>`. Any namespace prefix is accepted.
    let (_, rest) = text.split_once("getlastmodified")?;
    let (_, rest) = rest.split_once('>')?;
    let found = rest.split('<').next()?.trim();
    let is_time =
        !found.is_empty() && found.len() < 64 && found.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    is_time.then(|| found.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_list_that_comes_byte_by_byte_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/folder/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 207 Multi-Status\r\nContent-Length: 1000000\r\n\r\n");
            // The server is never silent for long, and does not finish within the test.
            (0..1000).take_while(|_| stream.write_all(b"x").is_ok()).for_each(|_| {
                std::thread::sleep(Duration::from_millis(20));
            });
        });
        let settings = Settings { silence: Duration::from_millis(100), tries_max: 1, ..Settings::default() };
        let started = Instant::now();
        let fault = list_http(&url, &settings).err().unwrap();
        assert_eq!(fault.kind, StorageErrorKind::Timeout, "{}", fault.reason);
        assert!(started.elapsed() < Duration::from_secs(10));
        server.join().unwrap();
    }
}
