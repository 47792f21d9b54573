//! Tools that tell about the server itself: quota, license, audit trail.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{
    Timestamp,
    audit::{AuditFilter, AuditRow},
    identity::{Caller, Scope, Tier},
    license::Feature,
    progress::Progress,
    quota::{Allowance, Period},
};
use hindcast_services::{
    Failure, FailureKind,
    gateway::{ChainVerdict, Gateway, LicenseView},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::NoInput;
use crate::registry::{Answer, Call, Declaration, Effects, Manner, Tool};

/// The tool that answers also when the quota is used up.
pub(crate) const QUOTA_STATUS: &str = "debugger/quota_status";

pub(super) struct QuotaStatus {
    pub(super) gateway: Arc<Gateway>,
}

/// Where a key stands against its limits.
#[derive(Serialize, JsonSchema)]
pub(crate) struct QuotaView {
    /// The key's plan; absent for the local user, who has no limits
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<Tier>,
    /// Whether nothing is counted
    unlimited: bool,
    /// The current month
    #[serde(skip_serializing_if = "Option::is_none")]
    month: Option<PeriodView>,
    /// The current minute
    #[serde(skip_serializing_if = "Option::is_none")]
    minute: Option<PeriodView>,
}

#[derive(Serialize, JsonSchema)]
struct PeriodView {
    /// Requests allowed
    limit: u64,
    /// Requests made
    used: u64,
    /// Requests left
    remaining: u64,
    /// When the count starts again
    reset_at: Timestamp,
}

impl From<Allowance> for PeriodView {
    fn from(allowance: Allowance) -> Self {
        let Allowance { limit, used, resets_at: reset_at } = allowance;
        Self { limit, used, remaining: allowance.remaining(), reset_at }
    }
}

impl QuotaView {
    pub(crate) async fn of(gateway: &Gateway, caller: &Caller) -> Result<Self, Failure> {
        let Some(key) = &caller.key else {
            return Ok(Self { tier: None, unlimited: true, month: None, minute: None });
        };
        let usage = gateway.usage(key).await?;
        Ok(Self {
            tier: Some(key.tier),
            unlimited: false,
            month: Some(usage.of(Period::Month).into()),
            minute: Some(usage.of(Period::Minute).into()),
        })
    }

    fn text(&self) -> String {
        let (Some(tier), Some(month), Some(minute)) = (self.tier, &self.month, &self.minute) else {
            return "Quota: unlimited (local user)".into();
        };
        format!(
            "Quota ({tier}): {} of {} requests used this month, {} left until {}\nThis minute: {} of {}",
            month.used, month.limit, month.remaining, month.reset_at, minute.used, minute.limit
        )
    }
}

#[async_trait]
impl Tool for QuotaStatus {
    type Input = NoInput;
    type Output = QuotaView;

    const DECLARATION: Declaration = Declaration {
        name: QUOTA_STATUS,
        description: "Show how many requests this API key has used and may still make",
        scope: None,
        feature: None,
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, _input: NoInput) -> Result<Answer<QuotaView>, Failure> {
        let content = QuotaView::of(&self.gateway, &call.caller).await?;
        Ok(Answer { text: content.text(), content })
    }
}

pub(super) struct LicenseInfo {
    pub(super) gateway: Arc<Gateway>,
}

#[async_trait]
impl Tool for LicenseInfo {
    type Input = NoInput;
    type Output = LicenseView;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/license_info",
        description: "Show the server's license: type, features, expiry",
        scope: None,
        feature: None,
        effects: Effects::ReadOnly,
    };

    async fn call(&self, _call: &Call, _input: NoInput) -> Result<Answer<LicenseView>, Failure> {
        let content = self.gateway.license();
        let mut text = format!("License: {}", content.kind);
        let features: Vec<_> = content.features.iter().map(|feature| feature.name()).collect();
        let ends = content.expires_at.map_or("never".into(), |end| end.to_string());
        // Writing to a string cannot fail.
        let _ = write!(text, "\nFeatures: {}\nExpires: {ends}", features.join(", "));
        if let Some(notice) = &content.notice {
            let _ = write!(text, "\nNotice: {notice}");
        }
        Ok(Answer { text, content })
    }
}

