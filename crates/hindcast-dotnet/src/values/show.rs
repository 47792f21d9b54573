//! Values as variables with parts, cut to limits.

use hindcast_core::debug::{NumberFormat, RuntimeAddr, ValueLimits, ValueState, Variable};

use crate::cor::{Com, CorError, Hresult, Value};

use super::{
    display::{Brief, primitive_text, quoted},
    seen::{Content, Seen, Values},
};

/// How long the one-line text of a value with parts may get.
const LONGEST_BRIEF: usize = 240;
/// How many parts of each value a one-line text shows.
const BRIEF_PARTS: u64 = 8;
/// How deep a one-line text goes.
const BRIEF_DEPTH: u32 = 2;

/// How a value with parts is shown.
#[derive(Debug)]
pub(super) struct View {
    /// What is said of it in one line; its parts where absent.
    pub(super) text: Option<String>,
    pub(super) parts: Parts,
}

/// What a value consists of.
#[derive(Debug)]
pub(super) enum Parts {
    None,
    /// `{Name = value}`
    Named(Vec<Part>),
    /// `(value, value)`
    Tuple(Vec<Part>),
    /// `[value, value]`
    Items(Items),
    /// `{[key] = value}`
    Pairs(Items),
}

/// A part.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) value: Result<Com<Value>, CorError>,
}

/// Many parts, of which some were read: as many as the limits ask for.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) count: u64,
    pub(super) read: Vec<Part>,
}

/// Which parts are wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) offset: u64,
    pub(super) limit: u64,
}

impl Parts {
    fn count(&self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Named(parts) | Self::Tuple(parts) => Some(parts.len() as u64),
            Self::Items(items) | Self::Pairs(items) => Some(items.count),
        }
    }
}

