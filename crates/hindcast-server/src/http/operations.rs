//! What an operator's machines ask: whether the server lives, whether it can serve, and what it does.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use hindcast_services::{
    Failure, FailureKind,
    gateway::{CLASSES, Durations, DurationsSeen, Gateway, StoreOperation},
};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde_json::json;
use tokio::sync::Mutex;

use super::{
    Body,
    answer::{self, With},
};

/// It runs.
pub(super) const ALIVE: &str = "/healthz";
/// It can serve: what it needs answers.
pub(super) const READY: &str = "/readyz";
/// What it does, for Prometheus.
pub(super) const METRICS: &str = "/metrics";

/// Requests to the endpoint, counted.
pub(super) struct Figures {
    /// By HTTP status, from 100 on.
    statuses: [AtomicU64; 500],
    /// Until the head of the answer is there.
    durations: Durations,
}

impl Figures {
    pub(super) fn new() -> Self {
        Self { statuses: std::array::from_fn(|_| AtomicU64::new(0)), durations: Durations::default() }
    }

    /// Counts a request that was answered.
    pub(super) fn add(&self, status: StatusCode, duration: Duration) {
        if let Some(count) = self.statuses.get(usize::from(status.as_u16()).wrapping_sub(100)) {
            count.fetch_add(1, Relaxed);
        }
        self.durations.add(duration);
    }

