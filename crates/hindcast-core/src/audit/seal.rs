//! How a store vouches for the end of its chain: cheaply, because it does so at every commit.
//!
//! A seal is a keyed hash. Only who has the audit key can make it, and only who has the audit key can
//! check it; that is everybody who opens the store. A signature, which anybody can check and which costs
//! many times as much, is made when the head leaves the store.

use std::fmt;

use ed25519_dalek::{SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{ChainHash, SignedHead};

/// The block of SHA-256.
const BLOCK: usize = 64;

/// The key that signs the trail, and the key derived from it that seals it.
pub struct AuditKey {
    signing: SigningKey,
    /// HMAC-SHA-256 with its key taken in.
    inner: Sha256,
    outer: Sha256,
}

impl AuditKey {
    /// Derives what is to be derived.
    pub fn new(signing: SigningKey) -> Self {
        // A key for one purpose must not be used for another.
        let derived =
            Sha256::new().chain_update(b"hindcast audit seal key v1").chain_update(signing.to_bytes());
        let (inner, outer) = keyed(&derived.finalize().into());
        Self { signing, inner, outer }
    }

    /// The half that everybody may have.
    pub fn verifying_key(&self) -> VerifyingKey {
        self.signing.verifying_key()
    }

    fn seal(&self, seq: u64, hash: ChainHash) -> String {
        let message = [b"hindcast audit head v1".as_slice(), &seq.to_be_bytes(), &hash.0].concat();
        hex::encode(authenticate(&self.inner, &self.outer, &[&message]))
    }

    /// Vouches for a line of a store's journal, in hexadecimal.
    pub fn seal_of_line(&self, line: &[u8]) -> [u8; 64] {
        let mut seal = [0; 64];
        let hash = authenticate(&self.inner, &self.outer, &[b"hindcast journal line v1", line]);
        // Cannot fail: it has twice the length of a hash.
        let _ = hex::encode_to_slice(hash, &mut seal);
        seal
    }

    /// Whether the line was written by who holds this key.
    pub fn sealed_line(&self, line: &[u8], seal: &[u8]) -> bool {
        self.seal_of_line(line).ct_eq(seal).into()
    }
}

impl fmt::Debug for AuditKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditKey(…)")
    }
}

/// The two hashes of HMAC (RFC 2104), each begun with its key.
fn keyed(key: &[u8; 32]) -> (Sha256, Sha256) {
    let begun = |pad: u8| {
        let mut block = [pad; BLOCK];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        Sha256::new_with_prefix(block)
    };
    (begun(0x36), begun(0x5c))
}

fn authenticate(inner: &Sha256, outer: &Sha256, message: &[&[u8]]) -> [u8; 32] {
    let mut digest = inner.clone();
    message.iter().for_each(|part| digest.update(part));
    outer.clone().chain_update(digest.finalize()).finalize().into()
}

/// The end of the chain as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedHead {
    /// The last row's place.
    pub seq: u64,
    /// The last row's hash.
    pub hash: ChainHash,
    /// Hexadecimal. Stores of version 1 hold a signature here.
    pub seal: String,
}

impl SealedHead {
    /// Vouches for a chain that ends with row `seq`.
    pub fn new(seq: u64, hash: ChainHash, key: &AuditKey) -> Self {
        Self { seq, hash, seal: key.seal(seq, hash) }
    }

    /// Whether this head was written by who holds `key`.
    pub fn holds(&self, key: &AuditKey) -> bool {
        let sealed: bool = key.seal(self.seq, self.hash).as_bytes().ct_eq(self.seal.as_bytes()).into();
        sealed || self.as_stored().is_signed_by(&key.verifying_key())
    }

    /// The head as anybody can check it. One that does not hold gets no signature.
    pub fn signed(&self, key: &AuditKey) -> SignedHead {
        if self.holds(key) { SignedHead::sign(self.seq, self.hash, &key.signing) } else { self.as_stored() }
    }

    fn as_stored(&self) -> SignedHead {
        SignedHead { seq: self.seq, hash: self.hash, signature: self.seal.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> AuditKey {
        AuditKey::new(SigningKey::from_bytes(&[byte; 32]))
    }

    #[test]
    fn the_keyed_hash_is_hmac() {
        // RFC 4231, test case 2; a short key is one that is filled up with zeros.
        let mut short = [0; 32];
        short[..4].copy_from_slice(b"Jefe");
        let (inner, outer) = keyed(&short);
        assert_eq!(
            hex::encode(authenticate(&inner, &outer, &[b"what do ya want", b" for nothing?"])),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }

    #[test]
    fn only_the_head_that_was_sealed_gets_a_signature() {
        let (own, other) = (key(1), key(2));
        let head = SealedHead::new(7, ChainHash([9; 32]), &own);
        assert!(head.signed(&own).is_signed_by(&own.verifying_key()));
        let forgeries = [
            SealedHead { seq: 6, ..head.clone() },
            SealedHead { hash: ChainHash([8; 32]), ..head.clone() },
            SealedHead { seal: head.seal.to_uppercase(), ..head.clone() },
            SealedHead { seal: String::new(), ..head.clone() },
            SealedHead { seal: head.seal[2..].into(), ..head.clone() },
            SealedHead::new(7, ChainHash([9; 32]), &other),
        ];
        for forged in forgeries {
            assert!(!forged.holds(&own), "{forged:?}");
            assert!(!forged.signed(&own).is_signed_by(&own.verifying_key()), "{forged:?}");
        }
    }

    #[test]
    fn a_head_that_was_signed_by_version_1_holds() {
        let (own, other) = (key(1), key(2));
        let SignedHead { seq, hash, signature } = SignedHead::sign(7, ChainHash([9; 32]), &own.signing);
        let head = SealedHead { seq, hash, seal: signature };
        assert!(head.holds(&own) && !head.holds(&other));
        assert!(!SealedHead { seq: 6, ..head }.holds(&own));
    }
}