pub(super) struct GetComprehensiveAudit {
    pub(super) gateway: Arc<Gateway>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditInput {
    /// RFC 3339
    ///
    /// Only what was done from here on (RFC 3339)
    #[serde(default)]
    start_time: Option<Timestamp>,
    /// Only what was done up to here (RFC 3339)
    #[serde(default)]
    end_time: Option<Timestamp>,
    #[serde(default)]
    session_id: Option<String>,
    /// How many rows at most
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
    /// `next_cursor` of the last page
    #[serde(default)]
    cursor: Option<String>,
    /// False for a page that shows the rows again and again: the check reads all of the trail
    #[serde(default = "yes")]
    #[schemars(skip)]
    verify: bool,
}

fn fifty() -> usize {
    50
}

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub(super) struct AuditView {
    /// Newest first
    rows: Vec<AuditRow>,
    /// Pass it as `cursor` to get older rows
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    /// Whether the whole trail is as it was written
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ChainView")]
    chain: Option<ChainView>,
}

#[derive(Serialize, JsonSchema)]
struct ChainView {
    /// True when every row verifies and the end is signed
    verified: bool,
    /// How many rows are good; only with the scope `admin`
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<u64>,
    /// The first bad row
    #[serde(skip_serializing_if = "Option::is_none")]
    first_bad_row: Option<u64>,
    /// What is wrong with it
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[async_trait]
impl Tool for GetComprehensiveAudit {
    type Input = AuditInput;
    type Output = AuditView;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/get_comprehensive_audit",
        description: "Who did what and when, newest first; whether the tamper-evident trail verifies",
        scope: Some(Scope::AuditRead),
        feature: Some(Feature::Audit),
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, input: AuditInput) -> Result<Answer<AuditView>, Failure> {
        if !(1..=1000).contains(&input.limit) {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                format!("`limit` is {}, not between 1 and 1000", input.limit),
            ));
        }
        let before = input.cursor.as_deref().map(str::parse).transpose().map_err(|_| {
            Failure::new(FailureKind::InvalidInput, "`cursor` is not one that this tool gave")
                .hint("pass `next_cursor` of the previous page unchanged")
        })?;
        let everybody = call.caller.may(Some(Scope::Admin));
        let filter = AuditFilter {
            principal: (!everybody).then(|| call.caller.principal.clone()),
            start_time: input.start_time,
            end_time: input.end_time,
            session_id: input.session_id,
            // Whoever looks at a page wants to see what was done, not that somebody looked.
            without_method: call.is_glance.then_some(Manner::GLANCE),
            before,
            limit: input.limit,
        };
        let audit = self.gateway.audit();
        if !input.verify {
            let (rows, next) = audit.page(filter).await?;
            let text = format!("Audit trail: {} rows, not verified", rows.len());
            let next_cursor = next.map(|seq| seq.to_string());
            return Ok(Answer { text, content: AuditView { rows, next_cursor, chain: None } });
        }
        let report = if everybody {
            audit.report(filter, &*call.progress).await?
        } else {
            audit.report(filter, &InPercent(&*call.progress)).await?
        };
        let chain = chain_view(&report.verdict, everybody);
        let mut text = match (&chain.problem, chain.rows) {
            (_, Some(rows)) if chain.verified => format!("Audit trail: {rows} rows, chain verified"),
            (_, None) if chain.verified => "Audit trail: chain verified".into(),
            (Some(problem), _) => format!("Audit trail: NOT verified: {problem}"),
            (None, Some(rows)) => format!("Audit trail: check given up after {rows} good rows"),
            (None, None) => "Audit trail: check given up".into(),
        };
        for row in &report.rows {
            let record = &row.record;
            // Writing to a string cannot fail.
            let _ = write!(
                text,
                "\n#{} {} {} {} {} {} ({} µs)",
                row.seq,
                record.time,
                record.principal.as_ref().map_or("-", |principal| &principal.0),
                record.method,
                record.tool.as_deref().or(record.target.as_deref()).unwrap_or("-"),
                record.outcome,
                record.duration_us
            );
        }
        let next_cursor = report.next.map(|seq| seq.to_string());
        if let Some(cursor) = &next_cursor {
            let _ = write!(text, "\n… older rows: call again with cursor \"{cursor}\"");
        }
        Ok(Answer { text, content: AuditView { rows: report.rows, next_cursor, chain: Some(chain) } })
    }
}

/// Tells how far the check of the chain is, and not how many rows everybody together has made.
struct InPercent<'a>(&'a dyn Progress);

impl Progress for InPercent<'_> {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        if let Some(total) = total.filter(|total| *total > 0) {
            self.0.report(done.min(total) * 100 / total, Some(100), message);
        }
    }

    fn cancelled(&self) -> bool {
        self.0.cancelled()
    }
}

fn chain_view(verdict: &ChainVerdict, everybody: bool) -> ChainView {
    let (verified, rows, bad) = match verdict {
        ChainVerdict::Verified { rows } => (true, *rows, None),
        ChainVerdict::Unfinished { rows } => (false, *rows, None),
        ChainVerdict::Broken(bad) => (false, bad.row.saturating_sub(1), Some(bad)),
    };
    let rows = everybody.then_some(rows);
    ChainView { verified, rows, first_bad_row: bad.map(|bad| bad.row), problem: bad.map(ToString::to_string) }
}
