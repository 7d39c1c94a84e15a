//! Tests of valid and invalid settings from environment variables and files.

use super::*;

const CREDENTIALS: &str = "
# keys
[default]
aws_access_key_id = ID
aws_secret_access_key = SECRET/with=signs
[ rgw ]
aws_access_key_id=ID2
aws_secret_access_key=SECRET2
aws_session_token = LENT
";
const CONFIG: &str = r#"
[default]
region = eu-central-1
[profile rgw]
endpoint_url = https://rgw.example.org:7480
s3 =
  addressing_style = virtual
  max_concurrent_requests = 20
[profile assumed]
region = here
role_arn = arn:aws:iam::1:role/reader
source_profile = rgw
[profile assumed-with-keys]
role_arn = arn:aws:iam::1:role/reader
source_profile = assumed-with-keys
aws_access_key_id = ID3
aws_secret_access_key = SECRET3
[profile assumed-signed-on]
role_arn = arn:aws:iam::1:role/reader
source_profile = rgw
sso_session = site
sso_account_id = 1
sso_role_name = reader
[profile printed]
credential_process = /bin/keys --for "a b"
[profile signed-on]
sso_session = site
sso_account_id = 1
sso_role_name = reader
[sso-session site]
sso_region = eu-west-1
sso_start_url = https://site.example.org/start
[profile signed-on-once]
sso_start_url = https://site.example.org/start
sso_account_id = 1
sso_region = eu-west-2
[profile services]
services = site
[services site]
s3 =
    endpoint_url = http://site.example.org
"#;

/// A home directory with `~/.aws/credentials` and `~/.aws/config`; removed when dropped.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = std::env::temp_dir().join(format!("branchline-aws-{name}-{}", std::process::id()));
        std::fs::create_dir_all(home.join(".aws")).unwrap();
        std::fs::write(home.join(".aws/credentials"), CREDENTIALS).unwrap();
        std::fs::write(home.join(".aws/config"), CONFIG).unwrap();
        Self(home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(home: Option<&Path>, named: Option<&str>, variables: &[(&str, &str)]) -> Result<Profile> {
    let set = |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
    profile_from(named, &set, home)
}

fn keys_of(profile: &Profile) -> (&str, &str, Option<&str>) {
    let Some(Source::Keys(keys)) = &profile.credentials else { panic!("it has no keys") };
    (&keys.id, &keys.secret, keys.session_token.as_deref())
}

#[test]
fn variables_come_before_files() {
    let home = Home::new("variables");
    let own = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B"), ("AWS_ENDPOINT_URL", "http://h:1")];
    let found = read(Some(&home.0), None, &own).unwrap();
    assert_eq!(keys_of(&found), ("A", "B", None));
    assert_eq!((found.region.as_str(), found.endpoint.as_deref()), ("eu-central-1", Some("http://h:1")));
    let found = read(Some(&home.0), None, &[]).unwrap();
    assert_eq!(keys_of(&found), ("ID", "SECRET/with=signs", None));
    let both = [("AWS_ENDPOINT_URL", "http://h:1"), ("AWS_ENDPOINT_URL_S3", "http://h:2"), ("AWS_REGION", "r")];
    let found = read(Some(&home.0), None, &both).unwrap();
    assert_eq!((found.region.as_str(), found.endpoint.as_deref()), ("r", Some("http://h:2")));
}

#[test]
fn a_profile_is_taken_as_a_whole_where_the_url_names_it() {
    let home = Home::new("profile");
    let own = [("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "B"), ("AWS_ENDPOINT_URL", "http://h:1")];
    let found = read(Some(&home.0), Some("rgw"), &own).unwrap();
    assert_eq!(keys_of(&found), ("ID2", "SECRET2", Some("LENT")));
    assert_eq!(found.endpoint.as_deref(), Some("https://rgw.example.org:7480"));
    assert_eq!((found.region.as_str(), found.has_path_style), ("us-east-1", Some(false)));
    let found = read(Some(&home.0), None, &[("AWS_PROFILE", "rgw")]).unwrap();
    assert_eq!(keys_of(&found).0, "ID2");
    let found = read(Some(&home.0), Some("services"), &[]).unwrap();
    assert_eq!(found.endpoint.as_deref(), Some("http://site.example.org"));
}

#[test]
fn without_keys_requests_are_not_signed() {
    let found = read(None, None, &[]).unwrap();
    assert!(found.credentials.is_none() && found.endpoint.is_none() && found.region == "us-east-1");
    let home = Home::new("anonymous");
    assert!(read(Some(&home.0), None, &[("AWS_NO_SIGN_REQUEST", "YES")]).unwrap().credentials.is_none());
    assert!(read(Some(&home.0), None, &[("AWS_SKIP_SIGNATURE", "false")]).unwrap().credentials.is_some());
}

#[test]
fn a_profile_may_name_another_source_of_keys() {
    let home = Home::new("sources");
    let source = |named: &str| read(Some(&home.0), Some(named), &[]).map(|profile| profile.credentials.unwrap());
    assert!(matches!(source("printed"), Ok(Source::Process(line)) if line == "/bin/keys --for \"a b\""));
    let Ok(Source::Sso(sso)) = source("signed-on") else { panic!("it is signed on") };
    assert_eq!((sso.account.as_str(), sso.role.as_str(), sso.region.as_str()), ("1", "reader", "eu-west-1"));
    assert_eq!(sso.cache_key, "site");
    let Err(incomplete) = source("signed-on-once") else { panic!("it has no role") };
    assert!(incomplete.reason.contains("signed-on-once has single sign-on, but no sso_role_name"));
}

#[test]
fn what_cannot_be_used_is_said_without_the_secret() {
    let home = Home::new("wrong");
    let reason = |named: Option<&str>, variables: &[(&str, &str)]| match read(Some(&home.0), named, variables) {
        Err(fault) => fault.reason,
        Ok(_) => String::new(),
    };
    assert!(reason(Some("absent"), &[]).contains("no profile absent"));
    assert!(reason(None, &[("AWS_PROFILE", "absent")]).contains("no profile absent"));
    assert!(reason(Some("assumed"), &[]).contains("export-credentials --profile assumed"));
    for role in ["assumed-with-keys", "assumed-signed-on"] {
        assert!(reason(Some(role), &[]).contains(&format!("the profile {role} gets its keys from role_arn")));
    }
    assert!(reason(None, &[("AWS_ACCESS_KEY_ID", "A")]).contains("no AWS_SECRET_ACCESS_KEY"));
    assert!(reason(None, &[("AWS_SECRET_ACCESS_KEY", "A")]).contains("no AWS_ACCESS_KEY_ID"));
    let found = reason(None, &[("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "very secret\r\nHost: x")]);
    assert!(found.contains("the secret key has blanks") && !found.contains("very"), "{found}");
    assert!(reason(None, &[("AWS_REGION", "a b")]).contains("the region has blanks"));
}

#[test]
fn lines_that_mean_nothing_are_passed_over() {
    for text in ["[", "[]", "=", "[a]\n=b\n c = d", "[a\nx=1", "x=1", "\0[a]\n\u{feff}"] {
        parsed(text);
    }
    assert_eq!(parsed("[a]\n\ts = 1\n")["a"]["s"], "1");
}
