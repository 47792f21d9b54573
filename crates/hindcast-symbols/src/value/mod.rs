//! Values as an agent reads them: on one line, and part by part.
//!
//! A value is shown from its type and the memory it is in. Library types are shown by what they
//! mean; where one is not laid out as we know it, its members are shown. Only what is shown is read.

mod cpp_containers;
mod cpp_std;
mod derived;
pub(crate) mod items;
pub(crate) mod layout;
mod lengths;
mod line;
mod located;
mod locks;
pub(crate) mod number;
mod owned;
mod parts;
mod place;
mod rust_std;
pub(crate) mod shape;
pub(crate) mod text;

use hindcast_core::debug::{NumberFormat, RuntimeAddr, ValueLimits, ValueState, Variable};

pub use derived::DerivedTypes;
use layout::Layout;
pub use located::register_name;
pub use owned::owned_by;
use parts::Parts;
pub use place::{Absence, Home, Placed, Storage};

use crate::{Memory, types::TypeRef};

/// Shows values, within limits.
#[derive(Clone, Copy)]
pub struct Inspector<'a> {
    layout: Layout<'a>,
    limits: ValueLimits,
    format: NumberFormat,
}

/// What is being shown: a pointer back to one of these is not followed again.
type Trail = Vec<(u64, TypeRef)>;

impl<'a> Inspector<'a> {
    /// Shows values of these types in this memory.
    pub fn new(
        types: &'a DerivedTypes<'a>,
        memory: &'a dyn Memory,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Self {
        Self { layout: Layout { types, memory }, limits, format }
    }

    /// The value with its parts, as deep as the limits say.
    pub fn show(&self, name: &str, value: &Placed) -> Variable {
        self.variable(name.to_owned(), value, self.limits.depth, self.limits.offset, &mut Vec::new())
    }

    /// The value on one line.
    pub fn line(&self, value: &Placed) -> String {
        line::Line::of(self, value).text
    }

    fn variable(&self, name: String, value: &Placed, depth: u32, offset: u64, trail: &mut Trail) -> Variable {
        let line = line::Line::of(self, value);
        let parts = Parts::of(self.layout, value);
        let mut shown = Variable {
            name,
            type_name: self.layout.types.name_of(value.type_ref),
            value: line.text,
            state: line.state,
            // A C++ reference has no address of its own.
            address: self.layout.referred(value).and_then(|value| value.address()).map(RuntimeAddr),
            children: Vec::new(),
            child_count: (parts.count() > 0).then_some(parts.count()),
            truncated: line.truncated,
        };
        if parts.place().is_some_and(|place| trail.contains(&place)) {
            shown.value.push_str(" (cycle)");
            shown.child_count = None;
            return shown;
        }
        if depth == 0 || parts.count() == 0 {
            return shown;
        }
        let before = trail.len();
        trail.extend(value.address().map(|address| (address, value.type_ref)));
        trail.extend(parts.place());
        let listed = parts.list(self, offset, u64::from(self.limits.children));
        for part in &listed.parts {
            shown.children.push(self.variable(part.name.clone(), &part.value, depth - 1, 0, trail));
        }
        trail.truncate(before);
        if let Some(why) = listed.broken {
            shown.children.push(Variable {
                name: "…".to_owned(),
                value: format!("<{why}>"),
                state: ValueState::Unreadable,
                ..Variable::default()
            });
        }
        shown.truncated |= (listed.parts.len() as u64) < parts.count();
        shown
    }
}
