//! Credentials for S3, loaded and refreshed by reqsign. Requests, file reads and processes of reqsign run through this
//! crate's blocking code, so reqsign's futures are always ready and need no async runtime.

use std::collections::HashMap;
use std::iter::successors;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response};
use reqsign_aws_v4::{
    AssumeRoleWithWebIdentityCredentialProvider, Credential, ProcessCredentialProvider, RequestSigner,
    SSOCredentialProvider, StaticCredentialProvider,
};
use reqsign_core::{CommandExecute, CommandOutput, Context, Error, FileRead, HttpSend, OsEnv, Signer};
use rustix::process::{kill_process_group, Pid, Signal};

use crate::http::{body_of, client, Authorization};
use crate::limits::{CREDENTIAL_PROCESS_WAIT, TOKEN_BYTES_MAX};
use crate::secrets::quoted;
use crate::servers::deadline::within;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::servers::small_file::read_small;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Source from which credentials are obtained.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum Source {
    Keys(Keys),
    WebIdentity(WebIdentity),
    Sso(Sso),
    /// Command line of a program that prints credentials.
    Process(String),
}

impl Source {
    /// Describes the settings that define this source, for messages.
    pub(super) fn origin(&self) -> &'static str {
        match self {
            Self::Keys(_) => "AWS_ACCESS_KEY_ID, or of AWS_PROFILE in ~/.aws/credentials",
            Self::WebIdentity(_) => "AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or of the profile's role",
            Self::Sso(_) => "the single sign-on of the profile",
            Self::Process(_) => "the profile's credential_process",
        }
    }
}

/// Access keys of a user. The type does not implement `Debug`, because keys must never be printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    /// Session token, which only temporary keys have.
    pub(super) session_token: Option<String>,
}

/// A token file, and the role for which AWS STS exchanges the token (`AssumeRoleWithWebIdentity`). Used by Kubernetes
/// pods, and by Ceph with OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct WebIdentity {
    pub(super) token_file: String,
    pub(super) role: String,
    pub(super) session: String,
    /// URL of the STS service; None for Amazon's service.
    pub(super) endpoint: Option<String>,
}

/// A single sign-on role (IAM Identity Center). `aws sso login` has cached the role's token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Sso {
    pub(super) account: String,
    pub(super) role: String,
    pub(super) region: String,
    /// Name of the session, or the start URL if the profile has no session. The hash of this string is the name of the
    /// cached file.
    pub(super) cache_key: String,
}

type Signers = HashMap<(u32, Source), Signer<Credential>>;

/// Signers, by process ID and source. A signer keeps its credentials until they expire. While a signer loads
/// credentials, which may take a minute, it holds its own lock. If the process is forked meanwhile, the child would
/// wait for that lock forever, so each process has its own signers. The lock of this map is held only for lookups.
static SIGNERS: LazyLock<Mutex<Signers>> = LazyLock::new(Mutex::default);

/// Returns a signer for requests in a region. The signer loads credentials with these settings.
pub(super) fn signer_of(source: &Source, region: &str, settings: &Settings) -> Signer<Credential> {
    let mut known = SIGNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = (std::process::id(), source.clone());
    let signer = known.entry(key).or_insert_with(|| new_signer(source, region)).clone();
    // The settings are replaced, because the cached signer may have the settings of an optional request without
    // retries.
    signer.with_context(context_of(source, settings)).with_request_signer(request_signer(region))
}

fn request_signer(region: &str) -> RequestSigner {
    RequestSigner::new("s3", region).with_standard_session_token()
}

fn context_of(source: &Source, settings: &Settings) -> Context {
    let (sts, command) = match source {
        Source::WebIdentity(identity) => (identity.endpoint.clone(), String::new()),
        Source::Process(command) => (None, command.clone()),
        Source::Keys(_) | Source::Sso(_) => (None, String::new()),
    };
    Context::new()
        .with_env(OsEnv)
        .with_file_read(SmallFiles)
        .with_command_execute(CredentialProcess(command))
        .with_http_send(Sender { settings: settings.clone(), instead: sts })
}

