//! Keys, licenses and certificates expire by the clock: one that is far off breaks all three.

use jiff::Timestamp;

use super::Check;

const NAME: &str = "clock";
/// 2025-01-01T00:00:00Z: hindcast is younger.
const EARLIEST_SECOND: i64 = 1_735_689_600;
/// 2100-01-01T00:00:00Z
const LATEST_SECOND: i64 = 4_102_444_800;

pub(super) fn check(now: Timestamp) -> Check {
    let remedy = "set the clock, for example by `timedatectl set-ntp true`";
    // Whole seconds are enough for a person to see whether it is right.
    let second = now.as_second();
    let shown = Timestamp::from_second(second).unwrap_or(now);
    if second < EARLIEST_SECOND {
        Check::fail(NAME, format!("{shown} is in the past"), remedy)
    } else if second >= LATEST_SECOND {
        Check::fail(NAME, format!("{shown} is in the far future"), remedy)
    } else {
        Check::ok(NAME, shown.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn only_a_plausible_time_is_fine() {
        for (time, expected) in [
            ("1970-01-01T00:00:05Z", Status::Fail),
            ("2026-03-04T05:06:07.5Z", Status::Ok),
            ("2150-01-01T00:00:00Z", Status::Fail),
        ] {
            let checked = check(time.parse().expect("a time"));
            assert_eq!(checked.status, expected, "{checked:?}");
        }
        let fine = check("2026-03-04T05:06:07.5Z".parse().expect("a time"));
        assert_eq!(fine.detail, "2026-03-04T05:06:07Z");
    }
}
