//! The tools, each declared once.

mod admin;
mod debug;
mod documents;
mod knowledge;
mod workspace;

pub(crate) use admin::{QUOTA_STATUS, QuotaView};
pub(crate) use debug::DISCONNECT;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{app::AppParts, registry::Registry};

/// In the order of the listing. The first needs no argument and changes nothing: whoever tries out the
/// first tool it sees, as the conformance suite does, gets an answer.
pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    registry.add_tool(admin::QuotaStatus { gateway: parts.gateway.clone() });
    registry.add_tool(admin::LicenseInfo { gateway: parts.gateway.clone() });
    registry.add_tool(admin::GetComprehensiveAudit { gateway: parts.gateway.clone() });
    debug::declare(registry, &parts.debug);
    documents::declare(registry, parts);
    knowledge::declare(registry, &parts.knowledge);
    workspace::declare(registry, &parts.debug);
}

/// The input of tools that need none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoInput {
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}
