//! Tools over the knowledge base.

mod change;
mod cutting;
mod find;
mod found;
mod status;

use std::sync::Arc;

use hindcast_services::knowledge::KnowledgeService;

use crate::registry::Registry;

pub(super) fn declare(registry: &mut Registry, knowledge: &Arc<KnowledgeService>) {
    registry.add_tool(find::Search { knowledge: knowledge.clone() });
    registry.add_tool(change::Add { knowledge: knowledge.clone() });
    registry.add_tool(change::Remove { knowledge: knowledge.clone() });
    registry.add_tool(status::Status { knowledge: knowledge.clone() });
    registry.add_tool(find::Ask { knowledge: knowledge.clone() });
}
