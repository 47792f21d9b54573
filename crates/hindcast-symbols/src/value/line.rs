//! A value on one line.

use hindcast_core::debug::{NumberFormat, ValueState};

use super::{
    Inspector,
    layout::{signed_of, unsigned_of},
    number,
    parts::{Part, field_name},
    place::{Absence, Placed, Storage},
    rust_std::short_type,
    shape::{List, Shape, Style, head},
    text::{Text, escape_into},
};
use crate::types::{Language, StructFlavour, StructType, Type, TypeKind, TypeRef, Types};

/// How many levels of parts a line shows.
const DEEPEST_NESTING: u32 = 5;

/// So many equal elements in a row are told as one, with how many they are.
const FEWEST_FOLDED: u64 = 5;

/// How many owners and references are looked through, parts included.
const DEEPEST_LEVEL: u32 = 24;

/// A line, and what is to be said of it.
pub(crate) struct Line<'i, 'a> {
    inspector: &'i Inspector<'a>,
    pub(crate) text: String,
    pub(crate) truncated: bool,
    pub(crate) state: ValueState,
    room: usize,
    level: u32,
}

impl<'i, 'a> Line<'i, 'a> {
    pub(crate) fn of(inspector: &'i Inspector<'a>, value: &Placed) -> Self {
        // As long as a text may be, but never so short that a number does not fit.
        let room = (inspector.limits.text as usize).max(60);
        let mut line = Line {
            inspector,
            text: String::new(),
            truncated: false,
            state: ValueState::Available,
            room,
            level: 0,
        };
        line.value(value, 0);
        line
    }

    fn is_full(&self) -> bool {
        self.text.len() >= self.room
    }

    fn cut(&mut self) {
        self.text.push('…');
        self.truncated = true;
    }

    fn value(&mut self, placed: &Placed, nesting: u32) {
        if let Storage::Gone(absence) = placed.storage {
            return self.absent(absence, nesting);
        }
        if self.level > DEEPEST_LEVEL {
            return self.cut();
        }
        if let Some(target) = self.inspector.layout.implied(placed) {
            self.text.push_str("(no address)");
            if nesting == 0 {
                self.text.push_str(" -> ");
                self.level += 1;
                self.dynamic(&target, 1);
                self.level -= 1;
            }
            return;
        }
        self.level += 1;
        match self.inspector.layout.shape(placed) {
            Shape::Plain => self.plain(placed, nesting),
            Shape::Text(text) => self.quoted(&text, nesting),
            Shape::List(list) => self.list(&list, nesting),
            Shape::Inner { target, note } => {
                self.dynamic(&target, nesting);
                self.note(note.as_deref());
            }
            Shape::Tuple(values) => {
                let parts = values.into_iter().map(|value| Part { name: String::new(), value }).collect();
                self.group("(", parts, "", ")", nesting);
            }
            Shape::Words(words) => self.text.push_str(&words),
            Shape::Corrupt(why) => self.text.push_str(&format!("<corrupt: {why}>")),
        }
        self.level -= 1;
    }

    /// What is really there where a base class is referred to.
    fn dynamic(&mut self, target: &Placed, nesting: u32) {
        match self.inspector.layout.most_derived(target) {
            Some((whole, name)) => {
                self.value(&whole, nesting);
                self.note(Some(&format!("is {name}")));
            }
            None => self.value(target, nesting),
        }
    }

    fn note(&mut self, note: Option<&str>) {
        if let Some(note) = note {
            self.text.push_str(&format!(" ({note})"));
        }
    }

    fn absent(&mut self, absence: Absence, nesting: u32) {
        let (words, state) = match absence {
            Absence::OptimisedOut => ("<optimised out>".to_owned(), ValueState::OptimisedOut),
            Absence::NotYetInitialised => ("<not yet initialised>".to_owned(), ValueState::NotYetInitialised),
            Absence::Unreadable(address) => (format!("<cannot read {address:#x}>"), ValueState::Unreadable),
        };
        self.text.push_str(&words);
        if nesting == 0 {
            self.state = state;
        }
    }

    fn quoted(&mut self, text: &Text, nesting: u32) {
        let most = u64::from(self.inspector.limits.text);
        let excerpt = self.inspector.layout.excerpt(text, most);
        if let Some(absence) = excerpt.broken
            && excerpt.bytes.is_empty()
        {
            return self.absent(absence, nesting);
        }
        self.text.push('"');
        escape_into(&mut self.text, &excerpt.bytes, '"');
        self.text.push('"');
        if let Some(known) = excerpt.left_out {
            self.cut();
            if let Some(count) = known {
                let unit = if text.unit == 1 { "bytes" } else { "characters" };
                self.note(Some(&format!("{count} {unit}")));
            }
        }
        if let Some(Absence::Unreadable(address)) = excerpt.broken {
            self.text.push_str(&format!("… <cannot read {address:#x}>"));
        }
        self.note(text.note.as_deref());
    }

