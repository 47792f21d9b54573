//! Letting requests in: who is it, and is there quota left.

use std::{net::IpAddr, sync::Arc};

use hindcast_core::{
    identity::{Caller, Environment, KeyId, KeyRecord},
    license::Feature,
    quota::{Allowance, FreeRate, Period, Reservation, Usage},
};

use super::{Gateway, keys};
use crate::{Failure, FailureKind};

/// Somebody was not let in.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub failure: Failure,
    /// The key they showed, when its secret was right or at least its id is known.
    pub key: Option<KeyId>,
    /// Seconds after which another try makes sense.
    pub retry_after: Option<u64>,
    /// The limit that is used up, when that was the reason.
    pub used_up: Option<Allowance>,
}

/// Where an admitted key stands against its limits.
pub type DoorAnswer = Result<Usage, Refusal>;

impl Gateway {
    /// Finds out who shows this `Authorization` header. Says no more to a stranger than that the key
    /// is unknown; says to the holder of a real key why it does not open.
    pub async fn authenticate(
        &self,
        authorization: Option<&str>,
        address: IpAddr,
    ) -> Result<Caller, Refusal> {
        let refuse = |details: String, hint: &str, key: Option<KeyId>| Refusal {
            failure: Failure::new(FailureKind::AuthenticationFailed, details).hint(hint),
            key,
            retry_after: None,
            used_up: None,
        };
        let header = authorization.ok_or_else(|| {
            refuse(
                "there is no API key in the request".into(),
                "send `Authorization: Bearer YOUR_API_KEY`",
                None,
            )
        })?;
        let text = bearer(header).ok_or_else(|| {
            refuse(
                "the Authorization header is not of the form `Bearer KEY`".into(),
                "send `Authorization: Bearer YOUR_API_KEY`",
                None,
            )
        })?;
        let unknown = |key| {
            refuse(
                "the API key is not known here".into(),
                "check the key, or make one with `hindcast keys create`",
                key,
            )
        };
        let (environment, id) = keys::parse(text).ok_or_else(|| unknown(None))?;
        let found = self.store.find_key(&id).await.map_err(|error| Refusal {
            failure: error.into(),
            key: None,
            retry_after: None,
            used_up: None,
        })?;
        let record = found.ok_or_else(|| unknown(None))?;
        if !keys::opens(text, &record) {
            return Err(unknown(Some(id)));
        }
        if environment != record.environment {
            return Err(self.of_another_world(environment, id));
        }
        self.admit(record, address).map_err(|refusal| *refusal)
    }

    /// Lets the holder of a key in again who showed it before, as long as the key is the same and still opens.
    pub async fn authenticate_again(&self, shown: &KeyRecord, address: IpAddr) -> Result<Caller, Refusal> {
        let found = self.store.find_key(&shown.id).await.map_err(|error| Refusal {
            failure: error.into(),
            key: None,
            retry_after: None,
            used_up: None,
        })?;
        match found.filter(|record| record.secret == shown.secret) {
            Some(record) => self.admit(record, address).map_err(|refusal| *refusal),
            None => Err(Refusal {
                failure: Failure::new(FailureKind::AuthenticationFailed, "the API key was replaced")
                    .hint("sign in with the new key"),
                key: Some(shown.id.clone()),
                retry_after: None,
                used_up: None,
            }),
        }
    }

    /// Lets in whoever could have made a key anyway, because the data folder is theirs.
    pub async fn admit_by_id(&self, id: &KeyId, address: IpAddr) -> Result<Caller, Refusal> {
        let plain = |failure| Refusal { failure, key: Some(id.clone()), retry_after: None, used_up: None };
        let record = self.key(id).await.map_err(plain)?;
        self.admit(record, address).map_err(|refusal| *refusal)
    }

    fn of_another_world(&self, environment: Environment, id: KeyId) -> Refusal {
        let details = format!(
            "the API key is for the {environment} environment, this server is {}",
            self.policy.environment
        );
        Refusal {
            failure: Failure::new(FailureKind::AuthenticationFailed, details)
                .hint("use a key of this server's environment"),
            key: Some(id),
            retry_after: None,
            used_up: None,
        }
    }

