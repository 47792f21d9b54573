//! Types of the framework as a developer would write their values, read from their fields.

use crate::cor::{Com, Value};

use super::{
    seen::{Content, Seen, Values},
    show::{Part, Parts, View, Window},
    times::{date_text, index_text, time_span_text, time_text},
};

/// The most of a text that is shown in another value's line.
const TEXT_LIMIT: u32 = 200;
/// How many levels of a tuple with more than seven items are followed.
const TUPLE_REST: usize = 8;

impl Values<'_> {
    /// How a value of the framework's own types, or of those that the compiler makes, is shown.
    pub(super) fn framework_view(&self, seen: &Seen, name: &str, window: Window) -> Option<View> {
        if seen.of.is_enum() {
            return Some(View::text(self.enum_text(seen)?));
        }
        if let Some(name) = name.strip_prefix("System.") {
            if let Some(text) = self.text_of_framework(seen, name) {
                return Some(View::text(text));
            }
            if let Some(view) = self.view_of_framework(seen, name, window) {
                return Some(view);
            }
        }
        if name.starts_with("Microsoft.FSharp.") {
            return self.fsharp(seen, name);
        }
        for base in seen.of.with_bases(self.modules) {
            match base.full_name_ref() {
                Some("System.Exception") => return self.exception_view(seen),
                Some("System.MulticastDelegate") => return self.delegate(seen, window),
                Some("System.Threading.Tasks.Task") => return self.task(seen),
                _ => {}
            }
        }
        self.fsharp_union(seen)
    }

    /// What is one text, without parts.
    fn text_of_framework(&self, seen: &Seen, name: &str) -> Option<String> {
        match name {
            "Decimal" => self.decimal(seen),
            "DateTime" => self.date_time(seen),
            "DateTimeOffset" => self.date_time_offset(seen),
            "TimeSpan" => Some(time_span_text(self.integer_field(seen, &["_ticks"])?)),
            "DateOnly" => date_text(self.integer_field(seen, &["_dayNumber"])?),
            "TimeOnly" => Some(time_text(self.integer_field(seen, &["_ticks"])?)),
            "Guid" => self.guid(seen),
            "Int128" => self.wide_integer(seen, true),
            "UInt128" => self.wide_integer(seen, false),
            // With items it is shown as a collection.
            "Collections.Immutable.ImmutableArray`1" => Some("default".into()),
            "Numerics.BigInteger" => self.big_integer(seen),
            "Text.StringBuilder" => self.string_builder(seen),
            // Its fields are the runtime's own.
            "RuntimeType" => Some(self.runtime_type(seen).unwrap_or_else(|| "{a type}".into())),
            "Uri" => self.field_seen(seen, "_string")?.text(TEXT_LIMIT),
            "Index" => Some(index_text(self.integer_field(seen, &["_value"])?)),
            "Range" => {
                let end = |name: &str| {
                    Some(index_text(self.integer_field(&self.field_seen(seen, name)?, &["_value"])?))
                };
                Some(format!("{}..{}", end("Start")?, end("End")?))
            }
            "Version" => {
                let numbers =
                    ["_Major", "_Minor", "_Build", "_Revision"].map(|name| self.integer_field(seen, &[name]));
                let numbers = numbers.into_iter().collect::<Option<Vec<_>>>()?;
                let numbers = numbers.iter().filter(|number| **number >= 0).map(i64::to_string);
                Some(numbers.collect::<Vec<_>>().join("."))
            }
            _ => None,
        }
    }

    fn view_of_framework(&self, seen: &Seen, name: &str, window: Window) -> Option<View> {
        match name {
            "Nullable`1" => self.nullable(seen, window),
            "Collections.Generic.KeyValuePair`2" => {
                let (key, value) = (self.field_seen(seen, "key")?, self.field_seen(seen, "value")?);
                let text = format!(
                    "[{}, {}]",
                    self.brief(&key, Default::default()),
                    self.brief(&value, Default::default())
                );
                let parts = vec![Part::new("Key", Ok(key.value)), Part::new("Value", Ok(value.value))];
                Some(View { text: Some(text), parts: Parts::Named(parts) })
            }
            "ArraySegment`1" => {
                Some(View { text: None, parts: Parts::Items(self.array_segment(seen, window)?) })
            }
            "Span`1" | "ReadOnlySpan`1" => self.span(seen, window),
            "Memory`1" | "ReadOnlyMemory`1" => self.memory(seen, window),
            "Lazy`1" => self.lazy(seen),
            "Threading.Tasks.ValueTask`1" => self.value_task(seen, window),
            _ if name.starts_with("ValueTuple`") || name.starts_with("Tuple`") => {
                Some(View { text: None, parts: Parts::Tuple(self.tuple(seen)) })
            }
            _ => None,
        }
    }

    fn nullable(&self, seen: &Seen, window: Window) -> Option<View> {
        if self.integer_field(seen, &["hasValue"])? == 0 {
            return Some(View::text("null"));
        }
        let declared = seen.of.arguments.first();
        let inner = self.field_seen(seen, "value")?.declared(declared);
        match &inner.content {
            Content::Primitive(..) => Some(View::text(self.brief(&inner, Default::default()))),
            _ => Some(self.view(&inner, window)),
        }
    }

    /// The items; those beyond the seventh are in a tuple of their own.
    pub(super) fn tuple(&self, seen: &Seen) -> Vec<Part> {
        let (mut parts, mut current): (Vec<Part>, _) = (Vec::new(), seen.clone());
        let items = seen.of.tuple_items();
        for _ in 0..TUPLE_REST {
            for number in 1..=7 {
                let value = [format!("Item{number}"), format!("m_Item{number}")]
                    .iter()
                    .find_map(|name| self.field(&current, name));
                let Some(value) = value else { return parts };
                let at = parts.len();
                let name = seen.of.item_names.get(at).cloned().flatten();
                let name = name.unwrap_or_else(|| format!("Item{}", at + 1));
                parts.push(Part { declared: items.get(at).cloned(), ..Part::new(name, Ok(value)) });
            }
            match self.any_field(&current, &["Rest", "m_Rest"]) {
                Some(rest) => current = rest,
                None => break,
            }
        }
        parts
    }

    fn task(&self, seen: &Seen) -> Option<View> {
        let status = task_status(self.integer_field(seen, &["m_stateFlags"])?);
        let mut parts = Vec::new();
        let mut text = format!("{{Status = {status}");
        // The task that stands for "done" has a result that nobody may see.
        let is_hidden = |value: &Com<Value>| {
            self.type_of(value).is_ok_and(|of| of.is_named("System.Threading.Tasks.VoidTaskResult"))
        };
        let result =
            self.field(seen, "m_result").filter(|value| status == "RanToCompletion" && !is_hidden(value));
        if let Some(result) = result {
            if let Ok(result) = self.see(&result) {
                text.push_str(&format!(", Result = {}", self.brief(&result, Default::default())));
            }
            parts.push(Part::new("Result", Ok(result)));
        }
        if let Some(fault) = self.task_fault(seen).filter(|_| status == "Faulted") {
            if let Ok(fault) = self.see(&fault) {
                text.push_str(&format!(", Exception = {}", self.brief(&fault, Default::default())));
            }
            parts.push(Part::new("Exception", Ok(fault)));
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

    /// A result at once, or a task.
    fn value_task(&self, seen: &Seen, window: Window) -> Option<View> {
        let inner = self.field_seen(seen, "_obj")?;
        if !inner.is_null() {
            return Some(self.view(&inner, window));
        }
        let result = self.field(seen, "_result")?;
        let shown = self.brief(&self.see(&result).ok()?, Default::default());
        let text = format!("{{Status = RanToCompletion, Result = {shown}}}");
        Some(View { text: Some(text), parts: Parts::Named(vec![Part::new("Result", Ok(result))]) })
    }

    fn lazy(&self, seen: &Seen) -> Option<View> {
        let state = self.field_seen(seen, "_state")?;
        if !state.is_null() {
            let failure = self.field_seen(&state, "_exceptionDispatch").filter(|failure| !failure.is_null());
            let thrown = failure.and_then(|failure| self.any_field(&failure, &["_exception", "m_Exception"]));
            let Some(thrown) = thrown else { return Some(View::text("{not made yet}")) };
            let text = format!("{{failed: {}}}", self.brief(&thrown, Default::default()));
            let parts = Parts::Named(vec![Part::new("Exception", Ok(thrown.value))]);
            return Some(View { text: Some(text), parts });
        }
        let value = self.field(seen, "_value")?;
        Some(View { text: None, parts: Parts::Named(vec![Part::new("Value", Ok(value))]) })
    }
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
