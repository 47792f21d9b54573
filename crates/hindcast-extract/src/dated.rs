//! The date that a document gives itself.

use jiff::{
    Timestamp,
    civil::{Date, DateTime},
    fmt::rfc2822,
    tz::TimeZone,
};

/// Days as people write them. Where the order of day and month cannot be told, as in 3/4/2020, there is no date.
const DAYS: [&str; 6] = ["%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%d %B %Y", "%d %b %Y", "%B %d, %Y"];

/// Whether a store can keep it, in nanoseconds. Earlier and later dates are as good as none.
fn is_kept(time: &Timestamp) -> bool {
    i64::try_from(time.as_nanosecond()).is_ok()
}

/// A date or a time as people and programs write them: RFC 3339, ISO 8601, a day, a month, that of mails and HTTP. In UTC where no
/// zone is given. A comment behind it is left out.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    let text = text.split(" #").next().unwrap_or(text).trim();
    let in_utc = || text.parse::<DateTime>().ok()?.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp());
    let with_zone = || Timestamp::strptime("%Y-%m-%d %H:%M:%S %z", text).ok();
    let of_mail = || Some(rfc2822::parse(text).ok()?.timestamp());
    let day = || {
        let first = format!("{text}-1");
        let month = Date::strptime("%Y-%m-%d", first).ok().filter(|_| text.len() <= 7);
        let day = DAYS.iter().find_map(|format| Date::strptime(format, text).ok()).or(month)?;
        day.to_zoned(TimeZone::UTC).ok().map(|time| time.timestamp())
    };
    let found = text.parse().ok().or_else(in_utc).or_else(with_zone).or_else(of_mail).or_else(day);
    found.filter(is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_with_and_without_a_time_or_a_zone() {
        for (text, expected) in [
            ("2024-05-01", Some("2024-05-01T00:00:00Z")),
            (" 2024-05-01T12:30:00+02:00 ", Some("2024-05-01T10:30:00Z")),
            ("2024-05-01 12:30", Some("2024-05-01T12:30:00Z")),
            ("2024-05-01 10:30:00Z", Some("2024-05-01T10:30:00Z")),
            ("2015-09-26 01:23:00 -0700", Some("2015-09-26T08:23:00Z")),
            ("2024-05-01  # first version", Some("2024-05-01T00:00:00Z")),
            ("Fri, 03 May 2024 08:00:00 GMT", Some("2024-05-03T08:00:00Z")),
            ("2012-1-5", Some("2012-01-05T00:00:00Z")),
            ("2012/11/10", Some("2012-11-10T00:00:00Z")),
            ("2012-11", Some("2012-11-01T00:00:00Z")),
            ("24.12.2016", Some("2016-12-24T00:00:00Z")),
            ("12 March 2020", Some("2020-03-12T00:00:00Z")),
            ("March 12, 2020", Some("2020-03-12T00:00:00Z")),
            ("3/4/2020", None),
            ("1492-10-12", None),
            ("2500-01-01", None),
            ("in spring", None),
            ("", None),
        ] {
            assert_eq!(parse(text).map(|time| time.to_string()).as_deref(), expected, "{text}");
        }
    }
}
