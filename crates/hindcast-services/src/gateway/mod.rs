//! The door: who may come in, how often, under which license, and what is written down about it.

mod admission;
mod audit;
mod keys;
mod license;
mod metered;

use std::sync::Arc;

use hindcast_core::{
    audit::AuditRecord,
    identity::{Environment, KeyRecord, PrincipalId, Tier},
    license::License,
    quota::Limits,
    store::MetadataStore,
    time::Clock,
};

pub use admission::{DoorAnswer, Refusal};
pub use audit::{AuditReport, AuditTrail, ChainVerdict};
pub use keys::{KeyRequest, NewKey};
pub use license::LicenseView;
use metered::Metered;
pub use metered::{CLASSES, Durations, DurationsSeen, StoreFigures, StoreOperation};

use crate::{Events, Failure};

/// The limits of each tier.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct TierLimits {
    pub free: Limits,
    pub developer: Limits,
    pub team: Limits,
    pub enterprise: Limits,
}

impl TierLimits {
    fn of(&self, tier: Tier) -> Limits {
        match tier {
            Tier::Free => self.free,
            Tier::Developer => self.developer,
            Tier::Team => self.team,
            Tier::Enterprise => self.enterprise,
        }
    }
}

/// What the operator decided about the door.
#[derive(Debug, Clone)]
pub struct GatewayPolicy {
    /// Which keys open it.
    pub environment: Environment,
    /// How much each tier may use.
    pub tiers: TierLimits,
    /// What the operator may use.
    pub license: License,
}

/// Keys, limits, license and audit trail of one server.
pub struct Gateway {
    store: Arc<dyn MetadataStore>,
    clock: Arc<dyn Clock>,
    policy: GatewayPolicy,
    audit: AuditTrail,
    events: Events,
    /// The URI under which usage is looked at.
    usage_uri: Arc<str>,
    store_figures: Arc<StoreFigures>,
}

/// The same store with a watch on it, and what the watch shows.
pub fn metered(store: Arc<dyn MetadataStore>) -> (Arc<dyn MetadataStore>, Arc<StoreFigures>) {
    let figures = Arc::<StoreFigures>::default();
    (Arc::new(Metered { store, figures: figures.clone() }), figures)
}

impl Gateway {
    /// The resource that shows a key's usage.
    pub const USAGE_URI: &'static str = "hindcast://quota";

    /// A gateway over a store.
    pub fn new(
        store: Arc<dyn MetadataStore>,
        clock: Arc<dyn Clock>,
        policy: GatewayPolicy,
        audit: AuditTrail,
        events: Events,
    ) -> Self {
        let store_figures = Arc::default();
        Self { store, clock, policy, audit, events, usage_uri: Self::USAGE_URI.into(), store_figures }
    }

    /// Shows what the watch on its store shows.
    #[must_use]
    pub fn with_figures(self, store_figures: Arc<StoreFigures>) -> Self {
        Self { store_figures, ..self }
    }

    /// What questions to the store took.
    pub fn store_figures(&self) -> &StoreFigures {
        &self.store_figures
    }

    /// Where the database is that keeps the keys; none where they are in a file.
    pub fn database(&self) -> Option<&str> {
        self.store.server()
    }

    /// Whether whatever keeps the keys answers.
    pub async fn probe(&self) -> Result<(), Failure> {
        Ok(self.store.probe().await?)
    }

    /// The audit trail.
    pub fn audit(&self) -> &AuditTrail {
        &self.audit
    }

    /// Writes down what the operator did on the command line.
    pub async fn record_operator(&self, method: &'static str, target: &str) -> Result<(), Failure> {
        let record = AuditRecord {
            time: self.clock.now(),
            principal: Some(PrincipalId::local()),
            key_id: None,
            ip: None,
            method: method.into(),
            tool: None,
            target: Some(target.into()),
            session_id: None,
            outcome: "ok".into(),
            duration_us: 0,
        };
        self.audit.append(record).await
    }

    /// What `key` may use.
    pub fn limits(&self, key: &KeyRecord) -> Limits {
        key.own_limits.unwrap_or_else(|| self.policy.tiers.of(key.tier))
    }
}

#[cfg(test)]
mod tests;
