//! How much a key may be used, and how much of that is gone.

use jiff::{Timestamp, civil::date, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many metered requests a key may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// In a calendar month, UTC.
    pub per_month: u64,
    /// In a clock minute.
    pub per_minute: u64,
}

/// Which of the two limits is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Period {
    Month,
    Minute,
}

/// Where a key stands against its limits at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// What it may use.
    pub limits: Limits,
    /// Used in the current month.
    pub month: u64,
    /// Used in the current minute.
    pub minute: u64,
    /// When the month's count starts again.
    pub month_resets_at: Timestamp,
    /// When the minute's count starts again.
    pub minute_resets_at: Timestamp,
}

/// How one limit stands at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowance {
    /// What may be used.
    pub limit: u64,
    /// What is used.
    pub used: u64,
    /// When the count starts again.
    pub resets_at: Timestamp,
}

impl Allowance {
    /// What is left.
    pub fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.used)
    }
}

impl Usage {
    /// How the limit of that period stands.
    pub fn of(&self, period: Period) -> Allowance {
        let Limits { per_month, per_minute } = self.limits;
        match period {
            Period::Month => {
                Allowance { limit: per_month, used: self.month, resets_at: self.month_resets_at }
            }
            Period::Minute => {
                Allowance { limit: per_minute, used: self.minute, resets_at: self.minute_resets_at }
            }
        }
    }

    /// The limit that fewer requests are left of; the month's where both have the same, because
    /// waiting a minute does not mend that.
    pub fn nearer(&self) -> Allowance {
        let (month, minute) = (self.of(Period::Month), self.of(Period::Minute));
        if minute.remaining() < month.remaining() { minute } else { month }
    }

    /// The limit that a further request would break, if any; the month's first, because waiting a
    /// minute does not mend that.
    pub fn exhausted(&self) -> Option<Period> {
        if self.month >= self.limits.per_month {
            Some(Period::Month)
        } else if self.minute >= self.limits.per_minute {
            Some(Period::Minute)
        } else {
            None
        }
    }
}

/// How often something may be done that is free: so many times at once, and then once a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FreeRate {
    /// How many at once.
    pub at_once: u32,
    /// Nanoseconds after which there may be one more.
    pub period: i64,
}

impl FreeRate {
    /// Decides about a request at `now`, both in nanoseconds. `until` is what the last one that was let through left, 0 before the
    /// first. Gives what this one leaves, or nothing if it comes too early.
    pub fn admit(self, until: i64, now: i64) -> Option<i64> {
        (until.saturating_sub(now) <= self.ahead()).then(|| until.max(now).saturating_add(self.period))
    }

    /// How far ahead of the time those that are let through may be.
    pub fn ahead(self) -> i64 {
        self.period.saturating_mul(i64::from(self.at_once) - 1)
    }
}

/// The answer to a request for one unit of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reservation {
    /// It is counted, durably; the usage includes it.
    Granted(Usage),
    /// Nothing was counted.
    Refused(Usage, Period),
}

/// The counting windows that an instant falls into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Months since year 0: a number that grows by one each month.
    pub month: i64,
    /// Minutes since the epoch.
    pub minute: i64,
    /// The next month's first instant, UTC.
    pub month_resets_at: Timestamp,
    /// The next minute's first instant.
    pub minute_resets_at: Timestamp,
}

impl Windows {
    /// The windows around `now`.
    pub fn at(now: Timestamp) -> Self {
        let today = now.to_zoned(TimeZone::UTC).date();
        let (year, month) = (today.year(), today.month());
        let next = if month == 12 { date(year + 1, 1, 1) } else { date(year, month + 1, 1) };
        let minute = now.as_second().div_euclid(60);
        Self {
            month: i64::from(year) * 12 + i64::from(month) - 1,
            minute,
            month_resets_at: next.to_zoned(TimeZone::UTC).map_or(Timestamp::MAX, |zoned| zoned.timestamp()),
            minute_resets_at: Timestamp::from_second((minute + 1) * 60).unwrap_or(Timestamp::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(now: &str, month_resets_at: &str, minute_resets_at: &str) {
        let windows = Windows::at(now.parse().unwrap());
        assert_eq!(windows.month_resets_at.to_string(), month_resets_at, "month of {now}");
        assert_eq!(windows.minute_resets_at.to_string(), minute_resets_at, "minute of {now}");
    }

    #[test]
    fn windows_end_where_the_calendar_says() {
        check("2024-11-30T23:59:59.999Z", "2024-12-01T00:00:00Z", "2024-12-01T00:00:00Z");
        check("2024-12-01T00:00:00Z", "2025-01-01T00:00:00Z", "2024-12-01T00:01:00Z");
        check("2024-02-29T12:30:30Z", "2024-03-01T00:00:00Z", "2024-02-29T12:31:00Z");
    }

    #[test]
    fn what_is_free_comes_at_once_and_then_once_a_period() {
        let rate = FreeRate { at_once: 3, period: 10 };
        let mut until = 0;
        let mut admitted = |now| {
            let left = rate.admit(until, now);
            until = left.unwrap_or(until);
            left.is_some()
        };
        let times = [100, 100, 100, 100, 109, 110, 110, 119, 120, 1000, 1000, 1000, 1000];
        let expected = [true, true, true, false, false, true, false, false, true, true, true, true, false];
        assert_eq!(times.map(&mut admitted), expected);
    }

    #[test]
    fn the_month_is_named_before_the_minute() {
        let windows = Windows::at(Timestamp::UNIX_EPOCH);
        let usage = |month, minute| Usage {
            limits: Limits { per_month: 100, per_minute: 10 },
            month,
            minute,
            month_resets_at: windows.month_resets_at,
            minute_resets_at: windows.minute_resets_at,
        };
        assert_eq!(usage(100, 10).exhausted(), Some(Period::Month));
        assert_eq!(usage(99, 10).exhausted(), Some(Period::Minute));
        assert_eq!(usage(99, 9).exhausted(), None);
        let nearer = |month, minute| usage(month, minute).nearer().limit;
        assert_eq!(nearer(0, 0), 10, "of a fresh month the minute is used up first");
        assert_eq!(nearer(95, 0), 100);
        assert_eq!(nearer(95, 9), 10);
        assert_eq!(nearer(95, 5), 100, "both have five left");
        assert_eq!(nearer(100, 10), 100);
    }
}
