//! The parts of a value, each with a name.

use super::{
    Inspector,
    layout::{Layout, Search, plain_field_name},
    place::Placed,
    shape::{List, Shape, Style},
};
use crate::types::{Language, StructType, Type, TypeKind, TypeRef};

/// How many owners, references and pointers are opened to get to parts.
const MOST_OPENED: u32 = 16;

/// The parts of a value or of what it stands for.
pub(crate) struct Parts {
    opened: Option<(u64, TypeRef)>,
    content: Content,
}

enum Content {
    None,
    Named(Vec<Part>),
    List(List),
}

/// A part with its name.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) value: Placed,
}

/// Some parts, and why there are not all that were asked for.
#[derive(Default)]
pub(crate) struct Listed {
    pub(crate) parts: Vec<Part>,
    pub(crate) broken: Option<String>,
}

impl Parts {
    pub(crate) fn of(layout: Layout<'_>, value: &Placed) -> Self {
        let mut at = value.clone();
        let mut opened = None;
        for _ in 0..MOST_OPENED {
            let content = match layout.shape(&at) {
                Shape::Inner { target, .. } => {
                    at = target;
                    opened = at.address().map(|address| (address, at.type_ref));
                    continue;
                }
                Shape::List(list) => Content::List(list),
                Shape::Tuple(values) => {
                    let numbered = values.into_iter().enumerate();
                    Content::Named(
                        numbered.map(|(index, value)| Part { name: index.to_string(), value }).collect(),
                    )
                }
                Shape::Text(_) | Shape::Words(_) => Content::None,
                Shape::Plain | Shape::Corrupt(_) => match layout.pointed_parts(&at) {
                    Some(target) => {
                        at = target;
                        opened = at.address().map(|address| (address, at.type_ref));
                        continue;
                    }
                    None => Content::Named(layout.struct_parts(&at)),
                },
            };
            return Self { opened, content };
        }
        Self { opened, content: Content::None }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        match &self.content {
            Content::None => 0,
            Content::Named(parts) => parts.len() as u64,
            Content::List(list) => list.count,
        }
    }

    /// Where they are, when that is somewhere else than the value itself.
    pub(crate) fn place(&self) -> Option<(u64, TypeRef)> {
        self.opened
    }

    pub(crate) fn list(&self, inspector: &Inspector<'_>, offset: u64, limit: u64) -> Listed {
        match &self.content {
            Content::None => Listed::default(),
            Content::Named(parts) => {
                let skip = usize::try_from(offset).unwrap_or(usize::MAX);
                Listed {
                    parts: parts.iter().skip(skip).take(limit as usize).cloned().collect(),
                    broken: None,
                }
            }
            Content::List(list) => {
                let fetched = inspector.layout.fetch(list, offset, limit);
                let numbered = (offset..).zip(fetched.items);
                let parts = numbered.map(|(index, item)| {
                    let name = match &item.key {
                        Some(key) if list.style == Style::Map => format!("[{}]", inspector.line(key)),
                        _ => format!("[{index}]"),
                    };
                    Part { name, value: item.value }
                });
                Listed { parts: parts.collect(), broken: fetched.broken }
            }
        }
    }
}

impl Layout<'_> {
    /// What a pointer points to, when that has parts and can be read.
    fn pointed_parts(&self, pointer: &Placed) -> Option<Placed> {
        let (_, found) = self.real(pointer)?;
        let TypeKind::Pointer { target: Some(_), .. } = found.kind else { return None };
        let target = self.target(pointer)?;
        let (_, pointed) = self.real(&target)?;
        if !matches!(pointed.kind, TypeKind::Struct(_) | TypeKind::Array { .. }) {
            return None;
        }
        self.bytes(&target, 1).ok()?;
        Some(self.most_derived(&target).map_or(target, |(whole, _)| whole))
    }

    /// Base classes and members; those of anonymous members count as the outer one's. Of a Rust enum
    /// the fields of the case it is in.
    pub(crate) fn struct_parts(&self, placed: &Placed) -> Vec<Part> {
        let mut parts = Vec::new();
        self.collect_parts(placed, &mut parts, &mut Search::new());
        parts
    }

    fn collect_parts(&self, placed: &Placed, parts: &mut Vec<Part>, search: &mut Search) -> Option<()> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        if let Some((_, payload)) = self.active_case(placed, structure) {
            return search.deeper(|search| self.collect_parts(&payload, parts, search));
        }
        self.collect_bases(placed, structure, parts);
        for member in &structure.members {
            let value = self.member(placed, member);
            match &member.name {
                // The pointer to the virtual functions; the type it tells of is shown instead.
                Some(name) if member.artificial && name.starts_with("_vptr") => {}
                Some(name) => parts.push(Part { name: field_name(&found, name).to_owned(), value }),
                None => {
                    search.deeper(|search| self.collect_parts(&value, parts, search));
                }
            }
        }
        Some(())
    }

    fn collect_bases(&self, placed: &Placed, structure: &StructType, parts: &mut Vec<Part>) {
        for base in &structure.bases {
            if base.offset.is_some() && self.is_empty(base.type_ref) {
                continue;
            }
            let name = format!("<{}>", self.types.name_of(base.type_ref));
            let value = self.base(placed, base).unwrap_or_else(|| {
                Placed::gone(base.type_ref, super::place::Absence::Unreadable(placed.address().unwrap_or(0)))
            });
            parts.push(Part { name, value });
        }
    }
}

/// Captures of closures that are references have a mark in their name.
pub(crate) fn field_name<'n>(found: &Type, name: &'n str) -> &'n str {
    match name.strip_prefix("_ref__") {
        Some(captured) if found.language == Language::Rust => captured,
        _ => plain_field_name(name),
    }
}
