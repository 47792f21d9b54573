//! The resources, each declared once.

mod debug;
mod knowledge;
mod server;

use crate::{app::AppParts, registry::Registry};

pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    registry.add_room(debug::DebugRoom { debug: parts.debug.clone() });
    registry.add_room(knowledge::KnowledgeRoom { knowledge: parts.knowledge.clone() });
    registry.add_room(server::ServerRoom { gateway: parts.gateway.clone() });
}
