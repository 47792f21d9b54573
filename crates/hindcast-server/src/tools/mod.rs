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

use crate::{app::AppParts, registry::Registry, toolset::Toolset};

/// In the order of the listing. The first needs no argument and changes nothing: whoever tries out the
/// first tool it sees, as the conformance suite does, gets an answer.
pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    let offered = |toolset| parts.toolsets.contains(&toolset);
    if offered(Toolset::Account) {
        registry.add_tool(admin::QuotaStatus { gateway: parts.gateway.clone() });
        registry.add_tool(admin::LicenseInfo { gateway: parts.gateway.clone() });
        registry.add_tool(admin::GetComprehensiveAudit { gateway: parts.gateway.clone() });
    }
    if offered(Toolset::Debugger) {
        debug::declare(registry, &parts.debug, &parts.knowledge);
    }
    if offered(Toolset::Xml) {
        documents::declare(registry, parts);
    }
    if offered(Toolset::Knowledge) {
        knowledge::declare(registry, &parts.knowledge);
    }
    if offered(Toolset::Workspace) {
        workspace::declare(registry, &parts.debug);
    }
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