fn new_signer(source: &Source, region: &str) -> Signer<Credential> {
    let context = Context::new();
    match source {
        Source::Keys(Keys { id, secret, session_token }) => {
            let keys = StaticCredentialProvider::new(id, secret);
            let keys = session_token.iter().fold(keys, |keys, token| keys.with_session_token(token));
            Signer::new(context, keys, request_signer(region))
        }
        Source::WebIdentity(WebIdentity { token_file, role, session, endpoint }) => {
            let provider =
                AssumeRoleWithWebIdentityCredentialProvider::with_config(role.clone(), PathBuf::from(token_file))
                    .with_role_session_name(session.clone());
            let provider = match endpoint {
                // Use a region that exists at Amazon: the configured region of another service may not exist there.
                Some(_) => provider.with_region("us-east-1".to_owned()),
                None => provider.with_region(region.to_owned()).with_regional_sts_endpoint(),
            };
            Signer::new(context, provider, request_signer(region))
        }
        Source::Sso(Sso { account, role, region: sso_region, cache_key }) => {
            // The provider uses the start URL only to derive the name of the cached file.
            let provider = SSOCredentialProvider::new()
                .with_account_id(account)
                .with_role_name(role)
                .with_region(sso_region)
                .with_start_url(cache_key);
            Signer::new(context, provider, request_signer(region))
        }
        Source::Process(command) => {
            Signer::new(context, ProcessCredentialProvider::new().with_command(command), request_signer(region))
        }
    }
}

/// Builds the failure for a signer's error, with all causes. The failure is final, because temporary failures have
/// already been retried.
pub(super) fn fault_of(error: &Error) -> Fault {
    let mut reasons = Vec::new();
    let mut cause = None;
    for error in successors(Some(error as &dyn std::error::Error), |&error| error.source()) {
        reasons.push(quoted(error.to_string().as_bytes()));
        cause = error.downcast_ref::<Fault>();
        // The reason of a `Fault` already includes its own causes.
        if cause.is_some() {
            break;
        }
    }
    reasons.dedup();
    let reason = format!("cannot get temporary keys for S3: {}", reasons.join(": "));
    let fault = match cause {
        Some(cause) => Fault { reason, ..cause.clone() },
        None => wrong(reason),
    };
    fault.final_for_now()
}

/// Wraps a failure in an error that reqsign passes on to its caller.
fn passed_on(fault: Fault) -> Error {
    Error::unexpected(fault.reason.clone()).with_source(fault)
}

fn wrong(reason: String) -> Fault {
    Fault::new(StorageErrorKind::Permission, reason)
}

/// Authorization of requests for credentials, which are not signed.
struct Unsigned;

impl Authorization for Unsigned {
    fn headers(&self, _method: &str, _url: &str, _others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        Ok(Vec::new())
    }

    /// Returns false, because a token is valid for one host only.
    fn follows_redirects(&self) -> bool {
        false
    }

    fn advice(&self) -> String {
        "it issues the temporary keys for S3".to_owned()
    }
}

/// Sends reqsign's requests for credentials.
#[derive(Debug)]
struct Sender {
    settings: Settings,
    /// URL to which all requests are sent instead of Amazon's service, if any.
    instead: Option<String>,
}

impl Sender {
    fn send(&self, request: &Request<Bytes>) -> Result<Vec<u8>> {
        let own = |endpoint: &String| format!("{}/", endpoint.trim_end_matches('/'));
        let url = self.instead.as_ref().map_or_else(|| request.uri().to_string(), own);
        let parsed = Url::parse(&url)?;
        if parsed.scheme != "https" && !parsed.is_loopback() {
            let server = parsed.address();
            return Err(wrong(format!("tokens are only sent over https, but the URL of {server} is not https")));
        }
        let headers = request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let headers: Vec<(&str, &str)> = headers.collect();
        let client = client()?;
        with_retries(&self.settings, |_| {
            let mut answer = if request.method() == Method::POST {
                client.post(&url, &String::from_utf8_lossy(request.body()), &Unsigned, &self.settings)?
            } else {
                client.call("GET", &url, &headers, &Unsigned, None, &self.settings)?
            };
            match answer.status() {
                200 => body_of(&mut answer),
                // The body is not shown, since it may contain the token.
                status @ 400..=499 => {
                    let server = answer.server().to_owned();
                    let code = answer.error_code().map(|code| format!(" ({code})")).unwrap_or_default();
                    Err(wrong(format!("{server} refused the request with status {status}{code}")))
                }
                _ => Err(answer.refusal(&Unsigned)),
            }
        })
    }
}

impl HttpSend for Sender {
    async fn http_send(&self, request: Request<Bytes>) -> reqsign_core::Result<Response<Bytes>> {
        match self.send(&request) {
            Ok(body) => Ok(Response::new(body.into())),
            Err(fault) => Err(passed_on(fault)),
        }
    }
}

