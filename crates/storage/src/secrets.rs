//! Removes passwords, tokens and keys from URLs and server messages before they are shown.

/// Query parameters that contain credentials.
const SECRET_KEYS: &[&str] = &[
    "authz",
    "authorization",
    "token",
    "signature",
    "password",
    "passwd",
    "credential",
    "macaroon",
    "xrd.ztn",
    "secret",
    "key",
    "keyid",
    "jwt",
    "bearer",
    "ticket",
];

/// Replaces passwords and the values of secret parameters by `***`, in a URL or in a message that contains a URL. A
/// plain path is not changed.
pub fn without_secrets(text: &str) -> String {
    let each: Vec<String> = text.split(" | ").map(without_secrets_of_one).collect();
    each.join(" | ")
}

fn without_secrets_of_one(text: &str) -> String {
    let text = without_password(text);
    let Some((head, query)) = text.split_once('?') else { return text };
    let shown: Vec<String> = query.split('&').map(without_secret_value).collect();
    format!("{head}?{}", shown.join("&"))
}

fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    // A URL may contain another URL, in the path or directly after the scheme.
    if authority.ends_with(':') && tail.starts_with("//") {
        return format!("{scheme}://{}", without_password(rest));
    }
    let tail = without_password(tail);
    let user = authority.rsplit_once('@').and_then(|(userinfo, address)| Some((userinfo.split_once(':')?.0, address)));
    match user {
        Some((user, address)) => format!("{scheme}://{user}:***@{address}{tail}"),
        None => format!("{scheme}://{authority}{tail}"),
    }
}

fn without_secret_value(parameter: &str) -> String {
    let Some((key, value)) = parameter.split_once('=') else { return parameter.to_owned() };
    let lower = key.to_ascii_lowercase();
    let is_secret =
        SECRET_KEYS.iter().any(|secret| lower.ends_with(secret)) || matches!(&*lower, "sig" | "code" | "auth" | "pwd");
    if is_secret && !value.is_empty() {
        format!("{key}=***")
    } else {
        parameter.to_owned()
    }
}

/// Quotes a server's text for use in a message: on one line, shortened, and without secrets that the server may echo.
pub(crate) fn quoted(words: &[u8]) -> String {
    const LETTERS_MAX: usize = 300;
    let text = String::from_utf8_lossy(words);
    let visible: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let words: Vec<&str> = visible.split_whitespace().collect();
    let follows_scheme = |index: usize| index > 0 && is_scheme(words[index - 1]);
    let shown = |(index, word): (usize, &&str)| {
        if follows_scheme(index) && is_encoded(word) {
            "***".to_owned()
        } else {
            shown_word(word)
        }
    };
    let safe: Vec<String> = words.iter().enumerate().map(shown).collect();
    let mut line = safe.join(" ");
    if line.chars().count() > LETTERS_MAX {
        line = line.chars().take(LETTERS_MAX).chain("...".chars()).collect();
    }
    line
}

/// Returns whether a word is an authorization scheme, after which a token follows in the `Authorization` header.
fn is_scheme(word: &str) -> bool {
    word.eq_ignore_ascii_case("bearer") || word.eq_ignore_ascii_case("basic")
}

/// Returns whether a word looks like an encoded secret: after its first character, the word contains digits or
/// capitals.
fn is_encoded(word: &str) -> bool {
    word.chars().skip(1).any(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase())
}

fn shown_word(word: &str) -> String {
    // JSON web tokens start with `{"`, which becomes `eyJ` in base 64.
    if word.contains("eyJ") {
        "***".to_owned()
    } else {
        without_secrets(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        for (text, shown) in [
            ("/data/f?token=x", "/data/f?token=***"),
            ("https://u:p@h/f?a=1&authz=Bearer%20x&b=2", "https://u:***@h/f?a=1&authz=***&b=2"),
            (
                "https://h/f?X-Amz-Signature=1&X-Amz-Credential=2&X-Amz-Date=3",
                "https://h/f?X-Amz-Signature=***&X-Amz-Credential=***&X-Amz-Date=3",
            ),
            ("root://me@h//f", "root://me@h//f"),
            ("root://u:p@cache//root://u:p@h:1094//f", "root://u:***@cache//root://u:***@h:1094//f"),
            ("zip://f.root::https://u:p@h/a.zip?sig=1", "zip://f.root::https://u:***@h/a.zip?sig=***"),
            ("simplecache::https://u:p@[::1]:80/f", "simplecache::https://u:***@[::1]:80/f"),
            ("/plain/path", "/plain/path"),
        ] {
            assert_eq!(without_secrets(text), shown);
        }
        assert_eq!(
            quoted(b"no\naccess for Bearer eyJhbGciOi.x.y to https://u:p@h/f\0"),
            "no access for Bearer *** to https://u:***@h/f"
        );
        assert_eq!(quoted(b"no Bearer token: Bearer MDAxY2xv, basic dTpw"), "no Bearer token: Bearer *** basic ***");
        assert_eq!(quoted(&[b'x'; 1000]).len(), 303);
    }
}
