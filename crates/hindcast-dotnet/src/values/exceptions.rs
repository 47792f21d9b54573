//! What exceptions say: the `Message` that the framework's classes put together, without running it.

use crate::{expression::Constant, image::Method};

use super::{
    properties::{Returned, returned_by},
    seen::{Content, Seen, Values},
    show::{Part, PartValue, Parts, View},
    types::TypeInfo,
};

/// The most of a text that is shown in another value's line.
const TEXT_LIMIT: usize = 200;
/// The most of a message that is put together.
pub(crate) const LONGEST_MESSAGE: u32 = 4000;
/// How deep exceptions in exceptions are followed.
const DEEPEST: u32 = 4;
/// `COR_E_ARGUMENT`.
const COR_E_ARGUMENT: i64 = 0x8007_0057_u32.cast_signed() as i64;

/// What `Message` returns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExceptionMessage {
    /// This, or null.
    Said(Option<String>),
    /// The class runs code for it. What the exception was made with may be another text.
    Computed { by: String, given: Option<String> },
}

impl ExceptionMessage {
    /// The text that is known, whether or not the program would say it.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Said(text) => text,
            Self::Computed { given, .. } => given,
        }
    }
}

impl Values<'_> {
    /// Whether it is an exception.
    pub(crate) fn is_exception(&self, seen: &Seen) -> bool {
        seen.of.with_bases(self.modules).iter().any(|of| of.is_named("System.Exception"))
    }

    /// What the `Message` of an exception returns, cut to about `most` code units.
    pub(crate) fn exception_message(&self, seen: &Seen, most: u32) -> ExceptionMessage {
        self.message_within(seen, most, DEEPEST)
    }

    fn message_within(&self, seen: &Seen, most: u32, depth: u32) -> ExceptionMessage {
        let given = || self.field_declared_by(seen, "System.Exception", "_message")?.text(most);
        for of in seen.of.with_bases(self.modules) {
            let Some(definition) = &of.definition else { continue };
            let property = definition.type_def().and_then(|type_def| type_def.property_named("Message"));
            // One that is not virtual is another property of the same name.
            let Some(getter) =
                property.and_then(|property| property.getter()).filter(|getter| getter.is_virtual())
            else {
                continue;
            };
            let known = match of.full_name_ref() {
                Some(name) if !definition.module.is_mine() => self.known_message(seen, name, most, depth),
                _ => None,
            };
            let simple = || self.simple_message(seen, &of, getter, most);
            return match known.or_else(simple) {
                Some(text) => ExceptionMessage::Said(text),
                None => ExceptionMessage::Computed { by: of.display(), given: given() },
            };
        }
        ExceptionMessage::Said(given())
    }

    /// What a class of the framework returns; none where that is not known here.
    fn known_message(&self, seen: &Seen, class: &str, most: u32, depth: u32) -> Option<Option<String>> {
        let base = || self.base_message(seen, most);
        let field = |name: &str| {
            self.field_declared_by(seen, class, name)
                .and_then(|field| field.text(most))
                .filter(|text| !text.is_empty())
        };
        let message = match class {
            "System.Exception" => base(),
            "System.ArgumentException" => self.argument_message(seen, most),
            "System.ArgumentOutOfRangeException" => {
                let said = self.argument_message(seen, most);
                let actual = self.field_declared_by(seen, class, "_actualValue")?;
                if actual.is_null() {
                    said
                } else {
                    format!("{said}\nActual value was {}.", self.printed_text(&actual, most)?)
                }
            }
            "System.AggregateException" => self.aggregate_message(seen, most, depth)?,
            "System.ObjectDisposedException" => match field("_objectName") {
                Some(name) => format!("{}\nObject name: '{name}'.", base()),
                None => base(),
            },
            // They fill an empty text with what only the runtime knows.
            "System.IO.FileNotFoundException"
            | "System.IO.FileLoadException"
            | "System.BadImageFormatException"
            | "System.TypeLoadException" => self.given_message(seen, most)?,
            "System.MissingMemberException"
            | "System.MissingFieldException"
            | "System.MissingMethodException" => {
                let named = self.any_field(seen, &["ClassName", "_className"])?;
                if !named.is_null() {
                    return None;
                }
                base()
            }
            "System.Text.Json.JsonException" | "System.Xml.XmlException" => {
                let own = self.field_declared_by(seen, class, "_message")?;
                own.text(most).unwrap_or_else(base)
            }
            _ => return None,
        };
        Some(Some(message))
    }

    /// What a class returns that only returns a field or a constant.
    fn simple_message(
        &self,
        seen: &Seen,
        of: &TypeInfo,
        getter: Method<'_>,
        most: u32,
    ) -> Option<Option<String>> {
        match returned_by(getter)? {
            Returned::Field(name) => {
                let field = self.field_declared_by(seen, of.full_name_ref()?, &name)?;
                (field.is_null() || matches!(field.content, Content::String(_))).then(|| field.text(most))
            }
            Returned::Constant(Constant::String(text)) => Some(Some(String::from_utf16_lossy(&text.0))),
            Returned::Constant(_) => None,
        }
    }

    fn given_message(&self, seen: &Seen, most: u32) -> Option<String> {
        self.field_declared_by(seen, "System.Exception", "_message")?.text(most)
    }

    fn base_message(&self, seen: &Seen, most: u32) -> String {
        self.given_message(seen, most)
            .unwrap_or_else(|| format!("Exception of type '{}' was thrown.", reflected(&seen.of)))
    }

    fn argument_message(&self, seen: &Seen, most: u32) -> String {
        let is_plain = self.integer_field(seen, &["_HResult"]) == Some(COR_E_ARGUMENT);
        let said = match self.given_message(seen, most) {
            None if is_plain => "Value does not fall within the expected range.".into(),
            _ => self.base_message(seen, most),
        };
        let parameter = self.field_declared_by(seen, "System.ArgumentException", "_paramName");
        match parameter.and_then(|name| name.text(most)).filter(|name| !name.is_empty()) {
            Some(name) => format!("{said} (Parameter '{name}')"),
            None => said,
        }
    }

    fn aggregate_message(&self, seen: &Seen, most: u32, depth: u32) -> Option<String> {
        let mut text = self.base_message(seen, most);
        for inner in self.inner_exceptions(seen, usize::MAX)? {
            if text.len() > most as usize {
                break;
            }
            let depth = depth.checked_sub(1)?;
            let said = match self.message_within(&inner, most, depth) {
                ExceptionMessage::Said(text) => text.unwrap_or_default(),
                ExceptionMessage::Computed { .. } => return None,
            };
            text = format!("{text} ({said})");
        }
        Some(text)
    }

    /// The exceptions that an `AggregateException` is made of, `most` of them.
    pub(crate) fn inner_exceptions(&self, seen: &Seen, most: usize) -> Option<Vec<Seen>> {
        let mut list = self.any_field(seen, &["_innerExceptions", "m_innerExceptions"])?;
        if let Some(inner) = self.field_seen(&list, "list") {
            list = inner;
        }
        let Content::Array(items) = &list.content else { return None };
        let count = items.count().ok()?.min(u32::try_from(most).unwrap_or(u32::MAX));
        (0..count).map(|at| self.see(&items.element_at(at).ok()?).ok()).collect()
    }

    /// What `ToString` returns, where that is known.
    fn printed_text(&self, seen: &Seen, most: u32) -> Option<String> {
        if seen.of.is_enum() {
            return Some(self.enum_text(seen)?.replace(" | ", ", "));
        }
        match (&seen.content, seen.of.full_name_ref()?) {
            (Content::String(_), _) => seen.text(most),
            (_, "System.Boolean") => Some(if seen.whole()? == 0 { "False" } else { "True" }.into()),
            (_, "System.Char") => char::from_u32(u32::try_from(seen.whole()?).ok()?).map(String::from),
            (Content::Primitive(..), _) => seen.whole().map(|number| number.to_string()),
            _ => None,
        }
    }

    /// A field of this name that a class itself declares.
    fn field_declared_by(&self, seen: &Seen, class: &str, name: &str) -> Option<Seen> {
        let Content::Object(object) = &seen.content else { return None };
        let bases = seen.of.with_bases(self.modules);
        let definition = bases.iter().find(|of| of.is_named(class))?.definition.as_ref()?;
        let field =
            definition.type_def()?.fields().find(|field| !field.is_static() && field.name() == Some(name))?;
        self.see(&object.field(&definition.class, field.token().0).ok()?).ok()
    }

    /// An exception among other values: what it says, and its parts under the names of its properties.
    pub(super) fn exception_view(&self, seen: &Seen) -> Option<View> {
        let mut text = seen.of.display();
        let message = self.exception_message(seen, LONGEST_MESSAGE);
        if let Some(message) = message.clone().text() {
            let cut: String = message.chars().take(TEXT_LIMIT).collect();
            text = format!("{text}: {cut}");
        }
        let is_given = message == ExceptionMessage::Said(self.given_message(seen, LONGEST_MESSAGE));
        // The field itself is as good, and shows all of a long text.
        let message = if is_given { ExceptionMessage::Said(None) } else { message };
        let parts = self.members(seen).into_iter().filter_map(|part| exception_part(part, &message));
        Some(View { text: Some(text), parts: Parts::Named(parts.collect()) })
    }
}