    /// Whether a key whose holder is known opens the door now, from there.
    fn admit(&self, record: Arc<KeyRecord>, address: IpAddr) -> Result<Caller, Box<Refusal>> {
        let id = Some(record.id.clone());
        let refuse = |details: String, hint: &str, key: Option<KeyId>| {
            Box::new(Refusal {
                failure: Failure::new(FailureKind::AuthenticationFailed, details).hint(hint),
                key,
                retry_after: None,
                used_up: None,
            })
        };
        if record.revoked_at.is_some() {
            return Err(refuse(
                "the API key was revoked".into(),
                "make another with `hindcast keys create`",
                id,
            ));
        }
        if record.expires_at.is_some_and(|end| self.clock.now() >= end) {
            return Err(refuse(
                "the API key has expired".into(),
                "make another with `hindcast keys create`",
                id,
            ));
        }
        if record.environment != self.policy.environment {
            return Err(Box::new(self.of_another_world(record.environment, record.id.clone())));
        }
        if !allows(&record, address) {
            return Err(refuse(
                format!("the API key may not be used from {address}"),
                "call from an allowed address, or make a key that allows this one",
                id,
            ));
        }
        Ok(Caller {
            principal: record.owner.clone(),
            scopes: record.scopes,
            key: Some(record),
            address: Some(address),
        })
    }

    /// Whether a caller who was let in once would still be: for streams that outlive their request.
    pub async fn is_still_welcome(&self, caller: &Caller) -> bool {
        let Some(shown) = &caller.key else { return true };
        match self.store.find_key(&shown.id).await {
            Ok(Some(key)) => key.secret == shown.secret && !key.has_ended(self.clock.now()),
            _ => false,
        }
    }

    /// Counts one metered request of `key`, or says when there is room again.
    pub async fn reserve(&self, key: &KeyRecord) -> DoorAnswer {
        let now = self.clock.now();
        let plain =
            |failure| Refusal { failure, key: Some(key.id.clone()), retry_after: None, used_up: None };
        let reservation = self
            .store
            .reserve_quota(&key.id, self.limits(key), now)
            .await
            .map_err(|error| plain(error.into()))?;
        let (used_up, span) = match reservation {
            Reservation::Granted(usage) => {
                self.events.changed_for(&key.owner, &self.usage_uri);
                return Ok(usage);
            }
            Reservation::Refused(usage, Period::Month) => (usage.of(Period::Month), "month"),
            Reservation::Refused(usage, Period::Minute) => (usage.of(Period::Minute), "minute"),
        };
        let Allowance { limit, used, resets_at } = used_up;
        let wait = resets_at.duration_since(now).as_secs().max(0).unsigned_abs() + 1;
        let failure = Failure::new(
            FailureKind::QuotaExceeded,
            format!("the limit of {limit} requests a {span} is used up"),
        )
        .hint(format!(
            "wait until {resets_at}, or use a key of a higher tier; `debugger/quota_status` and `debugger/disconnect` still answer"
        ))
        .fact("limit", limit)
        .fact("used", used)
        .fact("reset_at", resets_at.to_string());
        Err(Refusal { retry_after: Some(wait), used_up: Some(used_up), ..plain(failure) })
    }

    /// Whether a request that is free unless it comes too often is free now. False while the store does not tell.
    pub async fn is_free(&self, key: &KeyRecord) -> bool {
        self.store.admit_free(&key.id, FREE_RATE, self.clock.now()).await.unwrap_or(false)
    }

    /// Refuses a feature whose license has ended.
    pub fn check_license(&self, feature: Feature) -> Result<(), Failure> {
        match self.policy.license.expired_for(feature, self.clock.now()) {
            None => Ok(()),
            Some(end) => Err(Failure::new(
                FailureKind::LicenseExpired,
                format!("the license for `{}` ended at {end}", feature.name()),
            )
            .hint("install a new license with `hindcast license install FILE`, or remove the file to run as Community; `debugger/disconnect` still ends a debug session")
            .fact("feature", feature.name())
            .fact("expired_at", end.to_string())),
        }
    }
}

/// How many free requests a key may make at once, and then in a second: each is written down, and that must stay bounded.
const FREE_RATE: FreeRate = FreeRate { at_once: 30, period: 1_000_000_000 };

/// The token of a `Bearer` header; the scheme's name has no case.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn allows(key: &KeyRecord, address: IpAddr) -> bool {
    // An IPv4 caller of a dual-stack socket shows up as ::ffff:a.b.c.d.
    let address = address.to_canonical();
    key.allowed_ips.is_empty() || key.allowed_ips.iter().any(|range| range.contains(&address))
}
