//! What the server tells about itself: `hindcast://…`.

use std::sync::Arc;

use async_trait::async_trait;
use hindcast_core::{
    identity::{Caller, Scope},
    license::Feature,
};
use hindcast_services::{
    Failure, FailureKind,
    gateway::{AuditTrail, Gateway},
};
use serde_json::{Value, json};

use crate::{
    catalogue::{Entry, TABLE},
    registry::{Content, ResourceEntry, ResourceRoom, TemplateEntry, Window},
    tools::QuotaView,
};

const LICENSE_URI: &str = "hindcast://license";
const ERRORS_URI: &str = "hindcast://errors";
const ERROR_TEMPLATE: &str = "hindcast://errors/{code}";

pub(super) struct ServerRoom {
    pub(super) gateway: Arc<Gateway>,
}

#[async_trait]
impl ResourceRoom for ServerRoom {
    fn scope(&self, uri: &str) -> Option<Option<Scope>> {
        match uri {
            Gateway::USAGE_URI | LICENSE_URI | ERRORS_URI => Some(None),
            AuditTrail::URI => Some(Some(Scope::AuditRead)),
            _ => error_entry(uri).map(|_| None),
        }
    }

    fn feature(&self, uri: &str) -> Option<Feature> {
        (uri == AuditTrail::URI).then_some(Feature::Audit)
    }

    async fn list(&self, caller: &Caller, window: &mut Window) -> Result<Vec<ResourceEntry>, Failure> {
        let entry = |uri: &str, name: &str, description: &str, priority| ResourceEntry {
            uri: uri.into(),
            name: name.into(),
            description: description.into(),
            mime_type: "application/json".into(),
            priority: Some(priority),
        };
        let mut entries = vec![
            entry(Gateway::USAGE_URI, "Quota", "Requests used and left for this API key", 0.4),
            entry(LICENSE_URI, "License", "The server's license: type, features, expiry", 0.2),
            entry(ERRORS_URI, "Errors", "Every error this server can answer, with its remedy", 0.3),
        ];
        if caller.may(Some(Scope::AuditRead)) {
            entries.push(entry(AuditTrail::URI, "Audit trail", "The signed end of the audit trail", 0.3));
        }
        Ok(window.of(entries))
    }

    fn templates(&self, _caller: &Caller) -> Vec<TemplateEntry> {
        vec![TemplateEntry {
            uri_template: ERROR_TEMPLATE.into(),
            name: "Error".into(),
            description: "One error by its code: what it means and what to do".into(),
            mime_type: "application/json",
        }]
    }

    async fn read(&self, caller: &Caller, uri: &str) -> Result<Content, Failure> {
        let value = match uri {
            Gateway::USAGE_URI => to_value(QuotaView::of(&self.gateway, caller).await?)?,
            LICENSE_URI => to_value(self.gateway.license())?,
            ERRORS_URI => TABLE.iter().map(error_view).collect(),
            AuditTrail::URI => json!({ "head": to_value(self.gateway.audit().head().await?)? }),
            _ => error_entry(uri).map(error_view).unwrap_or_default(),
        };
        Ok(Content { mime_type: "application/json".into(), text: value.to_string() })
    }

    async fn complete(
        &self,
        _caller: &Caller,
        uri_template: &str,
        variable: &str,
        typed: &str,
    ) -> Option<Vec<String>> {
        (uri_template == ERROR_TEMPLATE && variable == "code").then(|| {
            let mut codes: Vec<_> = TABLE.iter().map(|entry| entry.code.to_string()).collect();
            codes.dedup();
            codes.retain(|code| code.starts_with(typed));
            codes
        })
    }
}

fn error_entry(uri: &str) -> Option<&'static Entry> {
    let code = uri.strip_prefix("hindcast://errors/")?;
    TABLE.iter().find(|entry| entry.code.to_string() == code)
}

fn error_view(entry: &Entry) -> Value {
    json!({
        "code": entry.code,
        "message": entry.message,
        "description": entry.description,
        "httpStatus": entry.status,
        "remedy": entry.remedy,
    })
}

fn to_value(value: impl serde::Serialize) -> Result<Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::new(FailureKind::Internal, error.to_string()))
}
