//! The user's settings for S3 (keys, region and endpoint), from the standard environment variables and from the files
//! of the AWS command line (`~/.aws/credentials`, `~/.aws/config`).

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::credentials::{Keys, Source, Sso, WebIdentity};
use crate::limits::AWS_FILE_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::StorageErrorKind;

/// S3 settings of a user.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Profile {
    /// Source of the user's credentials; None for unsigned requests, which are sufficient for public objects.
    pub(super) credentials: Option<Source>,
    pub(super) region: String,
    /// URL of the server; None for Amazon's servers.
    pub(super) endpoint: Option<String>,
    /// Whether URLs contain the bucket in the path instead of the host name; None for the default.
    pub(super) has_path_style: Option<bool>,
}

/// Sections of a settings file by name, each with its values by key.
type Sections = HashMap<String, HashMap<String, String>>;

/// Default region, which servers other than Amazon's accept too.
const USUAL_REGION: &str = "us-east-1";
/// Settings of a profile that name a source of keys. Branchline does not support these sources, except for a web
/// identity.
const OTHER_SOURCES: &[&str] = &["role_arn", "credential_source", "web_identity_token_file"];

/// Reads the user's settings from the profile `named`, or else from the environment variables and the profile that they
/// name.
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
    // With a profile named in the URL, environment variables are ignored.
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
    let in_session = |key: &str| {
        let session = of_profile("sso_session").and_then(|session| config.get(&format!("sso-session {session}")));
        session.and_then(|section| section.get(key).cloned()).or_else(|| of_profile(key))
    };
    let credentials = if is_anonymous {
        None
    } else if let Some(keys) = keys_in_environment(&variable)? {
        Some(Source::Keys(keys))
    } else if let (None, Some(source)) = (&identity, unsupported_source(&of_profile)) {
        // The profile's keys are not used: they only serve to obtain the keys of the role.
        return Err(wrong(&format!(
            "the profile {name} gets its keys from {source}, which Branchline does not support; export them to the \
             environment with: eval \"$(aws configure export-credentials --profile {name} --format env)\""
        )));
    } else if let Some(keys) = keys_in_profile(&of_profile)? {
        Some(Source::Keys(keys))
    } else if let Some(identity) = identity {
        Some(Source::WebIdentity(identity))
    } else if let Some(sso) = sso(&of_profile, &in_session, &name)? {
        Some(Source::Sso(sso))
    } else {
        of_profile("credential_process").map(Source::Process)
    };
    let region = checked("the region", region.unwrap_or_else(|| USUAL_REGION.to_owned()))?;
    Ok(Profile { credentials, region, endpoint, has_path_style: by_host.map(|by_host| !by_host).or(by_config) })
}

/// Returns the web identity from the environment variables or the profile, if set.
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

/// Returns the profile's single sign-on role, if the profile has such a role.
fn sso(
    of_profile: &dyn Fn(&str) -> Option<String>,
    in_session: &dyn Fn(&str) -> Option<String>,
    name: &str,
) -> Result<Option<Sso>> {
    let Some(cache_key) = of_profile("sso_session").or_else(|| of_profile("sso_start_url")) else { return Ok(None) };
    let needed = |key: &str| {
        in_session(key).ok_or_else(|| wrong(&format!("the profile {name} has single sign-on, but no {key}")))
    };
    let (account, role) = (needed("sso_account_id")?, needed("sso_role_name")?);
    let region = checked("the region of single sign-on", needed("sso_region")?)?;
    Ok(Some(Sso { account, role, region, cache_key }))
}

fn unsupported_source(of_profile: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
    OTHER_SOURCES.iter().copied().find(|source| of_profile(source).is_some())
}

fn keys_in_environment(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Keys>> {
    keys(variable, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
}

fn keys_in_profile(of_profile: &dyn Fn(&str) -> Option<String>) -> Result<Option<Keys>> {
    keys(of_profile, "aws_access_key_id", "aws_secret_access_key", "aws_session_token")
}

fn keys(find: &dyn Fn(&str) -> Option<String>, id: &str, secret: &str, token: &str) -> Result<Option<Keys>> {
    match (find(id), find(secret)) {
        (Some(id), Some(secret)) => {
            let (id, secret) = (checked("the access key", id)?, checked("the secret key", secret)?);
            let session_token = find(token).map(|value| checked("the session's token", value)).transpose()?;
            Ok(Some(Keys { id, secret, session_token }))
        }
        (None, None) => Ok(None),
        (Some(_), None) => Err(wrong(&format!("there is {id}, but no {secret}"))),
        (None, Some(_)) => Err(wrong(&format!("there is {secret}, but no {id}"))),
    }
}

fn wrong(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::Permission, format!("the keys for S3 cannot be used: {reason}"))
}

fn is_true(value: &str) -> bool {
    matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on")
}

/// Returns the value, or an error if the value is not valid in a header or host name.
fn checked(what: &str, value: String) -> Result<String> {
    if value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(value);
    }
    Err(wrong(&format!("{what} has blanks or invalid characters")))
}

/// Reads the sections of a settings file; empty if the file does not exist.
fn sections(file: Option<&Path>) -> Result<Sections> {
    let Some(file) = file else { return Ok(Sections::new()) };
    match read_small(file, AWS_FILE_BYTES_MAX) {
        Ok(bytes) => Ok(parsed(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Sections::new()),
        Err(error) => Err(wrong(&format!("{}: {error}", file.display()))),
    }
}

/// Parses lines of the form `[section]` and `key = value`. Indented lines after a key without a value belong to that
/// key, and are returned as `key.inner`. Other lines are ignored.
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
