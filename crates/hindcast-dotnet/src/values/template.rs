//! `DebuggerDisplay`: what a type wants to be shown as, where that can be had without running code.

use hindcast_core::debug::{NumberFormat, ValueLimits, secret_names::MASKED};

use crate::{
    expression::{
        Constant, Expression, Format, Kind, Node, Operand, Primitive, Template, TemplatePart, Text, TypeKind,
        binary, unary,
    },
    image::{AttributeArguments, AttributeValue, Field, Method, Token},
};

use super::{
    answer::Answer,
    display::primitive_text,
    properties::{Returned, returned_by},
    seen::{Content, Seen, Values, property_of_backing_field},
    types::TypeInfo,
};

const ATTRIBUTE: &str = "System.Diagnostics.DebuggerDisplayAttribute";
/// The token of an assembly's own row.
const ASSEMBLY: Token = Token(0x2000_0001);
/// The most of a text that is shown.
const TEXT_LIMIT: u32 = 200;
/// How long a text may get.
const LONGEST: usize = 1000;
/// How deep displays of values in displays go.
const DEEPEST: u32 = 64;

/// What a part of an expression came to.
enum Got {
    Constant(Constant),
    Value(Seen),
}

impl Values<'_> {
    /// The text of a `DebuggerDisplay`, where it can be had without running code.
    pub(super) fn debugger_display(&self, seen: &Seen) -> Option<String> {
        let bases = seen.of.with_bases(self.modules);
        let (of, template) =
            bases.into_iter().find_map(|of| Some((of.clone(), self.display_template(&of)?)))?;
        // Its names are those that the type sees which asks for it.
        let seen = &Seen { as_type: Some(of), ..seen.clone() };
        let template = Template::parse(&with_doubled_braces(&template)).ok()?;
        let mut text = String::new();
        for part in template.parts() {
            match part {
                TemplatePart::Text(plain) => text.push_str(plain),
                TemplatePart::Value(_) if !Answer::has_room() => text.push('…'),
                TemplatePart::Value(expression) => text.push_str(&self.display_part(seen, expression)?),
            }
            // What it shows may show values in the same way, and each of those more.
            if let Some((end, _)) = text.char_indices().nth(LONGEST) {
                text.truncate(end);
                text.push('…');
                break;
            }
        }
        Some(text)
    }

    /// The template on a type, or on its assembly for the type.
    fn display_template(&self, of: &TypeInfo) -> Option<String> {
        let definition = of.definition.as_ref()?;
        let assembly = definition.module.assembly()?;
        let template = |arguments: &AttributeArguments| match arguments.fixed.first()? {
            AttributeValue::String(template) => Some(template.clone()),
            _ => None,
        };
        if let Some(attribute) = assembly.attribute(definition.token, ATTRIBUTE) {
            return template(&attribute.arguments().ok()?);
        }
        // The framework has none for its own types that we would not know.
        if !definition.module.is_mine() {
            return None;
        }
        let name = of.full_name_ref()?;
        let mut attributes =
            assembly.attributes(ASSEMBLY).filter(|it| it.type_name().as_deref() == Some(ATTRIBUTE));
        attributes.find_map(|attribute| {
            let arguments = attribute.arguments().ok()?;
            let target = match (arguments.named("Target"), arguments.named("TargetTypeName")) {
                (Some(AttributeValue::Type(target) | AttributeValue::String(target)), _)
                | (None, Some(AttributeValue::String(target))) => target,
                _ => return None,
            };
            (target.split(',').next()? == name).then(|| template(&arguments))?
        })
    }

    fn display_part(&self, seen: &Seen, expression: &Expression) -> Option<String> {
        Answer::count_look();
        let got = self.compute(seen, expression.root(), None, DEEPEST)?;
        let without_quotes = expression.format().contains(&Format::NoQuotes);
        let format = if expression.format().contains(&Format::Hexadecimal) {
            NumberFormat::Hex
        } else {
            NumberFormat::Auto
        };
        let is_number = match &got {
            Got::Constant(constant) => !matches!(constant, Constant::String(_)),
            Got::Value(seen) => seen.is_null() || matches!(seen.content, Content::Primitive(..)),
        };
        // The text does not tell any more where a value in it is from, by which others know secrets.
        if !is_number && expression.names_secret() {
            return Some(MASKED.into());
        }
        Some(match got {
            Got::Constant(Constant::String(text)) if without_quotes => text.to_string(),
            Got::Constant(constant) => self.constant_text(&constant, format),
            Got::Value(seen) => match seen.text(TEXT_LIMIT) {
                Some(plain) if without_quotes => plain,
                _ => match &seen.content {
                    Content::Primitive(primitive, bytes) => primitive_text(*primitive, bytes, format),
                    _ => self.brief(&seen, ValueLimits::default()),
                },
            },
        })
    }

    /// A computed value as values of the program are shown.
    pub(crate) fn constant_text(&self, constant: &Constant, format: NumberFormat) -> String {
        let primitive =
            constant.primitive().filter(|of| !matches!(of, Primitive::String | Primitive::Decimal));
        let primitive = primitive.and_then(|of| crate::image::Primitive::from_full_name(&of.class()));
        match (primitive, constant.to_bytes()) {
            (Some(primitive), Some(bytes)) => primitive_text(primitive, &bytes, format),
            _ => constant.display(),
        }
    }

    /// What can be computed with: numbers, truths, texts and null.
    pub(crate) fn constant(&self, seen: &Seen) -> Option<Constant> {
        match &seen.content {
            Content::Null => Some(Constant::Null),
            Content::Primitive(_, bytes) => {
                let primitive = seen.of.primitive().and_then(|of| Primitive::of_class(of.full_name()))?;
                Constant::from_bytes(bytes, primitive)
            }
            Content::String(text) => {
                let (units, length) = text.units(TEXT_LIMIT).ok()?;
                (length <= TEXT_LIMIT).then_some(Constant::String(Text(units)))
            }
            Content::Object(_) if seen.of.is_named("System.Nullable`1") => {
                match self.integer_field(seen, &["hasValue"])? {
                    0 => Some(Constant::Null),
                    _ => self.constant(&self.field_seen(seen, "value")?),
                }
            }
            Content::Object(_) if seen.of.is_named("System.Decimal") => {
                Constant::from_bytes(&seen.bytes()?, Primitive::Decimal)
            }
            _ => None,
        }
    }

    /// Computes what needs no code; none for the rest.
    fn compute(&self, this: &Seen, node: &Node, receiver: Option<&Seen>, depth: u32) -> Option<Got> {
        let depth = depth.checked_sub(1)?;
        let value = |node: &Node| self.compute(this, node, receiver, depth);
        let constant = |node: &Node| self.got_constant(&self.compute(this, node, receiver, depth)?);
        let truth = |node: &Node| match constant(node)? {
            Constant::Bool(truth) => Some(truth),
            _ => None,
        };
        let bool_of = |truth| Some(Got::Constant(Constant::Bool(truth)));
        match &node.kind {
            Kind::Constant(constant) => Some(Got::Constant(constant.clone())),
            Kind::This => Some(Got::Value(this.clone())),
            Kind::Receiver => receiver.cloned().map(Got::Value),
            Kind::Name { name, type_arguments, .. } if type_arguments.is_empty() => {
                self.readable_member(this, &name.text)
            }
            Kind::Member { of, name, type_arguments } if type_arguments.is_empty() => match value(of)? {
                Got::Value(of) => self.readable_member(&of, &name.text),
                Got::Constant(_) => None,
            },
            Kind::WhenNotNull { receiver, then } => match value(receiver)? {
                Got::Value(seen) if seen.is_null() => Some(Got::Constant(Constant::Null)),
                Got::Value(seen) => self.compute(this, then, Some(&seen), depth),
                Got::Constant(_) => None,
            },
            Kind::Unary(operator, operand) => {
                Some(Got::Constant(unary(*operator, &constant(operand)?).ok()?))
            }
            Kind::Binary(operator, left, right) => {
                let (left, right) = (constant(left)?, constant(right)?);
                let computed = binary(*operator, Operand::variable(&left), Operand::variable(&right));
                computed.ok().map(Got::Constant)
            }
            Kind::And(left, right) => bool_of(truth(left)? && truth(right)?),
            Kind::Or(left, right) => bool_of(truth(left)? || truth(right)?),
            Kind::Conditional(condition, yes, no) => value(if truth(condition)? { yes } else { no }),
            Kind::Coalesce(left, right) => match value(left)? {
                Got::Value(seen) if self.constant(&seen) == Some(Constant::Null) => value(right),
                Got::Constant(Constant::Null) => value(right),
                got => Some(got),
            },
            Kind::Cast(to, operand) => match &to.kind {
                TypeKind::Primitive(primitive) => {
                    Some(Got::Constant(constant(operand)?.cast(*primitive).ok()?))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn got_constant(&self, got: &Got) -> Option<Constant> {
        match got {
            Got::Constant(constant) => Some(constant.clone()),
            Got::Value(seen) => self.constant(seen),
        }
    }

    /// A field, or a property whose getter does nothing but return one, or a constant.
    fn readable_member(&self, seen: &Seen, name: &str) -> Option<Got> {
        let count = |count: u32| Some(Got::Constant(Constant::Int(i32::try_from(count).ok()?)));
        match (&seen.content, name) {
            (Content::String(text), "Length") => return count(text.length().ok()?),
            (Content::Array(array), "Length") => return count(array.count().ok()?),
            _ => {}
        }
        // What it is declared as, and so which of several members is meant, is not known here.
        if seen.as_type.is_none() && self.is_ambiguous(seen, name) {
            return None;
        }
        for of in self.member_types(seen) {
            let Some(type_def) = of.definition.as_ref().and_then(|definition| definition.type_def()) else {
                continue;
            };
            if let Some(field) =
                type_def.fields().find(|field| !field.is_static() && field.name() == Some(name))
            {
                return self.seen_field(seen, &of, field.name()?);
            }
            if let Some(getter) = type_def.property_named(name).and_then(|property| property.getter()) {
                return self.returned_by_getter(seen, &of, getter).or_else(|| match name {
                    "Count" => count(u32::try_from(self.item_count(seen)?).ok()?),
                    _ => None,
                });
            }
            // What stands for a name of the source without being a property: of tuples, anonymous types, constructors.
            let is_made =
                |field: &Field<'_>| property_of_backing_field(field.name().unwrap_or_default()) == Some(name);
            if let Some(field) = type_def.fields().find(|field| !field.is_static() && is_made(field)) {
                return self.seen_field(seen, &of, field.name()?);
            }
        }
        None
    }

    fn seen_field(&self, seen: &Seen, of: &TypeInfo, name: &str) -> Option<Got> {
        let (_, _, value) = self.field_of(seen, of, name)?;
        self.see(&value).ok().map(Got::Value)
    }

    /// What the getter returns that the object has in place of one of its types, where it does nothing else.
    fn returned_by_getter(&self, seen: &Seen, of: &TypeInfo, getter: Method<'_>) -> Option<Got> {
        if getter.is_static() {
            return None;
        }
        let (of, token) = self.overrider(seen, of, getter).unwrap_or_else(|| (of.clone(), getter.token()));
        match returned_by(of.definition.as_ref()?.module.assembly()?.method(token)?)? {
            Returned::Field(field) => self.seen_field(seen, &of, &field),
            Returned::Constant(constant) => Some(Got::Constant(constant)),
        }
    }
}

/// A `DebuggerDisplay` has a backslash before a brace that means itself; a [`Template`] has two braces.
fn with_doubled_braces(template: &str) -> String {
    let mut text = String::with_capacity(template.len());
    let mut letters = template.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(&brace @ ('{' | '}'))) => {
                text.extend([brace, brace]);
                letters.next();
            }
            ('\\', Some('\\')) => {
                text.push('\\');
                letters.next();
            }
            _ => text.push(letter),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_keeps_a_brace_as_it_is() {
        assert_eq!(with_doubled_braces(r"\{value\} {Value} a\\b"), r"{{value}} {Value} a\b");
        assert_eq!(with_doubled_braces(r"C:\new {x}"), r"C:\new {x}");
    }
}
