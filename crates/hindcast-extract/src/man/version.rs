//! Which software a page is about, and which version of it, as the foot of the page tells.

/// Longer ones, in bytes, are something else.
const LONGEST: usize = 100;

/// What the manual is called where that does not say whose it is.
const GENERAL: [&str; 5] = ["command", "manual", "reference", "guide", "programmer"];

/// `coreutils@9.1`, from what stands behind `.TH`: the page's name, the section, the date, the software, and the manual.
pub(super) fn told_by(words: &[String]) -> Option<String> {
    let source = words.get(3)?.trim();
    let is_one_word =
        |name: &str| name.starts_with(char::is_alphabetic) && !name.contains(char::is_whitespace);
    let (before, version) = match source.rsplit_once(char::is_whitespace) {
        Some((before, last)) if is_version(last) => (before, last),
        None if is_version(source) => ("", source),
        // `binutils-2.40`
        _ => source.rsplit_once('-').filter(|(name, last)| is_one_word(name) && is_version(last))?,
    };
    let manual = words.get(4).map_or("", |manual| manual.trim());
    let is_general = |name: &str| GENERAL.iter().any(|general| name.to_lowercase().contains(general));
    let name = match without_owner(before) {
        "" if manual.is_empty() || is_general(manual) => words.first()?,
        "" => manual,
        name => name,
    };
    let name: Vec<_> = name.split_whitespace().map(str::to_lowercase).collect();
    let tag = format!("{}@{}", name.join("-"), version.trim_start_matches('v'));
    (tag.len() <= LONGEST && !tag.contains(char::is_control)).then_some(tag)
}

/// `coreutils` of `GNU coreutils`, `Libgcrypt` of `dumpsexp (Libgcrypt)`; nothing of `Version`.
fn without_owner(name: &str) -> &str {
    let inner =
        name.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map_or(name, |(inner, _)| inner);
    let inner = inner.trim();
    if inner.eq_ignore_ascii_case("version") { "" } else { inner.strip_prefix("GNU ").unwrap_or(inner) }
}

/// Whether a word is a version, and neither a year nor a date.
fn is_version(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or(word);
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_year = is_number && digits.len() == 4;
    let is_date = digits.len() == 10 && digits.split('-').count() == 3;
    let is_of_versions = |byte: u8| byte.is_ascii_alphanumeric() || b".+~-:_".contains(&byte);
    digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(is_of_versions)
        && !is_year
        && !is_date
        && (is_number || digits.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foot_of_a_page_tells_the_version() {
        for (words, expected) in [
            (&["LS", "1", "September 2022", "GNU coreutils 9.1", "User Commands"][..], Some("coreutils@9.1")),
            (&["iconv", "1", "2023-02-05", "Linux man-pages 6.03"], Some("linux-man-pages@6.03")),
            (&["OPENSSL-CMDS", "1SSL", "2026-01-27", "3.0.19", "OpenSSL"], Some("openssl@3.0.19")),
            (&["dpkg", "1", "2023-05-11", "1.21.22", "dpkg suite"], Some("dpkg-suite@1.21.22")),
            (&["MAWK", "1", "2019-12-31", "Version 1.3.4", "USER COMMANDS"], Some("mawk@1.3.4")),
            (
                &["CPAN", "1", "2025-04-12", "perl v5.36.0", "Perl Programmers Reference Guide"],
                Some("perl@5.36.0"),
            ),
            (
                &["ELFEDIT", "1", "2023-01-14", "binutils-2.40.00", "GNU Development Tools"],
                Some("binutils@2.40.00"),
            ),
            (
                &["DUMPSEXP", "1", "October 2007", "dumpsexp (Libgcrypt) 1.3.1", "User Commands"],
                Some("libgcrypt@1.3.1"),
            ),
            (&["BUGPOINT", "1", "2023-02-17", "14", "LLVM"], Some("llvm@14")),
            (&["JOURNALCTL", "1", "", "systemd 252"], Some("systemd@252")),
            (&["HOSTNAME", "1", "2009-09-16", "net-tools", "Linux Programmer's Manual"], None),
            (&["X", "1", "", "Linux 2021"], None),
            (&["X", "1", "", "2021-06-11"], None),
            (&["X", "1", "", "Debian Project"], None),
            (&["VIM", "1", "2021 Jun 13"], None),
            (&[], None),
        ] {
            let words: Vec<_> = words.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(told_by(&words).as_deref(), expected, "{words:?}");
        }
    }
}
