//! How the license stands, for people and programs.

use hindcast_core::{
    Timestamp,
    license::{Feature, License, LicenseState},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::Gateway;

/// The license as it is shown.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LicenseView {
    /// `Community`, or what the license file says.
    #[serde(rename = "type")]
    pub kind: String,
    /// How it stands now.
    pub state: LicenseState,
    /// The licensee.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub licensee: Option<String>,
    /// The features it names. Community has all.
    pub features: Vec<Feature>,
    /// When it ends; absent means never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Full days until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days_left: Option<i64>,
    /// What to know or do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notice: Option<String>,
}

impl Gateway {
    /// The license and how it stands now.
    pub fn license(&self) -> LicenseView {
        let now = self.clock.now();
        let state = self.policy.license.state(now);
        let community = |notice| LicenseView {
            kind: "Community".into(),
            state,
            licensee: None,
            features: Feature::ALL.to_vec(),
            expires_at: None,
            days_left: None,
            notice,
        };
        let terms = match &self.policy.license {
            License::Community => return community(None),
            License::Invalid(error) => {
                return community(Some(format!("the installed license is not used: {error}")));
            }
            License::Granted(terms) => terms,
        };
        let days_left = terms.expires_at.map(|end| end.duration_since(now).as_hours().div_euclid(24));
        let notice = match (state, terms.expires_at) {
            (LicenseState::ExpiresSoon, Some(end)) => Some(format!(
                "the license ends at {end}; its features stop working then · hint: renew it and run `hindcast license install FILE`"
            )),
            (LicenseState::Expired, Some(end)) => Some(format!(
                "the license ended at {end}; its features answer with an error · hint: renew it, or remove the file to run as Community"
            )),
            _ => None,
        };
        LicenseView {
            kind: terms.kind.clone(),
            state,
            licensee: Some(terms.licensee.clone()),
            features: terms.features.clone(),
            expires_at: terms.expires_at,
            days_left,
            notice,
        }
    }
}
