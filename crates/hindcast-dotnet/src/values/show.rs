//! Values as variables with parts, cut to limits.

use std::cell::Cell;

use hindcast_core::debug::{NumberFormat, RuntimeAddr, ValueLimits, ValueState, Variable};

use crate::{
    cor::{Com, CorError, Hresult, Value},
    expression::Text,
    image::Primitive,
};

use super::{
    answer::Answer,
    display::{Brief, primitive_text},
    seen::{Content, Seen, Values},
    types::TypeInfo,
};

/// How long the one-line text of a value with parts may get.
const LONGEST_BRIEF: usize = 240;
/// How many parts of each value a one-line text shows.
const BRIEF_PARTS: u64 = 8;
/// How many levels of parts are shown at most: what holds itself has no last one.
const DEEPEST: u32 = 32;
/// How deep a one-line text goes.
const BRIEF_DEPTH: u32 = 2;

/// How a value with parts is shown.
#[derive(Debug)]
pub(super) struct View {
    /// What is said of it in one line; its parts where absent.
    pub(super) text: Option<String>,
    pub(super) parts: Parts,
}

impl View {
    /// One line, and nothing in it.
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), parts: Parts::None }
    }
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
    pub(super) value: PartValue,
    /// What a dictionary finds it by.
    pub(super) key: Option<Seen>,
    /// Its type as declared, where that has names for the items of tuples.
    pub(super) declared: Option<TypeInfo>,
}

/// Where a part is.
#[derive(Debug)]
pub(super) enum PartValue {
    Place(Result<Com<Value>, CorError>),
    /// In memory that the runtime has no object for.
    Bytes {
        primitive: Primitive,
        bytes: Vec<u8>,
    },
    /// Put together here: the program has no such string.
    Text(String),
    /// No object, whatever the field holds; its type as C# writes it.
    Null(String),
}

impl Part {
    pub(super) fn new(name: impl Into<String>, value: Result<Com<Value>, CorError>) -> Self {
        Self { name: name.into(), value: PartValue::Place(value), key: None, declared: None }
    }

    pub(super) fn of_bytes(name: String, primitive: Primitive, bytes: Vec<u8>) -> Self {
        Self { name, value: PartValue::Bytes { primitive, bytes }, key: None, declared: None }
    }

    pub(super) fn null(name: impl Into<String>) -> Self {
        Self { name: name.into(), value: PartValue::Null("object".into()), key: None, declared: None }
    }

    /// Its place; none for what has none that can be read.
    pub(super) fn place(self) -> Option<Com<Value>> {
        match self.value {
            PartValue::Place(value) => value.ok(),
            PartValue::Bytes { .. } | PartValue::Text(_) | PartValue::Null(_) => None,
        }
    }
}

/// Many parts, of which some were read: as many as the limits ask for.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) count: u64,
    pub(super) read: Vec<Part>,
    /// Whether they are not what they should be: too many to look at, or another thread was just changing them.
    pub(super) is_broken: bool,
    /// Whether those that are wanted are behind more than can be looked at; it is broken then too.
    pub(super) is_too_far: bool,
    /// How many make up a row, for an array with several dimensions: each but the first, the longest first.
    pub(super) rows: Vec<u64>,
}

impl Items {
    /// The same, without those that are behind too many.
    pub(super) fn too_far(self) -> Self {
        Self { is_broken: true, is_too_far: true, ..self }
    }
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

    fn items(&self) -> Option<&Items> {
        match self {
            Self::Items(items) | Self::Pairs(items) => Some(items),
            _ => None,
        }
    }

    fn is_broken(&self) -> bool {
        self.items().is_some_and(|items| items.is_broken)
    }

    /// Why some of those that are wanted were not read.
    fn missing(&self, window: Window) -> Option<String> {
        let items = self.items().filter(|items| items.is_broken)?;
        let read = items.read.len() as u64;
        if read >= window.limit.min(items.count.saturating_sub(window.offset)) {
            let at_least = items.count;
            return items
                .is_too_far
                .then(|| format!("<at least {at_least} items: to count them takes too long>"));
        }
        let next = window.offset + read;
        Some(match items.is_too_far {
            true => format!(
                "<not read: too many items come before [{next}]; `.ElementAt({next})` finds it with `allow_calls: true`>"
            ),
            false => "<not read: the collection is damaged, or a thread is changing it>".to_owned(),
        })
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
        self.declared_variable(name, value, None, limits, format)
    }

