//! Temporary keys in exchange for a web identity token (AWS STS, `AssumeRoleWithWebIdentity`), as pods of Kubernetes
//! and users of Ceph with OpenID Connect get them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::profile::{Profile, WebIdentity};
use super::sign::{encoded_query, Keys};
use super::signer::Signer;
use crate::http::{body_of, Client};
use crate::limits::TOKEN_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::servers::small_file::read_small;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// How long the keys are valid, and for how long they are used.
const VALID_SECONDS: &str = "3600";
const USED_FOR: Duration = Duration::from_secs(2700);

static KNOWN: Mutex<Option<HashMap<WebIdentity, (Instant, Keys)>>> = Mutex::new(None);

/// Gives a profile temporary keys if it has no others and names a web identity.
pub(super) fn add_temporary_keys(client: &Client, profile: &mut Profile, settings: &Settings) -> Result<()> {
    let Some(identity) = &profile.identity else { return Ok(()) };
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().get(identity).cloned();
    let keys = match known.filter(|(since, _)| since.elapsed() < USED_FOR) {
        Some((_, keys)) => keys,
        None => {
            let keys = request_keys(client, identity, &profile.region, settings)?;
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            known.get_or_insert_default().insert(identity.clone(), (Instant::now(), keys.clone()));
            keys
        }
    };
    profile.keys = Some(keys);
    Ok(())
}

fn wrong(reason: impl std::fmt::Display) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("there are no temporary keys for S3: {reason}"))
}

fn request_keys(client: &Client, identity: &WebIdentity, region: &str, settings: &Settings) -> Result<Keys> {
    let file = &identity.token_file;
    let unreadable = |error: std::io::Error| wrong(format_args!("the token in {file} cannot be read: {error}"));
    let token = read_small(Path::new(file), TOKEN_BYTES_MAX).map_err(unreadable)?;
    let token = String::from_utf8_lossy(&token);
    let endpoint = identity.endpoint.clone().unwrap_or_else(|| format!("https://sts.{region}.amazonaws.com"));
    let parsed = Url::parse(&endpoint)?;
    if parsed.scheme != "https" && !parsed.is_loopback() {
        return Err(wrong(format_args!("a token is shown over https only, and not to {}", parsed.address())));
    }
    let form = encoded_query(&[
        ("Action", "AssumeRoleWithWebIdentity"),
        ("DurationSeconds", VALID_SECONDS),
        ("RoleArn", &identity.role),
        ("RoleSessionName", &identity.session),
        ("Version", "2011-06-15"),
        ("WebIdentityToken", token.trim()),
    ]);
    let url = format!("{}/", endpoint.trim_end_matches('/'));
    let page = with_retries(settings, |_| {
        let mut answer = client.post(&url, &form, &Signer::unsigned(), settings)?;
        match answer.status() {
            200 => body_of(&mut answer),
            status @ 400..=499 => {
                let server = answer.server().to_owned();
                let code = answer.error_code().map(|code| format!(" ({code})")).unwrap_or_default();
                Err(wrong(format_args!("{server} refused with status {status}{code}; see AWS_ROLE_ARN and {file}")))
            }
            _ => Err(answer.refusal(&Signer::unsigned())),
        }
    })?;
    let text = String::from_utf8_lossy(&page);
    let value = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        let value = rest.split('<').next()?.trim();
        let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'&');
        is_plain.then(|| value.to_owned())
    };
    match (value("AccessKeyId"), value("SecretAccessKey"), value("SessionToken")) {
        (Some(id), Some(secret), token @ Some(_)) => Ok(Keys { id, secret, session_token: token }),
        _ => Err(Fault::protocol(&parsed.address(), "what holds no keys")),
    }
}