    fn by_status(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts =
            self.statuses.iter().enumerate().map(|(place, count)| (place + 100, count.load(Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }

    fn of(&self, status: StatusCode) -> u64 {
        self.by_status()
            .find(|(known, _)| *known == usize::from(status.as_u16()))
            .map_or(0, |(_, count)| count)
    }
}

pub(super) fn alive() -> Response<Body> {
    answer::json(StatusCode::OK, r#"{"status":"ok"}"#)
}

/// Whether the store answers, asked at most once a second: anybody may ask, and the store has other work.
#[derive(Default)]
pub(super) struct Readiness(Mutex<Option<(Instant, Result<(), String>)>>);

impl Readiness {
    /// What `probe` said, now or a moment ago. Whoever comes while it is asked waits for the same answer.
    async fn ask(&self, now: Instant, probe: impl Future<Output = Result<(), String>>) -> Result<(), String> {
        const GOOD_FOR: Duration = Duration::from_secs(1);
        let mut last = self.0.lock().await;
        let is_fresh = |when: Instant| now.saturating_duration_since(when) < GOOD_FOR;
        if let Some((_, answer)) = last.as_ref().filter(|(when, _)| is_fresh(*when)) {
            return answer.clone();
        }
        let answer = probe.await;
        *last = Some((now, answer.clone()));
        answer
    }

    async fn of(&self, gateway: &Gateway) -> Result<(), String> {
        let probe = async { gateway.probe().await.map_err(|failure| told(&failure)) };
        self.ask(Instant::now(), probe).await
    }
}

/// Anybody may ask, so it says which store fails, not where it is or what it says.
fn told(failure: &Failure) -> String {
    match failure.kind {
        FailureKind::StoreUnreachable => failure.details.clone(),
        _ => {
            tracing::warn!(%failure, "not ready");
            "the store of keys and limits fails; the server's log says why".to_owned()
        }
    }
}

/// Whether requests would be answered.
pub(super) async fn ready(readiness: &Readiness, gateway: &Gateway) -> Response<Body> {
    match readiness.of(gateway).await {
        Ok(()) => answer::json(StatusCode::OK, r#"{"status":"ready"}"#),
        Err(details) => {
            let body = json!({ "status": "unavailable", "details": details });
            answer::json(StatusCode::SERVICE_UNAVAILABLE, body.to_string())
        }
    }
}

/// All figures, as Prometheus reads them.
pub(super) async fn metrics(figures: &Figures, readiness: &Readiness, gateway: &Gateway) -> Response<Body> {
    let is_up = readiness.of(gateway).await.is_ok();
    let mut response = Response::new(Full::from(text(figures, gateway, is_up)).boxed());
    *response.status_mut() = StatusCode::OK;
    response.with("content-type", "text/plain; version=0.0.4; charset=utf-8")
}

// Writing to a string cannot fail, so its results are left.
fn text(figures: &Figures, gateway: &Gateway, is_up: bool) -> String {
    let mut page = String::new();
    head(&mut page, "hindcast_requests_total", "counter", "Requests to /mcp by HTTP status.");
    for (status, count) in figures.by_status() {
        let _ = writeln!(page, "hindcast_requests_total{{status=\"{status}\"}} {count}");
    }
    let name = "hindcast_request_duration_seconds";
    head(&mut page, name, "histogram", "Time until the head of the answer to a request to /mcp.");
    histogram(&mut page, name, "", &figures.durations.seen());
    let name = "hindcast_limit_refusals_total";
    head(&mut page, name, "counter", "Requests that were refused because a limit was used up.");
    let _ = writeln!(page, "{name} {}", figures.of(StatusCode::TOO_MANY_REQUESTS));
    let name = "hindcast_store_operation_duration_seconds";
    head(&mut page, name, "histogram", "Time that the store of keys, limits and audit trail took.");
    let store = gateway.store_figures();
    for operation in StoreOperation::ALL {
        let label = format!("operation=\"{}\"", operation.name());
        histogram(&mut page, name, &label, &store.durations(operation));
    }
    let name = "hindcast_store_failures_total";
    head(&mut page, name, "counter", "Operations that the store did not do.");
    let _ = writeln!(page, "{name} {}", store.failures());
    head(&mut page, "hindcast_store_up", "gauge", "Whether the store answers.");
    let _ = writeln!(page, "hindcast_store_up {}", u8::from(is_up));
    page
}

fn head(page: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn histogram(page: &mut String, name: &str, label: &str, seen: &DurationsSeen) {
    let before = if label.is_empty() { String::new() } else { format!("{label},") };
    for (end, count) in CLASSES.iter().zip(seen.up_to) {
        let _ = writeln!(page, "{name}_bucket{{{before}le=\"{}\"}} {count}", seconds(*end));
    }
    let _ = writeln!(page, "{name}_bucket{{{before}le=\"+Inf\"}} {}", seen.count);
    let braces = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
    let _ = writeln!(page, "{name}_sum{braces} {}", seconds(seen.microseconds));
    let _ = writeln!(page, "{name}_count{braces} {}", seen.count);
}

/// Microseconds as seconds, without an error of rounding.
fn seconds(microseconds: u64) -> String {
    let text = format!("{}.{:06}", microseconds / 1_000_000, microseconds % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_store_is_asked_once_a_second_however_many_ask() {
        let readiness = Readiness::default();
        let asked = AtomicU64::new(0);
        let start = Instant::now();
        let ask = |second: u64, answer: Result<(), String>| {
            readiness.ask(start + Duration::from_secs(second), async {
                asked.fetch_add(1, Relaxed);
                answer
            })
        };
        for _ in 0..100 {
            assert_eq!(ask(0, Ok(())).await, Ok(()));
        }
        assert_eq!(asked.load(Relaxed), 1);
        assert_eq!(ask(1, Err("down".into())).await, Err("down".into()));
        assert_eq!(ask(1, Ok(())).await, Err("down".into()), "a moment ago it was down");
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[test]
    fn microseconds_are_written_as_seconds() {
        for (microseconds, expected) in
            [(0, "0"), (50, "0.00005"), (1_000_000, "1"), (2_500_000, "2.5"), (60_000_000, "60")]
        {
            assert_eq!(seconds(microseconds), expected);
        }
    }

    #[test]
    fn a_histogram_is_cumulative_and_ends_with_everything() {
        let durations = Durations::default();
        for microseconds in [40, 40, 700, 100_000_000] {
            durations.add(Duration::from_micros(microseconds));
        }
        let mut page = String::new();
        histogram(&mut page, "d", "operation=\"x\"", &durations.seen());
        for line in [
            "d_bucket{operation=\"x\",le=\"0.00005\"} 2",
            "d_bucket{operation=\"x\",le=\"0.001\"} 3",
            "d_bucket{operation=\"x\",le=\"60\"} 3",
            "d_bucket{operation=\"x\",le=\"+Inf\"} 4",
            "d_sum{operation=\"x\"} 100.00078",
            "d_count{operation=\"x\"} 4",
        ] {
            assert!(page.lines().any(|found| found == line), "{line}\n{page}");
        }
    }
}
