//! The tools, each declared once.

mod admin;
mod debug;

pub(crate) use admin::QuotaView;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{app::AppParts, registry::Registry};

pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    registry.add_tool(debug::Attach { debug: parts.debug.clone() });
    registry.add_tool(debug::GetStackTrace);
    registry.add_tool(admin::QuotaStatus { gateway: parts.gateway.clone() });
    registry.add_tool(admin::LicenseInfo { gateway: parts.gateway.clone() });
    registry.add_tool(admin::GetComprehensiveAudit { gateway: parts.gateway.clone() });
}

/// The input of tools that need none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoInput {
    /// Accepted by every tool; makes no difference here.
    #[serde(default, rename = "session_id")]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}