/// Reads token files for reqsign.
#[derive(Debug)]
struct SmallFiles;

impl FileRead for SmallFiles {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        let unreadable =
            |error: std::io::Error| passed_on(wrong(format!("{path} cannot be read: {error}")).caused_by(&error));
        read_small(Path::new(path), TOKEN_BYTES_MAX).map_err(unreadable)
    }
}

/// Runs the command line of a `credential_process`. Replaces reqsign's own code, which would split the line at every
/// blank.
#[derive(Debug)]
struct CredentialProcess(String);

impl CommandExecute for CredentialProcess {
    async fn command_execute(&self, _program: &str, _arguments: &[&str]) -> reqsign_core::Result<CommandOutput> {
        let output = output_of(&self.0, CREDENTIAL_PROCESS_WAIT).map_err(passed_on)?;
        let status = output.status.code().unwrap_or(-1);
        Ok(CommandOutput { status, stdout: output.stdout, stderr: output.stderr })
    }
}

/// Runs a command line without a shell. The line is split into words as in a POSIX shell, but variables and `~` are not
/// expanded. After an error, such as a timeout, the program and the processes that it started are killed.
fn output_of(line: &str, limit: Duration) -> Result<Output> {
    let words = shlex::split(line)
        .ok_or_else(|| wrong("the profile's credential_process has a quote that does not end".to_owned()))?;
    let Some((program, arguments)) = words.split_first() else {
        return Err(wrong("the profile's credential_process names no program".to_owned()));
    };
    let cannot_run = |error: std::io::Error| wrong(format!("{program} cannot be run: {error}")).caused_by(&error);
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let child = command.spawn().map_err(cannot_run)?;
    let group = Pid::from_child(&child);
    within(limit, || child.wait_with_output()).flatten().map_err(|error| {
        // Errors are ignored, because the program may have ended just now.
        let _ = kill_process_group(group, Signal::KILL);
        if error.kind() != std::io::ErrorKind::TimedOut {
            return cannot_run(error);
        }
        let reason = format!("{program} did not end within {} s", limit.as_secs());
        Fault::new(StorageErrorKind::Timeout, reason)
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    #[test]
    fn a_command_line_is_split_as_by_a_shell_and_nothing_is_expanded() {
        let output = output_of(r#"printf '<%s>' "a  b" c\ d '~' '$HOME' e"#, Duration::from_secs(60)).unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "<a  b><c d><~><$HOME><e>");
        for (line, reason) in [("printf 'open", "a quote"), ("\"", "a quote"), ("", "no program"), (" ", "no program")]
        {
            let fault = output_of(line, Duration::from_secs(60)).unwrap_err();
            assert_eq!(fault.kind, StorageErrorKind::Permission);
            assert!(fault.reason.contains(reason), "{}", fault.reason);
        }
    }

    #[test]
    fn a_program_that_cannot_be_run_keeps_the_error_of_the_system() {
        let fault = fault_of(&passed_on(output_of("/no/such/program", Duration::from_secs(60)).unwrap_err()));
        assert_eq!(fault.kind, StorageErrorKind::Permission);
        assert_eq!(fault.source.as_ref().and_then(crate::IoCause::errno), Some(2));
        assert_eq!(fault.reason.matches("(os error 2)").count(), 1, "{}", fault.reason);
        assert_eq!(fault.reason.matches("cannot be run").count(), 1, "{}", fault.reason);
        assert!(!fault.retry_may_help);
    }

    #[test]
    fn a_file_of_a_token_that_cannot_be_read_keeps_the_error_of_the_system() {
        let error = pollster::block_on(SmallFiles.file_read("/no/such/token")).unwrap_err();
        let fault = fault_of(&error);
        assert_eq!(fault.source.as_ref().and_then(crate::IoCause::errno), Some(2));
        assert_eq!(fault.reason.matches("(os error 2)").count(), 1, "{}", fault.reason);
    }

    #[test]
    fn a_program_that_does_not_end_is_killed_with_its_children() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let line = format!("sh -c 'sleep 600 & echo $! >{} && wait'", file.path().display());
        let fault = output_of(&line, Duration::from_secs(2)).unwrap_err();
        assert_eq!(fault.kind, StorageErrorKind::Timeout);
        let child = std::fs::read_to_string(file.path()).unwrap().trim().parse().unwrap();
        let child = Pid::from_raw(child).unwrap();
        let is_gone = || {
            let status = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).unwrap_or_default();
            test_kill_process(child).is_err() || status.contains(") Z ")
        };
        while !is_gone() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
