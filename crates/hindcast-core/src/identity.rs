//! Who is calling, and what they may do.

use std::{fmt, net::IpAddr, str::FromStr, sync::Arc};

use ipnet::IpNet;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quota::Limits;

/// Who owns sessions, documents and audit rows. Two keys of one owner are one principal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct PrincipalId(pub Arc<str>);

impl PrincipalId {
    /// The one user of a server on standard input and output.
    pub fn local() -> Self {
        Self("local".into())
    }
}

impl fmt::Display for PrincipalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The public part of an API key: it finds the key, but opens nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct KeyId(pub Arc<str>);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One thing a key may be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum Scope {
    DebugRead,
    DebugWrite,
    AuditRead,
    DocumentRead,
    DocumentWrite,
    KnowledgeRead,
    KnowledgeWrite,
    /// What it launches is not confined, and it attaches to processes of the server's user.
    DebugUnconfined,
    /// Sees other principals' audit rows and manages keys.
    Admin,
}

impl Scope {
    /// Every scope, in the order in which they are listed to people.
    pub const ALL: [Self; 9] = [
        Self::DebugRead,
        Self::DebugWrite,
        Self::AuditRead,
        Self::DocumentRead,
        Self::DocumentWrite,
        Self::KnowledgeRead,
        Self::KnowledgeWrite,
        Self::DebugUnconfined,
        Self::Admin,
    ];

    /// The name on the wire and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::DebugRead => "debug:read",
            Self::DebugWrite => "debug:write",
            Self::AuditRead => "audit:read",
            Self::DocumentRead => "document:read",
            Self::DocumentWrite => "document:write",
            Self::KnowledgeRead => "knowledge:read",
            Self::KnowledgeWrite => "knowledge:write",
            Self::DebugUnconfined => "debug:unconfined",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is none of the known ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{given}` · hint: use one of {known}")]
pub struct UnknownName {
    what: &'static str,
    given: String,
    known: String,
}

impl FromStr for Scope {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|scope| scope.name() == given).ok_or_else(|| UnknownName {
            what: "scope",
            given: given.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// A set of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ScopeSet(u16);

impl ScopeSet {
    /// What a key may do when nothing else is said: all that harms nobody else.
    pub fn standard() -> Self {
        let harms_others = |scope: &Scope| matches!(scope, Scope::Admin | Scope::DebugUnconfined);
        Scope::ALL.into_iter().filter(|scope| !harms_others(scope)).collect()
    }

    /// The same for the operator's own programs: those that it launches are not confined.
    pub fn of_operator() -> Self {
        Self::standard().iter().chain([Scope::DebugUnconfined]).collect()
    }

    /// Everything; the local user on standard input and output.
    pub fn all() -> Self {
        Scope::ALL.into_iter().collect()
    }

    /// Whether `scope` is in the set.
    pub fn contains(self, scope: Scope) -> bool {
        self.0 & (1 << scope as u8) != 0
    }

    /// The scopes of the set, in listing order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL.into_iter().filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().fold(0, |bits, scope| bits | 1 << scope as u8))
    }
}

impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.iter().map(Scope::name).collect();
        f.write_str(&names.join(" "))
    }
}

impl FromStr for ScopeSet {
    type Err = UnknownName;

    /// Reads the names as `Display` writes them: separated by spaces or commas.
    fn from_str(names: &str) -> Result<Self, UnknownName> {
        names.split([' ', ',']).filter(|name| !name.is_empty()).map(Scope::from_str).collect()
    }
}

/// The plan a key is on; it decides the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Tier {
    Free,
    Developer,
    Team,
    Enterprise,
}

impl Tier {
    /// Every tier, smallest first.
    pub const ALL: [Self; 4] = [Self::Free, Self::Developer, Self::Team, Self::Enterprise];

    /// The name on the wire and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Developer => "developer",
            Self::Team => "team",
            Self::Enterprise => "enterprise",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Tier {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|tier| tier.name() == given).ok_or_else(|| UnknownName {
            what: "tier",
            given: given.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Which world a key and a server belong to; they must agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Environment {
    Live,
    Test,
}

impl Environment {
    /// The name inside a key (`kdb_live_…`) and in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Environment {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, UnknownName> {
        [Self::Live, Self::Test].into_iter().find(|known| known.name() == given).ok_or_else(|| UnknownName {
            what: "environment",
            given: given.to_owned(),
            known: "live, test".into(),
        })
    }
}

/// What is stored of a key's secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretHash(pub [u8; 32]);

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// An API key as it is stored.
#[derive(Debug, Clone)]
pub struct KeyRecord {
    /// Finds the key; part of the key's text.
    pub id: KeyId,
    /// For people.
    pub name: String,
    /// Whose sessions and documents the key opens.
    pub owner: PrincipalId,
    /// The world it belongs to.
    pub environment: Environment,
    /// The plan it is on.
    pub tier: Tier,
    /// Limits that replace the tier's.
    pub own_limits: Option<Limits>,
    /// What it may do.
    pub scopes: ScopeSet,
    /// What its secret hashes to.
    pub secret: SecretHash,
    /// When it was made.
    pub created_at: Timestamp,
    /// From when on it is refused.
    pub expires_at: Option<Timestamp>,
    /// Since when it has been refused.
    pub revoked_at: Option<Timestamp>,
    /// When its secret was last replaced.
    pub rotated_at: Option<Timestamp>,
    /// Where it may be used from; empty means anywhere.
    pub allowed_ips: Vec<IpNet>,
    /// When it last got a metered call through.
    pub last_used_at: Option<Timestamp>,
}

impl KeyRecord {
    /// Whether the key is revoked or expired, and so opens nothing any more.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.revoked_at.is_some() || self.expires_at.is_some_and(|end| end <= now)
    }
}

/// Somebody whose request got past the door.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Who owns what this caller makes and sees.
    pub principal: PrincipalId,
    /// The key that was shown; none for the local user.
    pub key: Option<Arc<KeyRecord>>,
    /// What the caller may do.
    pub scopes: ScopeSet,
    /// Where the request came from; none for the local user.
    pub address: Option<IpAddr>,
}

impl Caller {
    /// The one user of a server on standard input and output.
    pub fn local() -> Self {
        Self { principal: PrincipalId::local(), key: None, scopes: ScopeSet::all(), address: None }
    }

    /// Whether this caller may do what needs `scope`.
    pub fn may(&self, scope: Option<Scope>) -> bool {
        scope.is_none_or(|scope| self.scopes.contains(scope))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_back_as_they_are_written() {
        for set in [ScopeSet::default(), ScopeSet::standard(), ScopeSet::all()] {
            assert_eq!(set.to_string().parse::<ScopeSet>().unwrap(), set);
        }
        for scope in [Scope::Admin, Scope::DebugUnconfined] {
            assert!(!ScopeSet::standard().contains(scope));
        }
        assert!(ScopeSet::of_operator().contains(Scope::DebugUnconfined));
        assert!(!ScopeSet::of_operator().contains(Scope::Admin));
    }

    #[test]
    fn an_unknown_scope_names_the_known_ones() {
        let error = "debug:fly".parse::<Scope>().unwrap_err().to_string();
        assert!(error.starts_with("unknown scope `debug:fly` · hint: use one of debug:read,"), "{error}");
    }
}
