//! Small pictures of numbers.

use hindcast_core::{Timestamp, audit::AuditRow};
use maud::{Markup, html};

const HOURS: usize = 24;
/// In the units of the picture.
const HEIGHT: f64 = 120.0;
const STEP: f64 = 25.0;

/// How much of a limit is used.
#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
pub(super) fn meter(used: u64, limit: u64) -> Markup {
    let share = if limit == 0 { 1.0 } else { (used as f64 / limit as f64).min(1.0) };
    let width = format!("{:.1}%", share * 100.0);
    html! {
        svg.meter width="100%" height="8" role="img" aria-label=(format!("{used} of {limit}")) {
            rect width=(width) height="8" {}
        }
    }
}

/// Requests in each of the last hours: those that went well, and those that did not.
#[expect(clippy::cast_precision_loss, reason = "it is drawn")]
pub(super) fn hours(rows: &[AuditRow], now: Timestamp) -> Markup {
    let mut counts = [(0_u64, 0_u64); HOURS];
    for row in rows {
        let Some((good, bad)) = hour(row.record.time, now).and_then(|hour| counts.get_mut(hour)) else {
            continue;
        };
        *(if row.record.outcome == "ok" { good } else { bad }) += 1;
    }
    let most = counts.iter().map(|(good, bad)| good + bad).max().unwrap_or(0).max(1);
    let height = |count: u64| count as f64 / most as f64 * HEIGHT;
    let (good, bad) = counts.iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1));
    let told = format!("{good} requests went well and {bad} did not; at most {most} in an hour");
    html! {
        svg.plot viewBox="0 0 600 140" preserveAspectRatio="none" role="img" aria-label=(told) {
            line x1="0" x2="600" y1=(HEIGHT) y2=(HEIGHT) {}
            @for (place, (good, bad)) in counts.iter().enumerate() {
                @let left = place as f64 * STEP + 3.0;
                rect.ok x=(left) width=(STEP - 6.0) y=(HEIGHT - height(*good)) height=(height(*good)) {
                    title { (ago(place)) ": " (good) " ok, " (bad) " not" }
                }
                rect.bad x=(left) width=(STEP - 6.0) y=(HEIGHT - height(good + bad)) height=(height(*bad)) {}
            }
        }
        p.faint { (told) ". Left: 24 hours ago; right: now." }
    }
}

/// In which of the hours, the last of which is now.
fn hour(time: Timestamp, now: Timestamp) -> Option<usize> {
    let hours = usize::try_from(now.duration_since(time).as_secs() / 3600).ok()?;
    (HOURS - 1).checked_sub(hours)
}

fn ago(place: usize) -> String {
    match HOURS - 1 - place {
        0 => "this hour".to_owned(),
        1 => "1 hour ago".to_owned(),
        hours => format!("{hours} hours ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_counted_back_from_now() {
        let at = |second: i64| Timestamp::from_second(1_000_000 + second).unwrap();
        assert_eq!(hour(at(0), at(10)), Some(23));
        assert_eq!(hour(at(0), at(3600)), Some(22));
        assert_eq!(hour(at(0), at(24 * 3600)), None);
        assert_eq!((ago(23), ago(21)), ("this hour".to_owned(), "2 hours ago".to_owned()));
    }

    #[test]
    fn a_limit_of_nothing_is_used_up() {
        assert!(meter(0, 0).into_string().contains("100.0%"));
        assert!(meter(1, 4).into_string().contains("25.0%"));
    }
}
