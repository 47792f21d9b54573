//! How rows hold on to each other, and how a break is found.

use std::fmt;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{AuditRecord, AuditRow};

/// SHA-256 over a row and the hash of the row before it.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct ChainHash(pub [u8; 32]);

impl ChainHash {
    /// What the first row is chained to.
    pub const GENESIS: Self = Self([0; 32]);

    /// The hash of `record` in place `seq` after a row with hash `previous`.
    pub fn of(previous: Self, seq: u64, record: &AuditRecord) -> Self {
        let mut hasher = Sha256::new();
        hasher.update(previous.0);
        hasher.update(seq.to_be_bytes());
        hasher.update(record.time.as_nanosecond().to_be_bytes());
        hasher.update(record.duration_us.to_be_bytes());
        // Every field carries its length, so that no two rows can be read from the same bytes.
        let fields = [
            record.principal.as_ref().map(|principal| &*principal.0),
            record.key_id.as_ref().map(|key| &*key.0),
            record.ip.as_deref(),
            Some(&*record.method),
            record.tool.as_deref(),
            record.target.as_deref(),
            record.session_id.as_deref(),
            Some(&*record.outcome),
        ];
        for field in fields {
            match field {
                None => hasher.update(u64::MAX.to_be_bytes()),
                Some(text) => {
                    hasher.update((text.len() as u64).to_be_bytes());
                    hasher.update(text);
                }
            }
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<ChainHash> for String {
    fn from(hash: ChainHash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for ChainHash {
    type Error = hex::FromHexError;

    fn try_from(text: String) -> Result<Self, hex::FromHexError> {
        let mut hash = [0; 32];
        hex::decode_to_slice(text, &mut hash)?;
        Ok(Self(hash))
    }
}

/// Where a chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainEnd {
    /// The last row's place; 0 for a chain without rows.
    pub seq: u64,
    /// The last row's hash.
    pub hash: ChainHash,
}

impl ChainEnd {
    /// The end of a chain without rows.
    pub const GENESIS: Self = Self { seq: 0, hash: ChainHash::GENESIS };

    /// The row that `record` becomes behind this end.
    pub fn followed_by(self, record: AuditRecord) -> AuditRow {
        let seq = self.seq + 1;
        AuditRow { seq, hash: ChainHash::of(self.hash, seq, &record), record }
    }

    /// Whether `row`, as it is, can stand behind this end.
    pub fn precedes(self, row: &AuditRow) -> bool {
        row.seq == self.seq + 1 && row.hash == ChainHash::of(self.hash, row.seq, &row.record)
    }
}

impl From<&AuditRow> for ChainEnd {
    fn from(row: &AuditRow) -> Self {
        Self { seq: row.seq, hash: row.hash }
    }
}

/// The end of the chain, vouched for by the server's audit key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignedHead {
    /// The last row's place.
    pub seq: u64,
    /// The last row's hash.
    pub hash: ChainHash,
    /// Ed25519 over both, hexadecimal.
    pub signature: String,
}

impl SignedHead {
    /// Vouches for a chain that ends with row `seq`.
    pub fn sign(seq: u64, hash: ChainHash, key: &SigningKey) -> Self {
        let signature = key.sign(&Self::message(seq, hash));
        Self { seq, hash, signature: hex::encode(signature.to_bytes()) }
    }

    fn message(seq: u64, hash: ChainHash) -> Vec<u8> {
        let mut message = b"hindcast audit head v1".to_vec();
        message.extend(seq.to_be_bytes());
        message.extend(hash.0);
        message
    }

    pub(super) fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        let mut bytes = [0; 64];
        // Only the one spelling that we write counts.
        hex::decode_to_slice(&self.signature, &mut bytes).is_ok()
            && hex::encode(bytes) == self.signature
            && key.verify_strict(&Self::message(self.seq, self.hash), &Signature::from_bytes(&bytes)).is_ok()
    }
}

/// The first row that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {problem}")]
pub struct BadRow {
    /// Its place in the chain.
    pub row: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with a row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is a gap where it should be.
    #[error("it is missing")]
    Missing,
    /// It stands after a row that it should stand before, or twice.
    #[error("it is out of order")]
    OutOfOrder,
    /// It, or its link to the row before, was changed.
    #[error("its content does not match its hash")]
    Changed,
    /// It was added without the audit key.
    #[error("it is not covered by the signed head")]
    NotCovered,
    /// The rows are consistent but are not those that were signed.
    #[error("its hash is not the one that was signed")]
    NotSigned,
    /// The head is not signed by the audit key.
    #[error("the signature of the head does not verify")]
    BadSignature,
    /// It cannot be read at all.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
}

/// Walks a chain from its first row; holds one hash, whatever the length.
#[derive(Debug)]
pub struct ChainVerifier {
    previous: ChainHash,
    rows: u64,
}

impl Default for ChainVerifier {
    fn default() -> Self {
        Self { previous: ChainHash::GENESIS, rows: 0 }
    }
}

impl ChainVerifier {
    /// How many rows were found good.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Takes the next row.
    pub fn feed(&mut self, row: &AuditRow) -> Result<(), BadRow> {
        let expected = self.rows + 1;
        if row.seq > expected {
            return Err(BadRow { row: expected, problem: Problem::Missing });
        }
        if row.seq < expected {
            return Err(BadRow { row: row.seq, problem: Problem::OutOfOrder });
        }
        if ChainHash::of(self.previous, row.seq, &row.record) != row.hash {
            return Err(BadRow { row: row.seq, problem: Problem::Changed });
        }
        self.previous = row.hash;
        self.rows = row.seq;
        Ok(())
    }

    /// Holds what was walked against the signed head. A trail is never empty: its opening is its
    /// first row.
    pub fn finish(&self, head: Option<&SignedHead>, key: &VerifyingKey) -> Result<u64, BadRow> {
        let next = self.rows + 1;
        let Some(head) = head else {
            let problem = if self.rows == 0 { Problem::Missing } else { Problem::NotCovered };
            return Err(BadRow { row: 1, problem });
        };
        if !head.is_signed_by(key) {
            return Err(BadRow { row: self.rows.max(1), problem: Problem::BadSignature });
        }
        if head.seq > self.rows {
            return Err(BadRow { row: next, problem: Problem::Missing });
        }
        if head.seq < self.rows {
            return Err(BadRow { row: head.seq + 1, problem: Problem::NotCovered });
        }
        if head.hash != self.previous {
            return Err(BadRow { row: head.seq, problem: Problem::NotSigned });
        }
        Ok(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::{KeyId, PrincipalId};

    fn chain(length: u64, key: &SigningKey) -> (Vec<AuditRow>, SignedHead) {
        let mut previous = ChainHash::GENESIS;
        let rows: Vec<_> = (1..=length)
            .map(|seq| {
                let record = AuditRecord {
                    time: jiff::Timestamp::from_millisecond(1_700_000_000_000 + seq as i64).unwrap(),
                    principal: Some(PrincipalId(format!("owner-{}", seq % 3).into())),
                    key_id: Some(KeyId("abcd1234".into())),
                    ip: Some("127.0.0.1".into()),
                    method: "tools/call".into(),
                    tool: Some("debugger/quota_status".into()),
                    target: None,
                    session_id: None,
                    outcome: "ok".into(),
                    duration_us: seq * 7,
                };
                previous = ChainHash::of(previous, seq, &record);
                AuditRow { seq, record, hash: previous }
            })
            .collect();
        let head = SignedHead::sign(length, previous, key);
        (rows, head)
    }

    fn verify(rows: &[AuditRow], head: &SignedHead, key: &SigningKey) -> Result<u64, BadRow> {
        let mut verifier = ChainVerifier::default();
        rows.iter().try_for_each(|row| verifier.feed(row))?;
        verifier.finish(Some(head), &key.verifying_key())
    }

    #[test]
    fn an_untouched_chain_verifies() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let (rows, head) = chain(100, &key);
        assert_eq!(verify(&rows, &head, &key), Ok(100));
    }

    #[test]
    fn a_rewritten_chain_without_the_key_is_found() {
        let key = SigningKey::from_bytes(&[1; 32]);
        let (_, head) = chain(100, &key);
        let (mut rows, _) = chain(100, &key);
        let mut previous = rows[41].hash;
        rows[42].record.outcome = "forged".into();
        for row in &mut rows[42..] {
            previous = ChainHash::of(previous, row.seq, &row.record);
            row.hash = previous;
        }
        let found = verify(&rows, &head, &key).unwrap_err();
        assert_eq!(found, BadRow { row: 100, problem: Problem::NotSigned });
        let forged = SignedHead::sign(100, previous, &SigningKey::from_bytes(&[2; 32]));
        assert_eq!(verify(&rows, &forged, &key).unwrap_err().problem, Problem::BadSignature);
    }

    proptest! {
        #[test]
        fn every_edit_deletion_swap_and_truncation_names_the_first_bad_row(
            length in 2u64..60, place in any::<prop::sample::Index>(), other in any::<prop::sample::Index>(), kind in 0..5
        ) {
            let key = SigningKey::from_bytes(&[1; 32]);
            let (mut rows, head) = chain(length, &key);
            let at = place.index(rows.len());
            let first_bad = match kind {
                0 => { rows[at].record.duration_us ^= 1; at as u64 + 1 }
                1 => { rows[at].record.target = Some(String::new()); at as u64 + 1 }
                2 => { rows.remove(at); at as u64 + 1 }
                3 => { rows.truncate(at); at as u64 + 1 }
                _ => {
                    let with = other.index(rows.len());
                    prop_assume!(with != at);
                    let (a, b) = (rows[at].record.clone(), rows[with].record.clone());
                    (rows[at].record, rows[with].record) = (b, a);
                    at.min(with) as u64 + 1
                }
            };
            prop_assert_eq!(verify(&rows, &head, &key).unwrap_err().row, first_bad);
        }
    }
}
