//! Types of the framework as a developer would write their values, read from their fields.

use jiff::civil::Date;

use crate::{
    cor::{Com, DelegateValue, ReferenceValue, Value},
    image::{AttributeValue, Constant, Primitive},
};

use super::{
    display::{primitive_text, quoted},
    seen::{Content, Seen, Values},
    show::{Part, Parts, View, Window},
    types::Definition,
};

const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_DAY: i64 = 86_400 * TICKS_PER_SECOND;
/// The most of a text that is shown in another value's line.
const TEXT_LIMIT: u32 = 200;
/// How many items of a span are shown.
const SPAN_ITEMS: u32 = 32;
/// How many levels of a tuple with more than seven items are followed.
const TUPLE_REST: usize = 8;

impl Values<'_> {
    /// How a value of the framework's own types, or of those that the compiler makes, is shown.
    pub(super) fn framework_view(&self, seen: &Seen, name: &str) -> Option<View> {
        let text = |text: String| Some(View { text: Some(text), parts: Parts::None });
        let with_members =
            |text: String| Some(View { text: Some(text), parts: Parts::Named(self.members(seen)) });
        if seen.of.is_enum() {
            return text(self.enum_text(seen)?);
        }
        match name {
            "System.Nullable`1" => return self.nullable(seen),
            "System.Decimal" => return text(self.decimal(seen)?),
            "System.DateTime" => return text(self.date_time(seen)?),
            "System.DateTimeOffset" => return text(self.date_time_offset(seen)?),
            "System.TimeSpan" => return text(time_span_text(self.integer_field(seen, &["_ticks"])?)),
            "System.DateOnly" => {
                return text(date_text(self.integer_field(seen, &["_dayNumber"])?)?);
            }
            "System.TimeOnly" => return text(time_text(self.integer_field(seen, &["_ticks"])?)),
            "System.Guid" => return text(self.guid(seen)?),
            "System.Text.StringBuilder" => return text(quoted(&self.string_builder(seen)?)),
            "System.RuntimeType" => return None,
            "System.Collections.Generic.KeyValuePair`2" => {
                let key = self.field_seen(seen, "key")?;
                let value = self.field_seen(seen, "value")?;
                let text = format!("[{}, {}]", self.brief(&key, Default::default()), self.brief(&value, Default::default()));
                return with_members(text);
            }
            "System.Index" => return text(index_text(self.integer_field(seen, &["_value"])?)),
            "System.Range" => {
                let end = |name: &str| Some(index_text(self.integer_field(&self.field_seen(seen, name)?, &["_value"])?));
                return text(format!("{}..{}", end("Start")?, end("End")?));
            }
            "System.Span`1" | "System.ReadOnlySpan`1" => return self.span(seen),
            "System.Lazy`1" => return self.lazy(seen),
            "System.Version" => {
                let numbers = ["_Major", "_Minor", "_Build", "_Revision"].map(|name| self.integer_field(seen, &[name]));
                let numbers = numbers.into_iter().flatten().filter(|number| *number >= 0);
                return text(numbers.map(|number| number.to_string()).collect::<Vec<_>>().join("."));
            }
            _ => {}
        }
        if name.starts_with("System.ValueTuple`") || name.starts_with("System.Tuple`") {
            return Some(View { text: None, parts: Parts::Tuple(self.tuple(seen)) });
        }
        if let Some(view) = self.task(seen, name) {
            return Some(view);
        }
        let bases = seen.of.with_bases(self.modules);
        if bases.iter().any(|base| base.is_named("System.Exception")) {
            return self.exception_view(seen);
        }
        if bases.iter().any(|base| base.is_named("System.MulticastDelegate")) {
            return self.delegate(seen);
        }
        None
    }

    fn nullable(&self, seen: &Seen) -> Option<View> {
        let has_value = self.integer_field(seen, &["hasValue"])? != 0;
        if !has_value {
            return Some(View { text: Some("null".into()), parts: Parts::None });
        }
        let inner = self.field_seen(seen, "value")?;
        match &inner.content {
            Content::Primitive(primitive, bytes) => {
                let text = primitive_text(*primitive, bytes, Default::default());
                Some(View { text: Some(text), parts: Parts::None })
            }
            _ => Some(self.view(&inner, Window { offset: 0, limit: 8 })),
        }
    }

    /// The items; those beyond the seventh are in a tuple of their own.
    pub(super) fn tuple(&self, seen: &Seen) -> Vec<Part> {
        let (mut parts, mut current) = (Vec::new(), seen.clone());
        for _ in 0..TUPLE_REST {
            for number in 1..=7 {
                let value = [format!("Item{number}"), format!("m_Item{number}")]
                    .iter()
                    .find_map(|name| self.field(&current, name));
                let Some(value) = value else { return parts };
                parts.push(Part { name: format!("Item{}", parts.len() + 1), value: Ok(value) });
            }
            match self.any_field(&current, &["Rest", "m_Rest"]) {
                Some(rest) => current = rest,
                None => break,
            }
        }
        parts
    }

    /// The name of an enum's value; several for flags; the number where it has none.
    pub(super) fn enum_text(&self, seen: &Seen) -> Option<String> {
        let value = match &seen.content {
            Content::Primitive(..) => seen.integer()?,
            _ => self.integer_field(seen, &["value__"])?,
        };
        let definition = seen.of.definition.as_ref()?;
        Some(enum_name(definition, value).unwrap_or_else(|| value.to_string()))
    }

    fn decimal(&self, seen: &Seen) -> Option<String> {
        let number = |names: &[&str]| self.integer_field(seen, names).map(|number| number.cast_unsigned());
        let flags = number(&["_flags", "flags"])?;
        let high = u128::from(number(&["_hi32", "hi"])? & 0xffff_ffff);
        let low = match self.any_field(seen, &["_lo64"]) {
            Some(low) => unsigned(&low)?,
            None => (number(&["mid"])? & 0xffff_ffff) << 32 | number(&["lo"])? & 0xffff_ffff,
        };
        Some(decimal_text(high << 64 | u128::from(low), (flags >> 16 & 0xff) as usize, flags >> 31 & 1 == 1))
    }

    fn date_time(&self, seen: &Seen) -> Option<String> {
        let data = unsigned(&self.any_field(seen, &["_dateData", "dateData"])?)?;
        let ticks = (data & 0x3fff_ffff_ffff_ffff).cast_signed();
        let zone = if data >> 62 == 1 { "Z" } else { "" };
        Some(format!("{}{zone}", date_and_time_text(ticks)?))
    }

    fn date_time_offset(&self, seen: &Seen) -> Option<String> {
        let instant = self.field_seen(seen, "_dateTime")?;
        let data = unsigned(&self.any_field(&instant, &["_dateData", "dateData"])?)?;
        let minutes = self.integer_field(seen, &["_offsetMinutes"])?;
        let ticks = (data & 0x3fff_ffff_ffff_ffff).cast_signed() + minutes * 60 * TICKS_PER_SECOND;
        let sign = if minutes < 0 { '-' } else { '+' };
        let minutes = minutes.abs();
        Some(format!("{}{sign}{:02}:{:02}", date_and_time_text(ticks)?, minutes / 60, minutes % 60))
    }

    fn guid(&self, seen: &Seen) -> Option<String> {
        let part = |name: &str| self.integer_field(seen, &[name]);
        let bytes = ["_d", "_e", "_f", "_g", "_h", "_i", "_j", "_k"];
        let bytes: Vec<i64> = bytes.iter().map(|name| part(name)).collect::<Option<_>>()?;
        let hex = |bytes: &[i64]| bytes.iter().map(|byte| format!("{:02x}", byte & 0xff)).collect::<String>();
        Some(format!(
            "{:08x}-{:04x}-{:04x}-{}-{}",
            part("_a")? & 0xffff_ffff,
            part("_b")? & 0xffff,
            part("_c")? & 0xffff,
            hex(&bytes[..2]),
            hex(&bytes[2..])
        ))
    }

    /// The pieces, of which the last is the first in the chain.
    fn string_builder(&self, seen: &Seen) -> Option<String> {
        let (mut pieces, mut current) = (Vec::new(), Some(seen.clone()));
        while let Some(piece) = current.filter(|piece| !piece.is_null() && pieces.len() < 64) {
            let length = self.integer_field(&piece, &["m_ChunkLength"])?;
            let Content::Array(units) = self.field_seen(&piece, "m_ChunkChars")?.content else { return None };
            let mut text = Vec::new();
            for at in 0..u32::try_from(length).ok()?.min(TEXT_LIMIT) {
                let unit = self.see(&units.element_at(at).ok()?).ok()?.integer()?;
                text.push(u16::try_from(unit).ok()?);
            }
            pieces.push(String::from_utf16_lossy(&text));
            current = self.field_seen(&piece, "m_ChunkPrevious");
        }
        pieces.reverse();
        Some(pieces.concat())
    }

    fn task(&self, seen: &Seen, name: &str) -> Option<View> {
        let bases = seen.of.with_bases(self.modules);
        let is_task = name.starts_with("System.Threading.Tasks.Task")
            || bases.iter().any(|base| base.is_named("System.Threading.Tasks.Task"));
        if !is_task {
            return None;
        }
        let status = task_status(self.integer_field(seen, &["m_stateFlags"])?);
        let mut parts = Vec::new();
        let mut text = format!("{{Status = {status}");
        let result = self.field(seen, "m_result").filter(|_| status == "RanToCompletion");
        if let Some(result) = result {
            if let Ok(result) = self.see(&result) {
                text.push_str(&format!(", Result = {}", self.brief(&result, Default::default())));
            }
            parts.push(Part { name: "Result".into(), value: Ok(result) });
        }
        if let Some(fault) = self.task_fault(seen).filter(|_| status == "Faulted") {
            parts.push(Part { name: "Exception".into(), value: Ok(fault) });
        }
        text.push('}');
        Some(View { text: Some(text), parts: Parts::Named(parts) })
    }

    /// The first exception of a task that failed.
    fn task_fault(&self, seen: &Seen) -> Option<Com<Value>> {
        let contingent = self.field_seen(seen, "m_contingentProperties")?;
        let holder = self.field_seen(&contingent, "m_exceptionsHolder")?;
        let list = self.field_seen(&holder, "m_faultExceptions")?;
        let Content::Array(items) = self.field_seen(&list, "_items")?.content else { return None };
        let info = self.see(&items.element_at(0).ok()?).ok()?;
        self.any_field(&info, &["_exception", "m_Exception"]).map(|exception| exception.value)
    }

    fn exception_view(&self, seen: &Seen) -> Option<View> {
        let mut text = seen.of.display();
        if let Some(message) = self.field_seen(seen, "_message").and_then(|message| message.text(TEXT_LIMIT)) {
            text = format!("{text}: {message}");
        }
        let shown = |part: &Part| {
            // What the runtime keeps for itself.
            !part.name.starts_with('_') || matches!(part.name.as_str(), "_message" | "_innerException" | "_HResult")
        };
        let mut parts: Vec<Part> = self.members(seen).into_iter().filter(shown).collect();
        for part in &mut parts {
            part.name = match part.name.as_str() {
                "_message" => "Message".into(),
                "_innerException" => "InnerException".into(),
                "_HResult" => "HResult".into(),
                _ => continue,
            };
        }
        Some(View { text: Some(text), parts: Parts::Named(parts) })
    }

    /// A stretch of memory: its length, and its text where it holds characters.
    fn span(&self, seen: &Seen) -> Option<View> {
        let length = u32::try_from(self.integer_field(seen, &["_length"])?).ok()?;
        let item = seen.of.arguments.first()?;
        let text = match (self.span_bytes(seen, item, length), item.primitive()) {
            (Some(bytes), Some(Primitive::Char)) => {
                let units: Vec<u16> = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]])).collect();
                quoted(&String::from_utf16_lossy(&units))
            }
            (Some(bytes), Some(primitive)) => {
                let size = (bytes.len() / (length.min(SPAN_ITEMS) as usize).max(1)).max(1);
                let items = bytes.chunks_exact(size).map(|item| primitive_text(primitive, item, Default::default()));
                let more = if length > SPAN_ITEMS { ", …" } else { "" };
                format!("[{}{more}]", items.collect::<Vec<_>>().join(", "))
            }
            _ => format!("[…] ({length} items)"),
        };
        Some(View { text: Some(text), parts: Parts::None })
    }

    /// The first items of a span whose items are primitive.
    fn span_bytes(&self, seen: &Seen, item: &super::types::TypeInfo, length: u32) -> Option<Vec<u8>> {
        item.primitive()?;
        if length == 0 {
            return Some(Vec::new());
        }
        let mut first = self.field(seen, "_reference");
        if first.is_none() {
            // Older versions keep the reference in a struct of its own.
            first = self.field(&self.field_seen(seen, "_pointer")?, "_value");
        }
        let first = first?;
        let address = match first.cast::<ReferenceValue>() {
            Some(reference) => reference.value().ok()?,
            None => u64::try_from(self.see(&first).ok()?.integer()?).ok()?,
        };
        let size = size_of(item.primitive()?);
        self.process.read_memory(address, size * length.min(SPAN_ITEMS)).ok()
    }

    fn lazy(&self, seen: &Seen) -> Option<View> {
        if !self.field_seen(seen, "_state")?.is_null() {
            return Some(View { text: Some("{not made yet}".into()), parts: Parts::None });
        }
        let value = self.field(seen, "_value")?;
        Some(View { text: None, parts: Parts::Named(vec![Part { name: "Value".into(), value: Ok(value) }]) })
    }

    /// What it calls, where the runtime tells.
    fn delegate(&self, seen: &Seen) -> Option<View> {
        let Content::Object(object) = &seen.content else { return None };
        let target = self.field(seen, "_target");
        let parts = target.map(|value| vec![Part { name: "Target".into(), value: Ok(value) }]).unwrap_or_default();
        let function = object.cast::<DelegateValue>().and_then(|delegate| delegate.function().ok());
        let text = function.and_then(|function| {
            let module = self.modules.of(&function.module().ok()?)?;
            let method = module.assembly()?.method(crate::image::Token(function.token().ok()?))?;
            crate::names::method_name(method)
        });
        let text = text.map_or_else(|| "{delegate}".to_owned(), |name| format!("{{{name}}}"));
        Some(View { text: Some(text), parts: Parts::Named(parts) })
    }

    /// The text of a `DebuggerDisplay`, where it can be had without running code.
    pub(super) fn debugger_display(&self, seen: &Seen) -> Option<String> {
        for of in seen.of.with_bases(self.modules) {
            let definition = of.definition.as_ref()?;
            let assembly = definition.module.assembly()?;
            let attribute = assembly.attribute(definition.token, "System.Diagnostics.DebuggerDisplayAttribute");
            if let Some(attribute) = attribute {
                let arguments = attribute.arguments().ok()?;
                let AttributeValue::String(template) = arguments.fixed.first()? else { return None };
                return self.fill_template(seen, template);
            }
        }
        None
    }

    fn fill_template(&self, seen: &Seen, template: &str) -> Option<String> {
        let (mut text, mut rest) = (String::new(), template);
        while let Some((before, after)) = rest.split_once('{') {
            let (expression, behind) = after.split_once('}')?;
            text.push_str(before);
            let (path, without_quotes) = match expression.split_once(',') {
                Some((path, "nq")) => (path, true),
                Some(_) => return None,
                None => (expression, false),
            };
            let mut current = seen.clone();
            for name in path.trim().split('.').filter(|name| *name != "this") {
                current = self.see(&self.readable_member(&current, name.trim())?).ok()?;
            }
            match current.text(TEXT_LIMIT) {
                Some(plain) if without_quotes => text.push_str(&plain),
                _ => text.push_str(&self.brief(&current, Default::default())),
            }
            rest = behind;
        }
        text.push_str(rest);
        Some(text)
    }

    /// A field, or a property that only returns one.
    fn readable_member(&self, seen: &Seen, name: &str) -> Option<Com<Value>> {
        self.field(seen, name).or_else(|| self.field_behind_property(seen, name))
    }
}

