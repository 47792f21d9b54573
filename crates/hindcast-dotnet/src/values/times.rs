//! Dates, times, identifiers and decimal numbers, from their fields.

use jiff::civil::Date;

use super::seen::{Content, Seen, Values};

const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;

impl Values<'_> {
    pub(super) fn decimal(&self, seen: &Seen) -> Option<String> {
        let number = |names: &[&str]| self.integer_field(seen, names).map(|number| number.cast_unsigned());
        let flags = number(&["_flags", "flags"])?;
        let high = u128::from(number(&["_hi32", "hi"])? & 0xffff_ffff);
        let low = match self.any_field(seen, &["_lo64"]) {
            Some(low) => unsigned(&low)?,
            None => (number(&["mid"])? & 0xffff_ffff) << 32 | number(&["lo"])? & 0xffff_ffff,
        };
        Some(decimal_text(high << 64 | u128::from(low), (flags >> 16 & 0xff) as usize, flags >> 31 & 1 == 1))
    }

    pub(super) fn date_time(&self, seen: &Seen) -> Option<String> {
        let data = unsigned(&self.any_field(seen, &["_dateData", "dateData"])?)?;
        let ticks = (data & 0x3fff_ffff_ffff_ffff).cast_signed();
        let zone = if data >> 62 == 1 { "Z" } else { "" };
        Some(format!("{}{zone}", date_and_time_text(ticks)?))
    }

    pub(super) fn date_time_offset(&self, seen: &Seen) -> Option<String> {
        let instant = self.field_seen(seen, "_dateTime")?;
        let data = unsigned(&self.any_field(&instant, &["_dateData", "dateData"])?)?;
        let minutes = self.integer_field(seen, &["_offsetMinutes"])?;
        let ticks = (data & 0x3fff_ffff_ffff_ffff).cast_signed() + minutes * 60 * TICKS_PER_SECOND;
        let sign = if minutes < 0 { '-' } else { '+' };
        let minutes = minutes.abs();
        Some(format!("{}{sign}{:02}:{:02}", date_and_time_text(ticks)?, minutes / 60, minutes % 60))
    }

    pub(super) fn guid(&self, seen: &Seen) -> Option<String> {
        let part = |name: &str| self.integer_field(seen, &[name]);
        let bytes = ["_d", "_e", "_f", "_g", "_h", "_i", "_j", "_k"];
        let bytes: Vec<i64> = bytes.iter().map(|name| part(name)).collect::<Option<_>>()?;
        let hex = |bytes: &[i64]| bytes.iter().map(|byte| format!("{:02x}", byte & 0xff)).collect::<String>();
        Some(format!(
            "{:08x}-{:04x}-{:04x}-{}-{}",
            part("_a")? & 0xffff_ffff,
            part("_b")? & 0xffff,
            part("_c")? & 0xffff,
            hex(&bytes[..2]),
            hex(&bytes[2..])
        ))
    }
}

fn unsigned(seen: &Seen) -> Option<u64> {
    let Content::Primitive(_, bytes) = &seen.content else { return None };
    Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))
}

/// `1`, or `^1` when it counts from the end.
pub(super) fn index_text(value: i64) -> String {
    if value < 0 { format!("^{}", !value) } else { value.to_string() }
}

/// A number with so many digits behind the point.
fn decimal_text(number: u128, scale: usize, is_negative: bool) -> String {
    let mut digits = number.to_string();
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    if is_negative && number != 0 { format!("-{digits}") } else { digits }
}

/// A day, counted from the first of January of the year 1.
pub(super) fn date_text(day: i64) -> Option<String> {
    let first = Date::new(1, 1, 1).ok()?;
    let date = first.checked_add(jiff::Span::new().try_days(day).ok()?).ok()?;
    Some(date.to_string())
}

/// A time of day, without a fraction of a second where there is none.
pub(super) fn time_text(ticks: i64) -> String {
    let seconds = ticks / TICKS_PER_SECOND;
    let fraction = match ticks % TICKS_PER_SECOND {
        0 => String::new(),
        fraction => format!(".{}", format!("{fraction:07}").trim_end_matches('0')),
    };
    format!("{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn date_and_time_text(ticks: i64) -> Option<String> {
    Some(format!("{}T{}", date_text(ticks / TICKS_PER_DAY)?, time_text(ticks % TICKS_PER_DAY)))
}

pub(super) fn time_span_text(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    // The smallest has no counterpart above zero.
    let (days, ticks) = (ticks / TICKS_PER_DAY, (ticks % TICKS_PER_DAY).abs());
    let days = match days.abs() {
        0 => String::new(),
        days => format!("{days}."),
    };
    format!("{sign}{days}{}", time_text(ticks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_written_as_standards_want() {
        assert_eq!(date_and_time_text(638_000_000_000_000_000).unwrap(), "2022-09-28T22:13:20");
        assert_eq!(date_and_time_text(0).unwrap(), "0001-01-01T00:00:00");
        assert_eq!(time_text(1), "00:00:00.0000001");
        assert_eq!(time_span_text(i64::MIN), "-10675199.02:48:05.4775808");
        assert_eq!(time_span_text(i64::MAX), "10675199.02:48:05.4775807");
        assert_eq!(time_span_text(-(TICKS_PER_DAY + TICKS_PER_SECOND / 2)), "-1.00:00:00.5");
    }

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(decimal_text(12_340, 3, false), "12.340");
        assert_eq!(decimal_text(5, 3, true), "-0.005");
        assert_eq!(decimal_text(0, 0, true), "0");
        assert_eq!(decimal_text(u128::MAX >> 32, 0, false), "79228162514264337593543950335");
    }
}