/// A field of an exception as the property that it is for; none for what the runtime keeps for itself.
fn exception_part(mut part: Part, message: &ExceptionMessage) -> Option<Part> {
    let name = match part.name.as_str() {
        "_message" => match message {
            ExceptionMessage::Computed { .. } => "_message",
            ExceptionMessage::Said(text) => {
                part.value = match text.clone() {
                    Some(text) => PartValue::Text(text),
                    None => part.value,
                };
                "Message"
            }
        },
        "_innerException" => "InnerException",
        "_innerExceptions" | "m_innerExceptions" => "InnerExceptions",
        "_HResult" => "HResult",
        "_paramName" => "ParamName",
        "_actualValue" => "ActualValue",
        "_objectName" => "ObjectName",
        name if name.starts_with('_') => return None,
        name => name,
    };
    part.name = name.to_owned();
    Some(part)
}

/// As `Type.ToString` writes it: `Ns.Outer+Inner`1[System.Int32]`.
fn reflected(of: &TypeInfo) -> String {
    let Some(name) = of.full_name() else {
        return match of.arguments.as_slice() {
            [item] if of.display().ends_with("[]") => format!("{}[]", reflected(item)),
            _ => of.display(),
        };
    };
    if of.arguments.is_empty() {
        return name;
    }
    let arguments: Vec<_> = of.arguments.iter().map(reflected).collect();
    format!("{name}[{}]", arguments.join(","))
}
