//! The resources, each declared once.

mod server;

use crate::{app::AppParts, registry::Registry};

pub(crate) fn declare(registry: &mut Registry, parts: &AppParts) {
    registry.add_room(server::ServerRoom { gateway: parts.gateway.clone() });
}
