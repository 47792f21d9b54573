//! The resources, each declared once.

mod debug;
mod knowledge;
mod server;

use crate::{app::AppParts, registry::Registry, toolset::Toolset};

pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    if parts.toolsets.contains(&Toolset::Debugger) {
        registry.add_room(debug::DebugRoom { debug: parts.debug.clone() });
    }
    if parts.toolsets.contains(&Toolset::Knowledge) {
        registry.add_room(knowledge::KnowledgeRoom { knowledge: parts.knowledge.clone() });
    }
    // Errors name its resources, whatever else there is.
    registry.add_room(server::ServerRoom { gateway: parts.gateway.clone() });
}
