//! Small texts: numbers, times, addresses of pages.

use hindcast_core::Timestamp;
use url::form_urlencoded;

/// `%20` and its like as the letters they stand for.
pub(super) fn decoded(part: &str) -> String {
    // `+` is itself in a path.
    let part = part.replace('+', "%2B");
    form_urlencoded::parse(part.as_bytes()).map(|(name, _)| name.into_owned()).next().unwrap_or_default()
}

/// A text as a part of a path.
pub(super) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

/// A path with a query; what is empty is left out.
pub(super) fn link(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

/// `3 min`, `2 h`: how long something has been there.
pub(super) fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// With a space between thousands.
pub(super) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// The last part of a path.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The first letters of a text.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// To the second, without what nobody reads.
pub(super) fn time(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths_come_back_as_they_were() {
        for text in ["a b", "a+b", "ä/ö?x=1&y", "100%", "<script>", ""] {
            assert_eq!(decoded(&encoded(text)), text);
            assert!(!encoded(text).contains(['/', '?', '&', ' ', '<']), "{text}");
        }
    }

    #[test]
    fn links_leave_out_what_is_empty() {
        assert_eq!(link("/sessions/x", &[("a", ""), ("b", "1 2")]), "/sessions/x?b=1+2");
        assert_eq!(link("/x", &[]), "/x");
    }

    #[test]
    fn ages_and_numbers_are_short() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let ago = |seconds: i64| age(Timestamp::from_second(1_000_000 - seconds).unwrap(), now);
        assert_eq!([ago(5), ago(90), ago(7300), ago(300_000)], ["5 s", "1 min", "2 h", "3 days"]);
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(cut("äöü", 2), "äö…");
    }
}