    /// The same, of what is declared with names for the items of tuples.
    pub(crate) fn declared_variable(
        &self,
        name: &str,
        value: &Result<Com<Value>, CorError>,
        declared: Option<&TypeInfo>,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Variable {
        let seen = value.as_ref().map_err(|error| *error).and_then(|value| self.see(value));
        match seen {
            Ok(seen) => self.shown(name, &seen.declared(declared), limits, format),
            Err(error) => unavailable(name, error),
        }
    }

    /// The same, of what was followed already.
    pub(crate) fn shown(
        &self,
        name: &str,
        seen: &Seen,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Variable {
        let _answer = Answer::enter();
        Answer::count_look();
        let limits = ValueLimits { depth: limits.depth.min(DEEPEST), ..limits };
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
        variable.child_count = view.parts.count().filter(|count| *count > 0 || view.text.is_none());
        let is_broken = view.parts.is_broken();
        let brief = self.brief_of(seen, &view, limits, format);
        (variable.value, variable.truncated) = (brief.text, brief.is_cut);
        if limits.depth > 0 && Answer::has_room() {
            let missing = view.parts.missing(window);
            let inner = ValueLimits { depth: limits.depth - 1, offset: 0, ..limits };
            variable.children = self.children(view.parts, window, inner, format);
            let shown = limits.offset + variable.children.len() as u64;
            variable.truncated |= variable.child_count.is_some_and(|count| shown < count);
            variable.children.extend(missing.map(|value| Variable {
                name: "…".to_owned(),
                value,
                state: ValueState::Unreadable,
                ..Variable::default()
            }));
        } else if limits.depth > 0 {
            variable.truncated |= variable.child_count.is_some_and(|count| count > 0);
        }
        variable.truncated |= is_broken;
        variable
    }

    fn children(
        &self,
        parts: Parts,
        window: Window,
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Vec<Variable> {
        let limit = usize::try_from(window.limit).unwrap_or(usize::MAX);
        let parts = match parts {
            Parts::None => Vec::new(),
            Parts::Named(parts) | Parts::Tuple(parts) => {
                let offset = usize::try_from(window.offset).unwrap_or(usize::MAX);
                parts.into_iter().skip(offset).take(limit).collect()
            }
            Parts::Items(items) | Parts::Pairs(items) => items.read,
        };
        let mut shown = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if !Answer::has_room() {
                break;
            }
            shown.push(Answer::share(parts.len() - at, || self.part_variable(part, limits, format)));
        }
        shown
    }

    fn part_variable(&self, part: &Part, limits: ValueLimits, format: NumberFormat) -> Variable {
        match &part.value {
            PartValue::Place(value) => {
                self.declared_variable(&part.name, value, part.declared.as_ref(), limits, format)
            }
            PartValue::Bytes { primitive, bytes } => Variable {
                name: part.name.clone(),
                type_name: primitive.csharp().to_owned(),
                value: primitive_text(*primitive, bytes, format),
                ..Variable::default()
            },
            PartValue::Text(text) => Variable {
                name: part.name.clone(),
                type_name: "string".into(),
                value: made_text(text, limits.text),
                ..Variable::default()
            },
            PartValue::Null(of) => Variable {
                name: part.name.clone(),
                type_name: of.clone(),
                value: "null".into(),
                ..Variable::default()
            },
        }
    }

    /// The value in one line.
    pub(crate) fn brief(&self, seen: &Seen, limits: ValueLimits) -> String {
        let Some(_nested) = Nested::enter() else { return "{…}".into() };
        let _answer = Answer::enter();
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

    fn add_brief(
        &self,
        brief: &mut Brief,
        seen: &Seen,
        limits: ValueLimits,
        format: NumberFormat,
        depth: u32,
    ) {
        Answer::count_look();
        if let Some((text, is_cut)) = simple_text(seen, limits.text, format) {
            brief.push(&text);
            brief.is_cut |= is_cut;
            return;
        }
        if !Answer::has_room() {
            brief.is_cut = true;
            return brief.push("{…}");
        }
        let limit = if depth == 0 { 0 } else { BRIEF_PARTS };
        let view = self.view(seen, Window { offset: 0, limit });
        self.add_view(brief, &view, limits, format, depth);
    }

    fn add_view(
        &self,
        brief: &mut Brief,
        view: &View,
        limits: ValueLimits,
        format: NumberFormat,
        depth: u32,
    ) {
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
        let is_tuple = matches!(view.parts, Parts::Tuple(_));
        let has_names = matches!(view.parts, Parts::Named(_) | Parts::Pairs(_));
        let rows = match &view.parts {
            Parts::Items(items) => items.rows.as_slice(),
            _ => &[],
        };
        let (mut shown, mut open_rows) = (0, 0);
        for part in parts.iter().take(BRIEF_PARTS as usize) {
            if depth == 0 || !brief.has_room() {
                break;
            }
            if shown > 0 {
                brief.push(", ");
            }
            let begun = rows.iter().filter(|row| **row > 0 && shown % **row == 0).count();
            brief.push(&"[".repeat(begun));
            open_rows += begun;
            if has_names {
                brief.push(&part.name);
                brief.push(" = ");
            } else if is_tuple && !part.name.starts_with("Item") {
                brief.push(&part.name);
                brief.push(": ");
            }
            self.add_part(brief, part, limits, format, depth - 1);
            shown += 1;
            let ended = rows.iter().filter(|row| **row > 0 && shown % **row == 0).count();
            brief.push(&"]".repeat(ended));
            open_rows -= ended;
        }
        brief.is_cut |= view.parts.is_broken();
        if shown < count {
            brief.is_cut = true;
            brief.push(if shown > 0 { ", …" } else { "…" });
        }
        brief.push(&"]".repeat(open_rows));
        brief.push(close);
    }
}

impl Values<'_> {
    fn add_part(
        &self,
        brief: &mut Brief,
        part: &Part,
        limits: ValueLimits,
        format: NumberFormat,
        depth: u32,
    ) {
        match &part.value {
            PartValue::Place(value) => {
                match value.as_ref().map_err(|error| *error).and_then(|value| self.see(value)) {
                    Ok(seen) => {
                        self.add_brief(brief, &seen.declared(part.declared.as_ref()), limits, format, depth);
                    }
                    Err(error) => brief.push(&unavailable("", error).value),
                }
            }
            PartValue::Bytes { primitive, bytes } => brief.push(&primitive_text(*primitive, bytes, format)),
            PartValue::Text(text) => brief.push(&made_text(text, limits.text)),
            PartValue::Null(_) => brief.push("null"),
        }
    }
}

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// A value within another one: what a type wants to be shown as may lead back to the same object, or through very many.
pub(super) struct Nested;

impl Nested {
    /// How many may be in each other.
    const DEEPEST: u32 = 4;

    pub(super) fn enter() -> Option<Self> {
        let depth = NESTED.get();
        (depth < Self::DEEPEST).then(|| {
            NESTED.set(depth + 1);
            Self
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// What needs no parts: none for what has some.
fn simple_text(seen: &Seen, longest: u32, format: NumberFormat) -> Option<(String, bool)> {
    match &seen.content {
        // F# has null for the option that holds nothing.
        Content::Null if seen.of.is_named("Microsoft.FSharp.Core.FSharpOption`1") => {
            Some(("None".into(), false))
        }
        Content::Null => Some(("null".into(), false)),
        Content::Primitive(primitive, bytes) => Some((primitive_text(*primitive, bytes, format), false)),
        Content::String(text) => Some(match text.units(longest) {
            Ok((units, length)) if length > longest => (cut_text(units, u64::from(length)), true),
            Ok((units, _)) => (Text(units).quoted(), false),
            Err(error) => (unavailable("", error).value, false),
        }),
        Content::Array(_) | Content::Object(_) | Content::Pointer(_) => None,
    }
}

/// A text that was put together here, as C# writes it.
fn made_text(text: &str, longest: u32) -> String {
    let mut units: Vec<u16> = text.encode_utf16().collect();
    let length = units.len();
    if length <= longest as usize {
        return Text(units).quoted();
    }
    units.truncate(longest as usize);
    cut_text(units, length as u64)
}

/// The beginning of a text that is longer; no character is cut in two.
pub(super) fn cut_text(mut units: Vec<u16>, length: u64) -> String {
    if units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
        units.pop();
    }
    format!("{}… ({length} chars)", Text(units).quoted())
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
        Hresult::STATIC_NOT_AVAILABLE => ("<not initialised yet>".to_owned(), ValueState::NotYetInitialised),
        Hresult::CLASS_NOT_LOADED => ("<its type is not loaded>".to_owned(), ValueState::Unreadable),
        _ => (format!("<{}>", error.code), ValueState::Unreadable),
    };
    Variable { name: name.to_owned(), value, state, ..Variable::default() }
}
