//! What a site asks programs not to read (RFC 9309).

use std::{fmt::Write as _, time::Duration};

/// Longer files are cut, as the standard says.
const LONGEST: usize = 512 * 1024;

/// The name that sites call us by.
const OUR_NAME: &str = "hindcast";

/// The rules that hold for us.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Robots {
    /// Whether a path that fits the pattern may be read.
    rules: Vec<(String, bool)>,
    /// How long to wait between two pages.
    pub(super) delay: Option<Duration>,
}

impl Robots {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(LONGEST)]).into_owned();
        let (mut ours, mut everybodys) = (Self::default(), Self::default());
        let (mut is_ours, mut is_everybodys, mut is_in_group, mut has_own) = (false, false, true, false);
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) =
                line.split_once(':').map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim()))
            else {
                continue;
            };
            if key == "user-agent" {
                if is_in_group {
                    (is_ours, is_everybodys, is_in_group) = (false, false, false);
                }
                is_ours |= product(value).eq_ignore_ascii_case(OUR_NAME);
                is_everybodys |= value == "*";
                has_own |= is_ours;
                continue;
            }
            is_in_group = true;
            for (robots, _) in [(&mut ours, is_ours), (&mut everybodys, is_everybodys)]
                .into_iter()
                .filter(|(_, holds)| *holds)
            {
                robots.take(&key, value);
            }
        }
        if has_own { ours } else { everybodys }
    }

    fn take(&mut self, key: &str, value: &str) {
        match key {
            "allow" | "disallow" if !value.is_empty() => {
                self.rules.push((normal_pattern(value), key == "allow"))
            }
            "crawl-delay" => {
                self.delay = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            }
            _ => {}
        }
    }

    /// How many rules a path is tested against.
    pub(super) fn rules(&self) -> usize {
        self.rules.len()
    }

    /// Whether a path, with its query, may be read: the longest pattern decides, and permission where two are as long.
    pub(super) fn allow(&self, path: &str) -> bool {
        let path = normal(path, "*$");
        let fitting = self.rules.iter().filter(|(pattern, _)| fits(pattern, &path));
        fitting
            .max_by_key(|(pattern, is_allowed)| (pattern.len(), *is_allowed))
            .is_none_or(|(_, is_allowed)| *is_allowed)
    }
}

/// The name of a program without its version: `Hindcast` of `Hindcast/1.0`.
fn product(value: &str) -> &str {
    let end = value.find(|char: char| !char.is_ascii_alphabetic() && !matches!(char, '-' | '_'));
    &value[..end.unwrap_or(value.len())]
}

fn normal_pattern(pattern: &str) -> String {
    match pattern.strip_suffix('$') {
        Some(pattern) => normal(pattern, "$") + "$",
        None => normal(pattern, "$"),
    }
}

/// A path with everything in one spelling: letters and digits plain, what addresses do not have, and what is `special` in a
/// pattern, as `%C3`.
fn normal(path: &str, special: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| first == b'%');
        let encoded =
            digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        let byte = encoded.unwrap_or(first);
        rest = if encoded.is_some() { &after[2..] } else { after };
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_foreign = !byte.is_ascii_graphic() || b"\"<>`{}|\\^".contains(&byte);
        if is_unreserved || (encoded.is_none() && !is_foreign && !special.as_bytes().contains(&byte)) {
            plain.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(plain, "%{byte:02X}");
        }
    }
    plain
}

/// `*` stands for anything, and `$` at the end for the end.
fn fits(pattern: &str, path: &str) -> bool {
    let (pattern, is_whole) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = path.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    for (number, part) in (1..).zip(&parts) {
        if is_whole && number == parts.len() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    !is_whole || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_rule_of_our_group_decides() {
        let robots = Robots::parse(
            b"User-agent: other\nDisallow: /\n\nUser-agent: *\nUser-agent: third\nDisallow: /private # not this\nAllow: /private/open\n\
              Disallow: /*.pdf$\nCrawl-delay: 2.5\nSitemap: /s.xml\n",
        );
        for (path, is_allowed) in [
            ("/", true),
            ("/private", false),
            ("/private/open/x", true),
            ("/a/b.pdf", false),
            ("/a/b.pdf?x", true),
            ("/Private", true),
        ] {
            assert_eq!(robots.allow(path), is_allowed, "{path}");
        }
        assert_eq!(robots.delay, Some(Duration::from_millis(2500)));
        let own = Robots::parse(b"User-agent: *\nDisallow: /\nUser-agent: Hindcast/1.0\nDisallow: /no\n");
        assert!(own.allow("/yes") && !own.allow("/no"));
        assert!(Robots::parse(b"\xff\xfe nonsense : : \n Disallow /").allow("/anything"));
        assert!(!Robots::parse(b"User-agent: *\nDisallow: /\n").allow("/x"));
    }

    #[test]
    fn a_mark_of_the_encoding_does_not_hide_the_first_group() {
        assert!(!Robots::parse(b"\xef\xbb\xbfUser-agent: *\nDisallow: /x\n").allow("/x"));
    }

    #[test]
    fn programs_of_longer_names_are_others() {
        for other in ["hindcastbot", "hindcast-images", "hindcast_x/1"] {
            let robots = Robots::parse(format!("User-agent: {other}\nDisallow: /\n").as_bytes());
            assert!(robots.allow("/x"), "{other}");
        }
        for own in ["hindcast", "HINDCAST/2.1", "Hindcast (help)"] {
            let robots = Robots::parse(format!("User-agent: {own}\nDisallow: /\n").as_bytes());
            assert!(!robots.allow("/x"), "{own}");
        }
    }

    #[test]
    fn paths_are_compared_however_they_are_encoded() {
        let url = url::Url::parse("https://a/café/my file.html?q=%7Eb").unwrap();
        for (pattern, fits) in [
            ("/café", true),
            ("/caf%c3%a9/", true),
            ("/caf%C3%A9/my%20file", true),
            ("/c%61f*file.html$", false),
            ("/c%61f*q=~b$", true),
            ("/*my file", true),
            ("/caf%C3%A8", false),
            ("/caf%C3%A9%2Fmy", false),
        ] {
            let robots = Robots::parse(format!("User-agent: *\nDisallow: {pattern}\n").as_bytes());
            assert_eq!(robots.allow(&url[url::Position::BeforePath..]), !fits, "{pattern}");
        }
        let robots = Robots::parse(b"User-agent: *\nDisallow: /a%2Ab$\n");
        assert!(!robots.allow("/a*b") && robots.allow("/axb"), "an encoded star is a star");
        let robots = Robots::parse(b"User-agent: *\nDisallow: /a$b\nDisallow: /50%\n");
        assert!(!robots.allow("/a$b") && robots.allow("/a") && !robots.allow("/50%"));
    }
}
