//! A signed statement of what an operator may use, checked without a network.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use jiff::{Timestamp, ToSpan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of the product that a license can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum Feature {
    Debugging,
    TimeTravel,
    Knowledge,
    Documents,
    Audit,
}

impl Feature {
    /// Every feature.
    pub const ALL: [Self; 5] =
        [Self::Debugging, Self::TimeTravel, Self::Knowledge, Self::Documents, Self::Audit];

    /// The name in a license file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Debugging => "debugging",
            Self::TimeTravel => "time-travel",
            Self::Knowledge => "knowledge",
            Self::Documents => "documents",
            Self::Audit => "audit",
        }
    }
}

/// What was granted, to whom, until when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LicenseTerms {
    /// For example `Enterprise`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The licensee.
    pub licensee: String,
    /// What stops working when it expires.
    pub features: Vec<Feature>,
    /// When it was granted.
    pub issued_at: Timestamp,
    /// When it ends; none means never.
    pub expires_at: Option<Timestamp>,
}

/// The license file: the terms exactly as they were signed, and the signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LicenseFile {
    /// The terms as JSON text; signing the text leaves nothing to canonicalise.
    pub terms: String,
    /// The issuer's public key, base64.
    pub issuer: String,
    /// Ed25519 over the terms' bytes, base64.
    pub signature: String,
}

/// Why a license file is worth nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LicenseError {
    /// It is not a license file.
    #[error("the license file is not readable: {0} · hint: install the file again as it was issued")]
    Malformed(String),
    /// Nobody said to trust whoever signed it.
    #[error(
        "the license was signed by `{0}`, which is not a trusted issuer · hint: add that key to `license.issuers` if you trust it"
    )]
    UnknownIssuer(String),
    /// It was changed after it was signed.
    #[error(
        "the license's signature does not match its terms · hint: install the file again as it was issued"
    )]
    BadSignature,
}

impl LicenseFile {
    /// Signs the terms.
    pub fn issue(terms: &LicenseTerms, key: &SigningKey) -> Self {
        let terms = serde_json::to_string(terms).expect("license terms have no map with odd keys");
        let signature = key.sign(terms.as_bytes());
        Self {
            issuer: BASE64_STANDARD.encode(key.verifying_key().as_bytes()),
            signature: BASE64_STANDARD.encode(signature.to_bytes()),
            terms,
        }
    }

    /// The terms, if one of `trusted` (base64 public keys) signed them.
    pub fn verify(&self, trusted: &[String]) -> Result<LicenseTerms, LicenseError> {
        if !trusted.contains(&self.issuer) {
            return Err(LicenseError::UnknownIssuer(self.issuer.clone()));
        }
        let key: [u8; 32] = decode(&self.issuer)?;
        let key =
            VerifyingKey::from_bytes(&key).map_err(|error| LicenseError::Malformed(error.to_string()))?;
        let signature = Signature::from_bytes(&decode::<64>(&self.signature)?);
        key.verify_strict(self.terms.as_bytes(), &signature).map_err(|_| LicenseError::BadSignature)?;
        serde_json::from_str(&self.terms).map_err(|error| LicenseError::Malformed(error.to_string()))
    }
}

fn decode<const N: usize>(text: &str) -> Result<[u8; N], LicenseError> {
    let bytes = BASE64_STANDARD.decode(text).map_err(|error| LicenseError::Malformed(error.to_string()))?;
    bytes.try_into().map_err(|_| LicenseError::Malformed(format!("`{text}` is not {N} bytes long")))
}

/// What the running server goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum License {
    /// No file: every feature, for ever.
    Community,
    /// A file that checks out.
    Granted(LicenseTerms),
    /// A file that does not: nothing is taken away for it, but it is said.
    Invalid(LicenseError),
}

/// How a license stands at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LicenseState {
    /// Everything granted works.
    Valid,
    /// It works, but ends within 30 days.
    ExpiresSoon,
    /// The features it names answer with an error.
    Expired,
    /// The file does not check out; the server runs as Community.
    Invalid,
}

impl License {
    /// How it stands at `now`.
    pub fn state(&self, now: Timestamp) -> LicenseState {
        match self {
            Self::Community => LicenseState::Valid,
            Self::Invalid(_) => LicenseState::Invalid,
            Self::Granted(terms) => match terms.expires_at {
                Some(end) if now >= end => LicenseState::Expired,
                Some(end) if now.saturating_add((30 * 24).hours()).is_ok_and(|soon| soon >= end) => {
                    LicenseState::ExpiresSoon
                }
                _ => LicenseState::Valid,
            },
        }
    }

    /// When `feature` stopped being licensed, if it did.
    pub fn expired_for(&self, feature: Feature, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Granted(terms) if terms.features.contains(&feature) => {
                terms.expires_at.filter(|end| now >= *end)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(expires_at: &str) -> LicenseTerms {
        LicenseTerms {
            kind: "Enterprise".into(),
            licensee: "Example GmbH".into(),
            features: vec![Feature::Audit],
            issued_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            expires_at: Some(expires_at.parse().unwrap()),
        }
    }

    #[test]
    fn a_license_holds_only_as_it_was_signed_by_a_trusted_issuer() {
        let key = SigningKey::from_bytes(&[7; 32]);
        let file = LicenseFile::issue(&terms("2027-01-01T00:00:00Z"), &key);
        let trusted = vec![file.issuer.clone()];
        assert_eq!(file.verify(&trusted), Ok(terms("2027-01-01T00:00:00Z")));
        assert_eq!(file.verify(&[]), Err(LicenseError::UnknownIssuer(file.issuer.clone())));

        let longer = LicenseFile { terms: file.terms.replace("2027", "2099"), ..file };
        assert_eq!(longer.verify(&trusted), Err(LicenseError::BadSignature));
    }

    #[test]
    fn only_the_named_features_expire_and_a_month_of_warning_comes_first() {
        let license = License::Granted(terms("2027-01-01T00:00:00Z"));
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert_eq!(license.state(at("2026-11-01T00:00:00Z")), LicenseState::Valid);
        assert_eq!(license.state(at("2026-12-15T00:00:00Z")), LicenseState::ExpiresSoon);
        assert_eq!(license.state(at("2027-01-01T00:00:00Z")), LicenseState::Expired);
        assert!(license.expired_for(Feature::Audit, at("2027-01-01T00:00:00Z")).is_some());
        assert!(license.expired_for(Feature::Debugging, at("2027-01-01T00:00:00Z")).is_none());
    }
}