impl Values<'_> {
    /// A value under a name, as far as the limits go.
    pub(crate) fn variable(
        &self,
        name: &str,
        value: &Result<Com<Value>, CorError>,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Variable {
        let seen = value.as_ref().map_err(|error| *error).and_then(|value| self.see(value));
        match seen {
            Ok(seen) => self.shown(name, &seen, limits, format),
            Err(error) => unavailable(name, error),
        }
    }

    /// The same, of what was followed already.
    pub(crate) fn shown(&self, name: &str, seen: &Seen, limits: ValueLimits, format: NumberFormat) -> Variable {
        let mut variable = Variable {
            name: name.to_owned(),
            type_name: seen.of.display(),
            address: address_of(seen),
            ..Variable::default()
        };
        if let Some((text, is_cut)) = simple_text(seen, limits.text, format) {
            (variable.value, variable.truncated) = (text, is_cut);
            return variable;
        }
        let window = Window { offset: limits.offset, limit: limits.children.into() };
        let view = self.view(seen, window);
        variable.child_count = view.parts.count();
        let brief = self.brief_of(seen, &view, limits, format);
        (variable.value, variable.truncated) = (brief.text, brief.is_cut);
        if limits.depth > 0 {
            let inner = ValueLimits { depth: limits.depth - 1, offset: 0, ..limits };
            variable.children = self.children(view.parts, window, inner, format);
            let shown = limits.offset + variable.children.len() as u64;
            variable.truncated |= variable.child_count.is_some_and(|count| shown < count);
        }
        variable
    }

    fn children(&self, parts: Parts, window: Window, limits: ValueLimits, format: NumberFormat) -> Vec<Variable> {
        let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
        let parts = match parts {
            Parts::None => Vec::new(),
            Parts::Named(parts) | Parts::Tuple(parts) => {
                let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
                parts.into_iter().skip(offset).take(limit).collect()
            }
            Parts::Items(items) | Parts::Pairs(items) => items.read,
        };
        parts.iter().map(|part| self.variable(&part.name, &part.value, limits, format)).collect()
    }

    /// The value in one line.
    pub(crate) fn brief(&self, seen: &Seen, limits: ValueLimits) -> String {
        let mut brief = Brief::new(LONGEST_BRIEF);
        self.add_brief(&mut brief, seen, limits, NumberFormat::Auto, BRIEF_DEPTH);
        brief.text
    }

    fn brief_of(&self, seen: &Seen, view: &View, limits: ValueLimits, format: NumberFormat) -> Brief {
        let mut brief = Brief::new(LONGEST_BRIEF);
        if limits.offset > 0 {
            // The parts that were read are not the first ones.
            self.add_brief(&mut brief, seen, limits, format, BRIEF_DEPTH);
        } else {
            self.add_view(&mut brief, view, limits, format, BRIEF_DEPTH);
        }
        brief
    }

    fn add_brief(&self, brief: &mut Brief, seen: &Seen, limits: ValueLimits, format: NumberFormat, depth: u32) {
        if let Some((text, is_cut)) = simple_text(seen, limits.text, format) {
            brief.push(&text);
            brief.is_cut |= is_cut;
            return;
        }
        let limit = if depth == 0 { 0 } else { BRIEF_PARTS };
        let view = self.view(seen, Window { offset: 0, limit });
        self.add_view(brief, &view, limits, format, depth);
    }

    fn add_view(&self, brief: &mut Brief, view: &View, limits: ValueLimits, format: NumberFormat, depth: u32) {
        if let Some(text) = &view.text {
            brief.push(text);
            return;
        }
        let (open, close, parts, count) = match &view.parts {
            Parts::None => return brief.push("{}"),
            Parts::Named(parts) => ("{", "}", parts, parts.len() as u64),
            Parts::Tuple(parts) => ("(", ")", parts, parts.len() as u64),
            Parts::Items(items) => ("[", "]", &items.read, items.count),
            Parts::Pairs(items) => ("{", "}", &items.read, items.count),
        };
        brief.push(open);
        let names = matches!(view.parts, Parts::Named(_) | Parts::Pairs(_));
        let mut shown = 0;
        for part in parts.iter().take(BRIEF_PARTS as usize) {
            if depth == 0 || !brief.has_room() {
                break;
            }
            if shown > 0 {
                brief.push(", ");
            }
            if names {
                brief.push(&part.name);
                brief.push(" = ");
            }
            match part.value.as_ref().map_err(|error| *error).and_then(|value| self.see(value)) {
                Ok(seen) => self.add_brief(brief, &seen, limits, format, depth - 1),
                Err(error) => brief.push(&unavailable("", error).value),
            }
            shown += 1;
        }
        if shown < count {
            brief.is_cut = true;
            brief.push(if shown > 0 { ", …" } else { "…" });
        }
        brief.push(close);
    }
}

/// What needs no parts: none for what has some.
fn simple_text(seen: &Seen, longest: u32, format: NumberFormat) -> Option<(String, bool)> {
    match &seen.content {
        Content::Null => Some(("null".into(), false)),
        Content::Primitive(primitive, bytes) => Some((primitive_text(*primitive, bytes, format), false)),
        Content::Pointer(address) => Some((format!("{address:#x}"), false)),
        Content::String(text) => Some(match text.text(longest) {
            Ok((text, length)) if length > longest => (format!("{}… ({length} chars)", quoted(&text)), true),
            Ok((text, _)) => (quoted(&text), false),
            Err(error) => (unavailable("", error).value, false),
        }),
        Content::Array(_) | Content::Object(_) => None,
    }
}

fn address_of(seen: &Seen) -> Option<RuntimeAddr> {
    match &seen.content {
        Content::Pointer(address) => Some(RuntimeAddr(*address)),
        // Objects move, so an address of one would be wrong soon.
        _ => None,
    }
}

/// A variable that cannot be read, and why.
fn unavailable(name: &str, error: CorError) -> Variable {
    let (value, state) = match error.code {
        Hresult::VARIABLE_NOT_AVAILABLE | Hresult::FIELD_NOT_AVAILABLE => {
            ("<optimised out>".to_owned(), ValueState::OptimisedOut)
        }
        Hresult::STATIC_NOT_AVAILABLE | Hresult::CLASS_NOT_LOADED => {
            ("<not initialised yet>".to_owned(), ValueState::NotYetInitialised)
        }
        _ => (format!("<{}>", error.code), ValueState::Unreadable),
    };
    Variable { name: name.to_owned(), value, state, ..Variable::default() }
}
