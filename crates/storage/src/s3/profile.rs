//! The user's settings for S3: keys, region and endpoint, in the environment and in the files of Amazon's command
//! line (`~/.aws/credentials`, `~/.aws/config`), by the names that all its users know.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::sign::Keys;
use crate::limits::AWS_FILE_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::StorageErrorKind;

/// The user's settings.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// None: requests are not signed, which is enough for what is open to all.
    pub(super) keys: Option<Keys>,
    pub(super) region: String,
    /// The URL of the server; None for Amazon's own.
    pub(super) endpoint: Option<String>,
    /// Whether the bucket stands in the path of a URL, and not before the host; None if that is left to us.
    pub(super) has_path_style: Option<bool>,
    /// Credentials for requesting temporary keys, where there are no others.
    pub(super) identity: Option<WebIdentity>,
}

/// The file of the token, and the role that it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WebIdentity {
    pub(super) token_file: String,
    pub(super) role: String,
    pub(super) session: String,
    /// The URL of the service; None for Amazon's own.
    pub(super) endpoint: Option<String>,
}

/// The sections of the files.
type Sections = HashMap<String, HashMap<String, String>>;

/// The default region; servers that are not Amazon's accept it, too.
const USUAL_REGION: &str = "us-east-1";
/// Sources of keys that a profile may name instead of keys.
const OTHER_SOURCES: &[&str] =
    &["credential_process", "sso_session", "sso_start_url", "role_arn", "credential_source", "web_identity_token_file"];

/// Reads the settings: those of the profile `named`, or of the environment and the profile that it names.
pub(super) fn profile(named: Option<&str>) -> Result<Profile> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let home = std::env::var_os("HOME").map(PathBuf::from);
    profile_from(named, &set, home.as_deref())
}

fn profile_from(named: Option<&str>, set: &dyn Fn(&str) -> Option<String>, home: Option<&Path>) -> Result<Profile> {
    let file = |variable: &str, usual: &str| {
        let named = set(variable).map(PathBuf::from);
        named.or_else(|| home.map(|home| home.join(".aws").join(usual)))
    };
    let credentials = sections(file("AWS_SHARED_CREDENTIALS_FILE", "credentials").as_deref())?;
    let config = sections(file("AWS_CONFIG_FILE", "config").as_deref())?;
    let named = named.map(str::to_owned).or_else(|| set("AWS_PROFILE")).or_else(|| set("AWS_DEFAULT_PROFILE"));
    let name = named.clone().unwrap_or_else(|| "default".to_owned());
    let in_config = if name == "default" { config.get("default") } else { None };
    let in_config = in_config.or_else(|| config.get(&format!("profile {name}")));
    let in_credentials = credentials.get(&name);
    if named.is_some() && in_config.is_none() && in_credentials.is_none() {
        return Err(wrong(&format!("there is no profile {name} in ~/.aws/credentials or ~/.aws/config")));
    }
    let of_profile = |key: &str| {
        let found = in_credentials.and_then(|section| section.get(key));
        found.or_else(|| in_config.and_then(|section| section.get(key))).cloned()
    };
    // A profile that the URL names comes before the environment, which is for all others.
    let variable = |name: &str| if named.is_some() { None } else { set(name) };
    let services = of_profile("services").and_then(|name| config.get(&format!("services {name}")));
    let endpoint = variable("AWS_ENDPOINT_URL_S3")
        .or_else(|| variable("AWS_ENDPOINT_URL"))
        .or_else(|| services.and_then(|section| section.get("s3.endpoint_url").cloned()))
        .or_else(|| of_profile("s3.endpoint_url"))
        .or_else(|| of_profile("endpoint_url"));
    let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION")).or_else(|| of_profile("region"));
    let by_host = variable("AWS_VIRTUAL_HOSTED_STYLE_REQUEST").map(|value| is_true(&value));
    let by_config = match of_profile("s3.addressing_style").as_deref() {
        Some("path") => Some(true),
        Some("virtual") => Some(false),
        _ => None,
    };
    let is_anonymous =
        ["AWS_NO_SIGN_REQUEST", "AWS_SKIP_SIGNATURE"].iter().any(|name| set(name).is_some_and(|value| is_true(&value)));
    let sts = variable("AWS_ENDPOINT_URL_STS").or_else(|| variable("AWS_ENDPOINT_URL"));
    let identity = web_identity(&variable, &of_profile, sts.or_else(|| of_profile("endpoint_url")));
    let keys = if is_anonymous { None } else { keys(&variable, &of_profile, &name, identity.is_some())? };
    let identity = identity.filter(|_| keys.is_none() && !is_anonymous);
    let region = checked("the region", region.unwrap_or_else(|| USUAL_REGION.to_owned()))?;
    Ok(Profile { keys, region, endpoint, has_path_style: by_host.map(|by_host| !by_host).or(by_config), identity })
}

