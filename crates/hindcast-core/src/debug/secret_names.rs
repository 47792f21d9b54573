//! Which names are those of secrets.

/// What is shown in the place of a secret.
pub const MASKED: &str = "***";

/// How a name says that a value is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Named {
    /// A token is a secret if it is a text; one with parts is what a parser reads.
    Token,
    /// All texts in it are secrets.
    Secret,
}

/// As they are without `_` and `-`.
const SECRET_NAMES: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "secret",
    "apikey",
    "privatekey",
    "accesskey",
    "accountkey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "sharedkey",
    "credential",
];
/// Headers that say who someone is, as [`SECRET_NAMES`] are written.
const HEADERS: [&str; 4] = ["authorization", "proxyauthorization", "cookie", "setcookie"];
/// What may follow `token` in the name of a secret; a `token_count` or a `tokenKind` is none.
const WORDS_FOR_TEXTS: [&str; 11] =
    ["value", "string", "str", "text", "secret", "hash", "data", "header", "raw", "buf", "buffer"];

/// Whether a name, or an expression that has names in it, is that of a secret.
pub fn named(text: &str) -> Option<Named> {
    // A header is a text that is asked for itself; objects of such names have parts that are none.
    let header = identifiers(text).last().filter(|(name, _)| is_header(name)).map(|_| Named::Token);
    identifiers(text).filter_map(|(name, _)| of_identifier(name)).chain(header).max()
}

/// Whether it is an option of a command line whose value is a secret: `--password`.
pub fn takes_secret(option: &str) -> bool {
    option.starts_with('-') && identifiers(option).count() == 1 && ends_as_secret(option).is_some()
}

/// Whether it is a header that says who someone is.
pub fn is_header(name: &str) -> bool {
    HEADERS.contains(&without_joints(name).as_str())
}

/// Whether it is a header with cookies.
pub fn is_cookie(name: &str) -> bool {
    without_joints(name).ends_with("cookie")
}

/// Whether it is what signs a request, if it is in one; elsewhere it may be a signal.
pub fn is_signature(name: &str) -> bool {
    ["sig", "signature", "xamzsignature"].contains(&without_joints(name).as_str())
}

/// Words of letters, digits, `_` and `-`, and where each ends.
pub fn identifiers(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '-';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + text[at..].find(is_part)?;
        at = text[start..].find(|letter| !is_part(letter)).map_or(text.len(), |end| start + end);
        Some((&text[start..at], at))
    })
}

fn of_identifier(name: &str) -> Option<Named> {
    let plain = without_joints(name).replace("secretar", "");
    if SECRET_NAMES.iter().any(|secret| plain.contains(secret))
        || words(name).iter().any(|word| word == "pwd")
    {
        return Some(Named::Secret);
    }
    is_token(name).then_some(Named::Token)
}

/// Whether what is assigned to this is a secret: `db_password`, not `password_file`.
pub fn ends_as_secret(name: &str) -> Option<Named> {
    let plain = without_joints(name);
    match SECRET_NAMES.iter().chain(&["pwd"]).any(|secret| plain.ends_with(secret)) {
        true => Some(Named::Secret),
        false => is_token(name).then_some(Named::Token),
    }
}

fn without_joints(name: &str) -> String {
    name.chars().filter(|letter| !"_-".contains(*letter)).map(|letter| letter.to_ascii_lowercase()).collect()
}

/// Whether it is an `accessToken` rather than a `cancellationToken`, a `tokenizer` or `tokens`.
fn is_token(name: &str) -> bool {
    let words = words(name);
    let Some(at) = words.iter().rposition(|word| word.ends_with("token")) else { return false };
    let is_followed_well = words[at + 1..].iter().all(|word| WORDS_FOR_TEXTS.contains(&word.as_str()));
    // What is public is part of an assembly's name: `PublicKeyToken`.
    is_followed_well && !words.iter().any(|word| word.contains("cancel") || word == "public")
}

/// `accessToken`, `ACCESS_TOKEN` and `APIToken2` in words, lower case, without numbers.
fn words(name: &str) -> Vec<String> {
    let letters: Vec<char> = name.chars().collect();
    let mut words = vec![String::new()];
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map_or(' ', |before| letters[before]);
        let ends_capitals =
            before.is_uppercase() && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let begins = letter.is_uppercase() && (before.is_lowercase() || before.is_numeric() || ends_capitals);
        if begins || !letter.is_alphabetic() {
            words.push(String::new());
        }
        if letter.is_alphabetic()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether values of a type are bytes, as keys are.
pub fn is_bytes(type_name: &str) -> bool {
    let lower = type_name.to_ascii_lowercase();
    let named = ["byte", "u8", "uint8_t", "unsigned char", "char"];
    named.iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
            !lower[..at].ends_with(is_word) && !lower[at + name.len()..].starts_with(is_word)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_others() {
        for name in [
            "password",
            "dbPassword",
            "API_KEY",
            "api-key",
            "privateKey",
            "[\"PASSWORD\"]",
            "password[0]",
            "pwd",
            "dbPwd",
            "signingKey",
            "AccountKey",
        ] {
            assert_eq!(named(name), Some(Named::Secret), "{name}");
        }
        for name in [
            "token",
            "accessToken",
            "auth_token",
            "APIToken",
            "AUTH_TOKEN",
            "tokenValue",
            "accesstoken",
            "token2",
            "headers[\"Authorization\"]",
            "[\"Set-Cookie\"]",
        ] {
            assert_eq!(named(name), Some(Named::Token), "{name}");
        }
        for name in [
            "cancellationToken",
            "tokenizer",
            "tokens",
            "tokenCount",
            "token_kind",
            "secretary",
            "pass",
            "key",
            "PublicKeyToken",
            "publicKey",
            "cookie.Path",
            "sig",
        ] {
            assert_eq!(named(name), None, "{name}");
        }
        assert_eq!(named("Join(cancellationToken, accessToken)"), Some(Named::Token));
        assert_eq!(named("$\"{token} {password}\""), Some(Named::Secret));
    }

    #[test]
    fn bytes_are_known_by_their_type() {
        for name in
            ["byte[]", "Span<byte>", "[u8; 4]", "unsigned char [16]", "uint8_t[8]", "alloc::vec::Vec<u8>"]
        {
            assert!(is_bytes(name), "{name}");
        }
        for name in ["int[]", "Bytes", "List<Character>", "sbyte_count"] {
            assert!(!is_bytes(name), "{name}");
        }
    }
}
