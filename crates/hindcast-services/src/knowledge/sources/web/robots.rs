//! What a site asks programs not to read (RFC 9309).

use std::time::Duration;

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
                is_ours |= value.to_ascii_lowercase().starts_with(OUR_NAME);
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
            "allow" | "disallow" if !value.is_empty() => self.rules.push((value.to_owned(), key == "allow")),
            "crawl-delay" => {
                self.delay = value.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            }
            _ => {}
        }
    }

    /// Whether a path, with its query, may be read: the longest pattern decides, and permission where two are as long.
    pub(super) fn allow(&self, path: &str) -> bool {
        let fitting = self.rules.iter().filter(|(pattern, _)| fits(pattern, path));
        fitting
            .max_by_key(|(pattern, is_allowed)| (pattern.len(), *is_allowed))
            .is_none_or(|(_, is_allowed)| *is_allowed)
    }
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
}