    fn list(&mut self, list: &List, nesting: u32) {
        let (open, close) = if list.style == Style::Sequence { ('[', ']') } else { ('{', '}') };
        self.text.push(open);
        if nesting >= DEEPEST_NESTING && list.count > 0 {
            self.cut();
            self.text.push(close);
            return;
        }
        let most = u64::from(self.inspector.limits.children.clamp(1, 256));
        let layout = self.inspector.layout;
        let mut fetched = layout.fetch(list, 0, most);
        let (mut shown, mut at) = (0, 0);
        for _ in 0..most {
            let Some(item) = fetched.items.get(at).filter(|_| !self.is_full()) else { break };
            if shown > 0 {
                self.text.push_str(", ");
            }
            if let Some(key) = &item.key {
                self.value(key, nesting + 1);
                self.text.push_str(": ");
            }
            self.value(&item.value, nesting + 1);
            let alike = layout.alike(list, shown);
            match alike {
                FEWEST_FOLDED.. => {
                    self.text.push_str(&format!(" ×{alike}"));
                    (shown, at) = (shown + alike, 0);
                    fetched = layout.fetch(list, shown, most);
                }
                _ => (shown, at) = (shown + 1, at + 1),
            }
        }
        if let Some(why) = &fetched.broken {
            self.text.push_str(&format!(" <{why}>"));
        } else if shown < list.count {
            self.text.push_str(if shown > 0 { ", " } else { "" });
            self.cut();
            self.text.push_str(&format!(" {} more", list.count - shown));
        }
        self.text.push(close);
        self.note(list.note.as_deref());
    }

    fn plain(&mut self, placed: &Placed, nesting: u32) {
        let layout = self.inspector.layout;
        let Some((type_ref, found)) = layout.real(placed) else {
            return self.text.push_str("<its type is not known>");
        };
        let is_wide = layout.is_wide_character(placed.type_ref);
        let placed = &placed.retyped(type_ref);
        match &found.kind {
            TypeKind::Struct(structure) => self.structure(placed, &found, structure, nesting),
            TypeKind::Function { .. } => match placed.address() {
                Some(address) => self.code(address),
                None => self.text.push_str("<code>"),
            },
            TypeKind::Unspecified if found.language == Language::Rust => self.text.push_str(&found.name),
            TypeKind::Unspecified => self.text.push_str("null"),
            TypeKind::Declaration => self.text.push_str("<only declared>"),
            TypeKind::Array { .. } | TypeKind::Alias { .. } => self.text.push_str("<its size is not known>"),
            kind => match layout.whole(placed) {
                Ok(bytes) if is_wide => {
                    self.text.push_str(&number::wide_character(&bytes, self.inspector.format))
                }
                Ok(bytes) => self.scalar(&found, kind, &bytes, nesting),
                Err(absence) => self.absent(absence, nesting),
            },
        }
    }

    fn scalar(&mut self, found: &Type, kind: &TypeKind, bytes: &[u8], nesting: u32) {
        let format = self.inspector.format;
        match kind {
            TypeKind::Base(encoding) => self.text.push_str(&number::base(found, *encoding, bytes, format)),
            TypeKind::Enum { underlying, enumerators } => {
                let signed = underlying.is_some_and(|number| self.inspector.layout.is_signed(number))
                    || underlying.is_none() && enumerators.iter().any(|(_, value)| *value < 0);
                let text = enumerated(bytes, signed, enumerators, found.language, format);
                self.text.push_str(&text);
            }
            TypeKind::Pointer { target, .. } => self.pointer(unsigned_of(bytes) as u64, *target, nesting),
            TypeKind::MemberPointer { .. } if bytes.len() == 16 => {
                let address = unsigned_of(&bytes[..8]) as u64;
                match address {
                    0 => self.text.push_str("null"),
                    _ if address & 1 == 1 => self.text.push_str(&format!("virtual function {}", address / 8)),
                    _ => self.code(address),
                }
            }
            TypeKind::MemberPointer { .. } => match signed_of(bytes) {
                -1 => self.text.push_str("null"),
                offset => self.text.push_str(&format!("offset {offset}")),
            },
            _ => self.text.push_str("<cannot be shown>"),
        }
    }

    fn code(&mut self, address: u64) {
        self.text.push_str(&format!("{address:#x}"));
        match self.inspector.layout.types.symbol_at(address) {
            Some((name, 0)) => self.text.push_str(&format!(" <{name}>")),
            Some((name, offset)) => self.text.push_str(&format!(" <{name}+{offset:#x}>")),
            None => {}
        }
    }