/// The name of an enum's value.
pub(crate) fn enum_name(definition: &Definition, value: i64) -> Option<String> {
    let type_def = definition.type_def()?;
    let named: Vec<(&str, i64)> = type_def
        .fields()
        .filter(|field| field.is_literal())
        .filter_map(|field| Some((field.name()?, field.constant().as_ref().and_then(Constant::as_i64)?)))
        .collect();
    if let Some((name, _)) = named.iter().find(|(_, number)| *number == value) {
        return Some((*name).to_owned());
    }
    let assembly = definition.module.assembly()?;
    if !assembly.has_attribute(definition.token, "System.FlagsAttribute") {
        return None;
    }
    let (mut left, mut names) = (value, Vec::new());
    // The largest first, so that a name for several flags stands for all of them.
    let mut flags: Vec<_> = named.into_iter().filter(|(_, number)| *number != 0).collect();
    flags.sort_by_key(|(_, number)| std::cmp::Reverse(number.cast_unsigned()));
    for (name, number) in flags {
        if left & number == number {
            left &= !number;
            names.push(name);
        }
    }
    names.reverse();
    (left == 0 && !names.is_empty()).then(|| names.join(" | "))
}

fn unsigned(seen: &Seen) -> Option<u64> {
    let Content::Primitive(_, bytes) = &seen.content else { return None };
    Some(u64::from_le_bytes(bytes.as_slice().try_into().ok()?))
}

