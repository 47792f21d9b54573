//! Making, changing and recognising API keys.

use std::sync::Arc;

use hindcast_core::{
    Timestamp,
    identity::{Environment, KeyId, KeyRecord, PrincipalId, Scope, ScopeSet, SecretHash, Tier},
    quota::{Limits, Usage},
};
use ipnet::IpNet;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Gateway;
use crate::{Failure, FailureKind};

/// 32 letters that survive being read aloud: no `l`, `o`, `0` or `1`.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const ID_LETTERS: usize = 8;
/// 200 random bits.
const SECRET_LETTERS: usize = 40;

/// What a new key should be.
#[derive(Debug, Clone)]
pub struct KeyRequest {
    /// For people.
    pub name: String,
    /// Whose it is; a principal of its own where absent.
    pub owner: Option<String>,
    /// The world it opens.
    pub environment: Environment,
    /// The plan it is on.
    pub tier: Tier,
    /// Limits that replace the tier's.
    pub own_limits: Option<Limits>,
    /// What it may do.
    pub scopes: ScopeSet,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// Where it may be used from.
    pub allowed_ips: Vec<IpNet>,
}

/// A key right after it was made: the only time its text exists.
pub struct NewKey {
    /// As it is stored.
    pub record: KeyRecord,
    /// What its holder sends. Never stored, never logged.
    pub text: String,
}

impl Gateway {
    /// Makes a key.
    pub async fn create_key(&self, request: KeyRequest) -> Result<NewKey, Failure> {
        if request.name.trim().is_empty() || request.name.len() > 200 {
            return Err(Failure::new(FailureKind::InvalidInput, "a key needs a name of 1 to 200 characters"));
        }
        let texts = [Some(&request.name), request.owner.as_ref()];
        if texts.into_iter().flatten().any(|text| text.chars().any(is_unprintable)) {
            return Err(Failure::new(
                FailureKind::InvalidInput,
                "the name or the owner of a key has a line break or another control character in it",
            )
            .hint("use letters, digits, spaces and punctuation"));
        }
        let now = self.clock.now();
        if request.expires_at.is_some_and(|end| end <= now) {
            return Err(Failure::new(FailureKind::InvalidInput, "the key would be expired from the start")
                .hint("give a time in the future"));
        }
        let id = letters::<ID_LETTERS>()?;
        let text = key_text(request.environment, &id)?;
        let record = KeyRecord {
            owner: PrincipalId(request.owner.unwrap_or_else(|| id.clone()).into()),
            id: KeyId(id.into()),
            name: request.name,
            environment: request.environment,
            tier: request.tier,
            own_limits: request.own_limits,
            scopes: request.scopes,
            secret: hash(&text),
            created_at: now,
            expires_at: request.expires_at,
            revoked_at: None,
            rotated_at: None,
            allowed_ips: request.allowed_ips,
            last_used_at: None,
        };
        self.store.insert_key(record.clone()).await?;
        Ok(NewKey { record, text })
    }

    /// Gives the key a new text; the old one opens nothing from now on. Usage and rights stay.
    pub async fn rotate_key(&self, id: &KeyId) -> Result<NewKey, Failure> {
        let record = self.key(id).await?;
        if record.revoked_at.is_some() {
            return Err(Failure::new(FailureKind::InvalidInput, format!("key `{id}` is revoked"))
                .hint("create a new key instead"));
        }
        let now = self.clock.now();
        let text = key_text(record.environment, &id.0)?;
        let secret = hash(&text);
        self.store.replace_secret(id, secret.clone(), now).await?;
        Ok(NewKey { record: KeyRecord { secret, rotated_at: Some(now), ..KeyRecord::clone(&record) }, text })
    }

    /// Ends the key at once.
    pub async fn revoke_key(&self, id: &KeyId) -> Result<Arc<KeyRecord>, Failure> {
        self.key(id).await?;
        self.store.revoke_key(id, self.clock.now()).await?;
        self.key(id).await
    }

    /// Every key, oldest first.
    pub async fn list_keys(&self) -> Result<Vec<KeyRecord>, Failure> {
        Ok(self.store.list_keys().await?)
    }

    /// One key.
    pub async fn key(&self, id: &KeyId) -> Result<Arc<KeyRecord>, Failure> {
        self.store.find_key(id).await?.ok_or_else(|| {
            Failure::new(FailureKind::InvalidInput, format!("there is no key `{id}`"))
                .hint("`hindcast keys list` shows them")
        })
    }

    /// Whether the key opens the door now and has the scope, for work that goes on after its request.
    pub async fn is_good_for(&self, id: &KeyId, scope: Scope) -> bool {
        match self.store.find_key(id).await {
            Ok(Some(key)) => !key.has_ended(self.clock.now()) && key.scopes.contains(scope),
            _ => false,
        }
    }

    /// Whether the key is revoked, expired or gone. False while the store does not tell.
    pub async fn key_has_ended(&self, id: &KeyId) -> bool {
        match self.store.find_key(id).await {
            Ok(Some(key)) => key.has_ended(self.clock.now()),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Where the key stands against its limits.
    pub async fn usage(&self, key: &KeyRecord) -> Result<Usage, Failure> {
        Ok(self.store.usage(&key.id, self.limits(key), self.clock.now()).await?)
    }
}

/// Whether a character would change how a list on a terminal looks: control characters, and those that turn the direction of
/// writing or take no room.
fn is_unprintable(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

fn key_text(environment: Environment, id: &str) -> Result<String, Failure> {
    Ok(format!("kdb_{environment}_{id}{}", letters::<SECRET_LETTERS>()?))
}

/// The parts of a key's text that may be looked at before its secret is checked.
pub(super) fn parse(text: &str) -> Option<(Environment, KeyId)> {
    let (environment, rest) = text.strip_prefix("kdb_")?.split_once('_')?;
    let well_formed =
        rest.len() == ID_LETTERS + SECRET_LETTERS && rest.bytes().all(|letter| ALPHABET.contains(&letter));
    well_formed.then_some(())?;
    Some((environment.parse().ok()?, KeyId(Arc::from(&rest[..ID_LETTERS]))))
}

/// A plain hash is enough: nobody guesses 200 random bits, and it costs every request.
fn hash(text: &str) -> SecretHash {
    SecretHash(Sha256::digest(text.as_bytes()).into())
}

/// Whether `text` is the key's, in a time that does not tell how much of it is.
pub(super) fn opens(text: &str, record: &KeyRecord) -> bool {
    hash(text).0.ct_eq(&record.secret.0).into()
}

fn letters<const N: usize>() -> Result<String, Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(FailureKind::Internal, format!("the system gives no random bytes: {error}"))
    })?;
    Ok(bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect())
}