    fn pointer(&mut self, address: u64, target: Option<TypeRef>, nesting: u32) {
        let layout = self.inspector.layout;
        if address == 0 {
            return self.text.push_str("null");
        }
        let pointed = target.and_then(|target| layout.types.real(target));
        let is_code =
            pointed.as_ref().is_some_and(|(_, found)| matches!(found.kind, TypeKind::Function { .. }));
        if is_code {
            return self.code(address);
        }
        self.text.push_str(&format!("{address:#x}"));
        let Some(target) = target.filter(|target| pointed.is_some() && layout.types.size(*target).is_some())
        else {
            // A pointer to anything may well be one to something that has a name.
            if let Some((name, 0)) = layout.types.symbol_at(address) {
                self.text.push_str(&format!(" <{name}>"));
            }
            return;
        };
        if nesting > 0 {
            return;
        }
        let target = Placed::memory(target, address);
        match layout.bytes(&target, 1) {
            Ok(_) => {
                self.text.push_str(" -> ");
                self.dynamic(&target, 1);
            }
            Err(_) => self.note(Some("unreadable")),
        }
    }

    fn structure(&mut self, placed: &Placed, found: &Type, structure: &StructType, nesting: u32) {
        let layout = self.inspector.layout;
        if found.language != Language::Rust {
            let parts = layout.struct_parts(placed);
            return self.group("{", parts, " = ", "}", nesting);
        }
        let (name, at) = match (&structure.variants, layout.active_case(placed, structure)) {
            (None, _) => (short_name(found).to_owned(), placed.clone()),
            (Some(_), Some((name, payload))) => (name, payload),
            (Some(part), None) => {
                let why =
                    part.discriminant.as_ref().map(|member| layout.whole(&layout.member(placed, member)));
                return match why {
                    Some(Err(absence)) => self.absent(absence, nesting),
                    _ => self.text.push_str("<in none of its cases>"),
                };
            }
        };
        let Some((_, payload)) = layout.real(&at) else { return self.text.push_str(&name) };
        let TypeKind::Struct(fields) = &payload.kind else { return self.text.push_str(&name) };
        let parts = layout.struct_parts(&at);
        let is_tuple = fields.members.iter().all(|member| {
            member
                .name
                .as_deref()
                .is_some_and(|name| name.starts_with("__") && field_name(&payload, name) != name)
        });
        let unnamed_tuple = found.name.starts_with('(') && structure.variants.is_none();
        if unnamed_tuple && parts.len() == 1 {
            self.group("(", parts, "", ",)", nesting);
        } else if unnamed_tuple {
            self.group("(", parts, "", ")", nesting);
        } else if parts.is_empty() {
            self.text.push_str(&name);
        } else if is_tuple && structure.flavour != StructFlavour::Union {
            self.group(&format!("{name}("), parts, "", ")", nesting);
        } else {
            self.group(&format!("{name} {{ "), parts, ": ", " }", nesting);
        }
    }

    /// Parts between brackets; `between` stands behind the name of each, and no names where it is empty.
    fn group(&mut self, open: &str, parts: Vec<Part>, between: &str, close: &str, nesting: u32) {
        self.text.push_str(open);
        if nesting >= DEEPEST_NESTING && !parts.is_empty() {
            self.cut();
            self.text.push_str(close);
            return;
        }
        for (index, part) in parts.iter().enumerate() {
            if index > 0 {
                self.text.push_str(", ");
            }
            if self.is_full() {
                self.cut();
                break;
            }
            if !between.is_empty() {
                self.text.push_str(&part.name);
                self.text.push_str(between);
            }
            self.value(&part.value, nesting + 1);
        }
        self.text.push_str(close);
    }
}

/// The name of a struct as `Debug` writes it.
fn short_name(found: &Type) -> &str {
    if found.name.contains("{closure_env#") {
        return "closure";
    }
    head(short_type(&found.name))
}

/// The name of a number, names of its bits, or the number where it has no name.
fn enumerated(
    bytes: &[u8],
    signed: bool,
    enumerators: &[(String, i128)],
    language: Language,
    format: NumberFormat,
) -> String {
    let value = if signed { signed_of(bytes) } else { unsigned_of(bytes) as i128 };
    if !matches!(format, NumberFormat::Auto) {
        return number::integer(bytes, signed, format);
    }
    if let Some((name, _)) = enumerators.iter().find(|(_, known)| *known == value) {
        return name.clone();
    }
    flags(value, enumerators)
        .filter(|_| language != Language::Rust)
        .unwrap_or_else(|| format!("{value} (unknown)"))
}

/// `READ | WRITE | 0x8`, where every enumerator is a bit of its own.
fn flags(value: i128, enumerators: &[(String, i128)]) -> Option<String> {
    let single = |known: i128| known > 0 && known & (known - 1) == 0;
    let bits = enumerators.iter().filter(|(_, known)| single(*known));
    let all_bits = bits.clone().fold(0, |all, (_, known)| all | known);
    // Combinations of the bits have names too in many programs.
    let is_flags = enumerators.iter().all(|(_, known)| *known >= 0 && known & !all_bits == 0);
    if value <= 0 || !is_flags || value & all_bits == 0 {
        return None;
    }
    let mut named: Vec<String> =
        bits.filter(|(_, known)| value & known != 0).map(|(name, _)| name.clone()).collect();
    let rest = value & !all_bits;
    if rest != 0 {
        named.push(format!("{rest:#x}"));
    }
    Some(named.join(" | "))
}