fn size_of(primitive: Primitive) -> u32 {
    match primitive {
        Primitive::Boolean | Primitive::SByte | Primitive::Byte => 1,
        Primitive::Char | Primitive::Int16 | Primitive::UInt16 => 2,
        Primitive::Int32 | Primitive::UInt32 | Primitive::Single => 4,
        _ => 8,
    }
}

/// `1`, or `^1` when it counts from the end.
fn index_text(value: i64) -> String {
    if value < 0 { format!("^{}", !value) } else { value.to_string() }
}

/// A number with so many digits behind the point.
fn decimal_text(number: u128, scale: usize, is_negative: bool) -> String {
    let mut digits = number.to_string();
    if digits.len() <= scale {
        digits.insert_str(0, &"0".repeat(scale + 1 - digits.len()));
    }
    if scale > 0 {
        digits.insert(digits.len() - scale, '.');
    }
    if is_negative && number != 0 { format!("-{digits}") } else { digits }
}

/// A day, counted from the first of January of the year 1.
fn date_text(day: i64) -> Option<String> {
    let first = Date::new(1, 1, 1).ok()?;
    let date = first.checked_add(jiff::Span::new().try_days(day).ok()?).ok()?;
    Some(date.to_string())
}

/// A time of day, without a fraction of a second where there is none.
fn time_text(ticks: i64) -> String {
    let seconds = ticks / TICKS_PER_SECOND;
    let fraction = match ticks % TICKS_PER_SECOND {
        0 => String::new(),
        fraction => format!(".{}", format!("{fraction:07}").trim_end_matches('0')),
    };
    format!("{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn date_and_time_text(ticks: i64) -> Option<String> {
    Some(format!("{}T{}", date_text(ticks / TICKS_PER_DAY)?, time_text(ticks % TICKS_PER_DAY)))
}

fn time_span_text(ticks: i64) -> String {
    let sign = if ticks < 0 { "-" } else { "" };
    let ticks = ticks.unsigned_abs().cast_signed();
    let days = match ticks / TICKS_PER_DAY {
        0 => String::new(),
        days => format!("{days}."),
    };
    format!("{sign}{days}{}", time_text(ticks % TICKS_PER_DAY))
}

/// What a task's flags say, as `Task.Status` does.
fn task_status(flags: i64) -> &'static str {
    match flags {
        _ if flags & 0x20_0000 != 0 => "Faulted",
        _ if flags & 0x40_0000 != 0 => "Canceled",
        _ if flags & 0x100_0000 != 0 => "RanToCompletion",
        _ if flags & 0x80_0000 != 0 => "WaitingForChildrenToComplete",
        _ if flags & 0x2_0000 != 0 => "Running",
        _ if flags & 0x1_0000 != 0 => "WaitingToRun",
        _ if flags & 0x200_0000 != 0 => "WaitingForActivation",
        _ => "Created",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_are_written_as_standards_want() {
        assert_eq!(date_and_time_text(638_000_000_000_000_000).unwrap(), "2022-09-29T14:13:20");
        assert_eq!(date_and_time_text(0).unwrap(), "0001-01-01T00:00:00");
        assert_eq!(time_text(1), "00:00:00.0000001");
        assert_eq!(time_span_text(-(TICKS_PER_DAY + TICKS_PER_SECOND / 2)), "-1.00:00:00.5");
    }

    #[test]
    fn decimals_keep_their_digits() {
        assert_eq!(decimal_text(12_340, 3, false), "12.340");
        assert_eq!(decimal_text(5, 3, true), "-0.005");
        assert_eq!(decimal_text(0, 0, true), "0");
        assert_eq!(decimal_text(u128::MAX >> 32, 0, false), "79228162514264337593543950335");
    }
}