/// The token and the role of the environment, or of the profile.
fn web_identity(
    variable: &dyn Fn(&str) -> Option<String>,
    of_profile: &dyn Fn(&str) -> Option<String>,
    endpoint: Option<String>,
) -> Option<WebIdentity> {
    let find = |name: &str, key: &str| variable(name).or_else(|| of_profile(key));
    let token_file = find("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file")?;
    let role = find("AWS_ROLE_ARN", "role_arn")?;
    let session = find("AWS_ROLE_SESSION_NAME", "role_session_name").unwrap_or_else(|| "branchline".to_owned());
    Some(WebIdentity { token_file, role, session, endpoint })
}

fn keys(
    variable: &dyn Fn(&str) -> Option<String>,
    of_profile: &dyn Fn(&str) -> Option<String>,
    name: &str,
    has_web_identity: bool,
) -> Result<Option<Keys>> {
    let pair = |find: &dyn Fn(&str) -> Option<String>, id: &str, secret: &str, token: &str| {
        let checked_token = || find(token).map(|value| checked("the session's token", value)).transpose();
        match (find(id), find(secret)) {
            (Some(id), Some(secret)) => {
                let (id, secret) = (checked("the access key", id)?, checked("the secret key", secret)?);
                Ok(Some(Keys { id, secret, session_token: checked_token()? }))
            }
            (None, None) => Ok(None),
            (Some(_), None) => Err(wrong(&format!("there is {id}, but no {secret}"))),
            (None, Some(_)) => Err(wrong(&format!("there is {secret}, but no {id}"))),
        }
    };
    if let Some(keys) = pair(variable, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")? {
        return Ok(Some(keys));
    }
    if let Some(keys) = pair(of_profile, "aws_access_key_id", "aws_secret_access_key", "aws_session_token")? {
        return Ok(Some(keys));
    }
    if has_web_identity {
        return Ok(None);
    }
    match OTHER_SOURCES.iter().find(|source| of_profile(source).is_some()) {
        None => Ok(None),
        Some(source) => Err(wrong(&format!(
            "the profile {name} has its keys from {source}, which Branchline does not read: `eval \
             \"$(aws configure export-credentials --profile {name} --format env)\"` puts them into the environment"
        ))),
    }
}

fn wrong(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("the keys for S3 cannot be used: {reason}"))
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// The value, or an error if it is not valid in a header line and in a host's name.
fn checked(what: &str, value: String) -> Result<String> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(value);
    }
    Err(wrong(&format!("{what} has blanks or letters that none has")))
}

/// The sections of a file; none of one that is not there.
fn sections(file: Option<&Path>) -> Result<Sections> {
    let Some(file) = file else { return Ok(Sections::new()) };
    match read_small(file, AWS_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(parsed(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Sections::new()),
        Err(error) => Err(wrong(&format!("{}: {error}", file.display()))),
    }
}

/// `[section]`, `key = value`, and lines further in that belong to the key before them, here as `key.inner`. What is
/// none of these is passed over.
fn parsed(text: &str) -> Sections {
    let mut sections = Sections::new();
    let (mut section, mut outer) = (String::new(), String::new());
    for line in text.lines() {
        let bare = line.trim();
        if bare.is_empty() || bare.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = bare.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            section = name.split_whitespace().collect::<Vec<_>>().join(" ").replace('"', "");
            outer.clear();
            sections.entry(section.clone()).or_default();
            continue;
        }
        let Some((key, value)) = bare.split_once('=') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let is_inner = line.starts_with([' ', '\t']) && !outer.is_empty();
        let name = if is_inner { format!("{outer}.{key}") } else { key.clone() };
        if !is_inner {
            outer = if value.is_empty() { key } else { String::new() };
        }
        if !value.is_empty() {
            sections.entry(section.clone()).or_default().insert(name, value.to_owned());
        }
    }
    sections
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
