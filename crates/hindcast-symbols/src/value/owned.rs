//! What owners own.

use std::ops::Range;

use super::{
    derived::DerivedTypes,
    layout::Layout,
    place::Placed,
    shape::{Shape, head},
};
use crate::{
    Memory,
    types::{Language, Types},
};

/// Where the value is that an `Rc`, `std::shared_ptr` or the like owns: from where its pointer leads to the value's end. None for
/// what is no such owner, or owns nothing.
pub fn owned_by(types: &DerivedTypes<'_>, memory: &dyn Memory, owner: &Placed) -> Option<Range<u64>> {
    let layout = Layout { types, memory };
    let (_, found) = layout.real(owner)?;
    let (value, leads_to) = match (found.language, head(&found.name)) {
        (Language::Rust, "alloc::rc::Rc" | "alloc::sync::Arc") => {
            let Shape::Inner { target, .. } = layout.shape(owner) else { return None };
            // The counts come before the value.
            let (leads_to, _) = layout.pointer(&layout.peel(&layout.field(owner, "ptr")?))?;
            (target, leads_to)
        }
        (Language::Cpp, name) if ["shared_ptr", "unique_ptr"].iter().any(|kind| name.ends_with(kind)) => {
            let Shape::Inner { target, .. } = layout.shape(owner) else { return None };
            let (address, pointed_to) = layout.pointer(&target)?;
            (Placed::memory(pointed_to?, address), address)
        }
        _ => return None,
    };
    let size = types.get(value.type_ref)?.size?;
    let start = value.address().filter(|start| *start != 0 && leads_to <= *start)?;
    Some(leads_to..start.checked_add(size.max(1))?)
}
