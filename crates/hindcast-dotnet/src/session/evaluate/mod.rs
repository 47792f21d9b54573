//! Evaluating C# expressions in a frame.
//!
//! Nothing of the program's code is run unless the caller allows it: members are read from fields, and properties only
//! where they do nothing but return one.

mod assign;
mod binding;
mod branches;
mod calls;
mod conversions;
mod error;
mod extensions;
mod interfaces;
mod making;
mod members;
mod nullables;
mod operators;
mod overloads;
mod running;
mod setters;
mod texts;
mod types;
mod user_operators;

use std::time::{Duration, Instant};

use hindcast_core::debug::{DebugError, Evaluation, FrameRef, NumberFormat, ValueLimits, Variable};

use super::{
    Session,
    look::{ConstantType, Named, NamedValue},
    stack::ManagedFrame,
};
use crate::{
    cor::Hresult,
    expression::{Constant, Expression, Format, InterpolatedPart, Kind, Node, Template, TemplatePart, Text},
    values::{Content, Seen, TypeInfo},
};

use conversions::nullable_of;
pub(super) use error::EvaluationError;

/// What a part of an expression came to.
#[derive(Debug, Clone)]
pub(super) enum Evaluated {
    /// A value that was computed. `is_literal` where only literals went into it, `declared` where the source gives it
    /// another type than its own: an `int?`, an `object`.
    Constant { value: Constant, is_literal: bool, declared: Option<TypeInfo> },
    /// A value of an enum that is nowhere in the program. `declared` where the source gives it another type: an `E?`.
    Enum { of: TypeInfo, value: Constant, declared: Option<TypeInfo> },
    /// A value of the program.
    Value(Seen),
    /// A type, of which statics can be asked.
    Type(TypeInfo),
    /// The beginning of a type's name.
    Namespace(String),
    /// What a method without a result returns.
    Nothing,
}

impl Evaluated {
    fn computed(value: Constant) -> Self {
        Self::Constant { value, is_literal: false, declared: None }
    }

    /// The null of a type.
    fn null_as(of: TypeInfo) -> Self {
        Self::Constant { value: Constant::Null, is_literal: false, declared: Some(of) }
    }

    /// Whether it is a null of which the type is not known; the literal has none.
    fn is_untyped_null(&self) -> bool {
        matches!(self, Self::Constant { value: Constant::Null, is_literal: false, declared: None })
    }

    fn is_null(&self) -> bool {
        match self {
            Self::Constant { value, .. } => *value == Constant::Null,
            Self::Value(seen) => seen.is_null(),
            Self::Enum { .. } | Self::Type(_) | Self::Namespace(_) | Self::Nothing => false,
        }
    }
}

type Result<T, E = EvaluationError> = std::result::Result<T, E>;

/// Evaluates one expression.
struct Evaluator<'s> {
    session: &'s mut Session,
    at: FrameRef,
    frame: ManagedFrame,
    /// Until when code of the program may run; not at all where absent.
    calls_until: Option<Instant>,
    may_write: bool,
    /// Whether a static that may not be initialised yet is zero. Nobody answers a condition that asks at every hit.
    takes_zeros: bool,
    /// The values before the `?.`s around.
    receivers: Vec<Evaluated>,
    /// How often code of the program ran.
    runs: u32,
    /// Whether it ran to find what is assigned to.
    target_runs_code: bool,
}

/// The widest that a part of an interpolated text is made.
const MOST_BLANKS: usize = 1000;
/// The most of a string that takes part in a computation.
const LONGEST_STRING: usize = 1 << 20;

impl Session {
    pub(super) fn evaluated(&mut self, evaluation: &Evaluation) -> std::result::Result<Variable, DebugError> {
        self.alive()?;
        let expression = Expression::parse(&evaluation.expression)
            .map_err(|error| DebugError::Expression(error.into()))?;
        // One that an earlier evaluation has started.
        self.let_threads_begin()?;
        let mut evaluator = self.evaluator(evaluation.frame, evaluation.allow_calls, evaluation.may_write)?;
        let evaluated = evaluator.node(expression.root()).map_err(EvaluationError::told)?;
        let format = number_format(expression.format(), evaluation.format);
        Ok(self.shown_as(&evaluation.expression, &evaluated, expression.format(), evaluation.limits, format))
    }

    fn evaluator(
        &mut self,
        at: FrameRef,
        allow_calls: Option<Duration>,
        may_write: bool,
    ) -> std::result::Result<Evaluator<'_>, DebugError> {
        let frame = self.frame_at(at)?;
        let calls_until = allow_calls.map(|limit| Instant::now() + limit);
        Ok(Evaluator {
            session: self,
            at,
            frame,
            calls_until,
            may_write,
            takes_zeros: false,
            receivers: Vec::new(),
            runs: 0,
            target_runs_code: false,
        })
    }

    /// Whether a condition holds in a frame.
    pub(super) fn is_true(
        &mut self,
        condition: &Expression,
        at: FrameRef,
    ) -> std::result::Result<bool, DebugError> {
        let mut evaluator = self.evaluator(at, None, false)?;
        evaluator.takes_zeros = true;
        let evaluated = evaluator.node(condition.root()).map_err(EvaluationError::told)?;
        match evaluator.constant(&evaluated).map_err(EvaluationError::told)? {
            Constant::Bool(truth) => Ok(truth),
            other => Err(EvaluationError::NotABool { found: other.type_name().to_owned() }.told()),
        }
    }

    /// A message with its expressions filled in.
    pub(super) fn filled(&mut self, template: &Template, at: FrameRef) -> String {
        let mut text = String::new();
        for part in template.parts() {
            match part {
                TemplatePart::Text(plain) => text.push_str(plain),
                TemplatePart::Value(expression) => text.push_str(&self.filled_part(expression, at)),
            }
        }
        text
    }

    fn filled_part(&mut self, expression: &Expression, at: FrameRef) -> String {
        let evaluated = match self.evaluator(at, None, false) {
            Ok(mut evaluator) => evaluator.node(expression.root()).map_err(EvaluationError::told),
            Err(error) => Err(error),
        };
        match evaluated {
            Ok(evaluated) => {
                let format = number_format(expression.format(), NumberFormat::Auto);
                self.shown_as("", &evaluated, expression.format(), ValueLimits::default(), format).value
            }
            Err(error) => format!("<{error}>"),
        }
    }

    fn shown_as(
        &self,
        name: &str,
        evaluated: &Evaluated,
        formats: &[Format],
        limits: ValueLimits,
        format: NumberFormat,
    ) -> Variable {
        let plain = |type_name: String, value: String| Variable {
            name: name.to_owned(),
            type_name,
            value,
            ..Variable::default()
        };
        let without_quotes = formats.contains(&Format::NoQuotes);
        match evaluated {
            Evaluated::Constant { value: Constant::String(text), .. } if without_quotes => {
                plain("string".into(), text.to_string())
            }
            Evaluated::Constant { value, declared, .. } => {
                let of = declared.as_ref().map_or_else(|| value.type_name().to_owned(), TypeInfo::display);
                plain(of, self.values().constant_text(value, format))
            }
            Evaluated::Nothing => plain("void".into(), "returned nothing".into()),
            Evaluated::Enum { of, value, declared } => {
                let name = declared.as_ref().unwrap_or(of).display();
                let of = ConstantType { name, of_enum: Some(of.clone()) };
                plain(of.name.clone(), self.constant_text(&of, value, format))
            }
            Evaluated::Value(seen) => {
                if without_quotes && let Some(text) = seen.text(limits.text) {
                    return plain("string".into(), text);
                }
                let shown = self.shown(name, seen, limits, format);
                // A struct that the source takes for one that may be null.
                match seen.as_type.as_ref().filter(|of| nullable_of(of).is_some()) {
                    Some(of) => Variable { type_name: of.display(), ..shown },
                    None => shown,
                }
            }
            Evaluated::Type(of) => plain("System.Type".into(), of.display()),
            Evaluated::Namespace(namespace) => plain("namespace".into(), namespace.clone()),
        }
    }
}

fn number_format(formats: &[Format], asked: NumberFormat) -> NumberFormat {
    let written = formats.iter().find_map(|format| match format {
        Format::Decimal => Some(NumberFormat::Decimal),
        Format::Hexadecimal => Some(NumberFormat::Hex),
        Format::Binary => Some(NumberFormat::Binary),
        Format::Octal => Some(NumberFormat::Octal),
        Format::NoQuotes | Format::Raw => None,
    });
    written.unwrap_or(asked)
}

impl Evaluator<'_> {
    fn node(&mut self, node: &Node) -> Result<Evaluated> {
        match &node.kind {
            Kind::Constant(value) => {
                Ok(Evaluated::Constant { value: value.clone(), is_literal: true, declared: None })
            }
            Kind::Interpolated(parts) => self.interpolated(parts),
            Kind::Name { name, type_arguments, .. } => self.name(&name.text, type_arguments),
            Kind::Pseudo(name) => self.pseudo(name),
            Kind::This => self.this(),
            Kind::Base => self.base(),
            Kind::Type(of) | Kind::TypeOf(of) => self.type_named(of).map(Evaluated::Type),
            Kind::Member { of, name, type_arguments } => {
                let of = self.receiver(of)?;
                self.member(of, &name.text, type_arguments)
            }
            Kind::Index { of, arguments } => {
                let of = self.node(of)?;
                self.index(&of, arguments)
            }
            Kind::Call { function, arguments } => self.call(function, arguments),
            Kind::New { of, arguments } => self.construct(of, arguments),
            Kind::WhenNotNull { receiver, then } => self.when_not_null(receiver, then),
            Kind::Receiver => self
                .receivers
                .last()
                .cloned()
                .ok_or(EvaluationError::NotSupported { what: "a `?.` without a value" }),
            Kind::Unary(operator, operand) => self.unary(*operator, operand),
            Kind::FromEnd(_) => Err(EvaluationError::NotSupported { what: "`^` outside of an index" }),
            Kind::Binary(operator, left, right) => self.binary(*operator, left, right),
            Kind::And(left, right) => self.short_circuit(left, right, false),
            Kind::Or(left, right) => self.short_circuit(left, right, true),
            Kind::Coalesce(left, right) => self.coalesced(left, right),
            Kind::Conditional(condition, yes, no) => self.conditional(condition, yes, no),
            Kind::Cast(to, operand) => self.cast(to, operand),
            Kind::As(operand, to) => self.as_type(operand, to),
            Kind::Is { value, negated, pattern } => {
                let holds = self.matches(value, pattern)?;
                Ok(Evaluated::computed(Constant::Bool(holds != *negated)))
            }
            Kind::SizeOf(of) => self.size_of(of),
            Kind::Default(of) => self.default_of(of.as_ref()),
            Kind::NameOf(_, name) => Ok(Evaluated::computed(Constant::String(Text::from(name.as_str())))),
            Kind::Tuple(_) => Err(EvaluationError::NotSupported { what: "making a tuple" }),
            Kind::Assign { operator, target, value } => self.assign(*operator, target, value),
        }
    }

    fn truth(&mut self, node: &Node) -> Result<bool> {
        let evaluated = self.node(node)?;
        match self.constant(&evaluated)? {
            Constant::Bool(truth) => Ok(truth),
            other => Err(EvaluationError::NotABool { found: other.type_name().to_owned() }),
        }
    }

    fn short_circuit(&mut self, left: &Node, right: &Node, decides: bool) -> Result<Evaluated> {
        let truth = match self.truth(left)? {
            truth if truth == decides => truth,
            _ => self.truth(right)?,
        };
        Ok(Evaluated::computed(Constant::Bool(truth)))
    }

    fn interpolated(&mut self, parts: &[InterpolatedPart]) -> Result<Evaluated> {
        let mut text = String::new();
        for part in parts {
            match part {
                InterpolatedPart::Text(plain) => text.push_str(&plain.to_string()),
                InterpolatedPart::Value { value, alignment, format } => {
                    let evaluated = self.node(value)?;
                    let part = self.interpolated_value(evaluated, format.as_deref())?;
                    let width = alignment.map_or(0, |width| width.unsigned_abs() as usize).min(MOST_BLANKS);
                    text.push_str(&match alignment {
                        Some(..0) => format!("{part:<width$}"),
                        _ => format!("{part:>width$}"),
                    });
                }
            }
            if text.len() > LONGEST_STRING {
                short_enough(text.encode_utf16().count())?;
            }
        }
        Ok(Evaluated::computed(Constant::String(Text::from(text.as_str()))))
    }

    fn this(&mut self) -> Result<Evaluated> {
        self.local("this")?.ok_or(EvaluationError::NoThis)
    }

    /// `this` as what its type in the source derives from.
    fn base(&mut self) -> Result<Evaluated> {
        let Evaluated::Value(seen) = self.this()? else { return Err(EvaluationError::NoThis) };
        let of = seen.as_type.as_ref().and_then(|of| of.base(&self.session.modules));
        let of = of.ok_or(EvaluationError::NotSupported { what: "`base` here" })?;
        Ok(Evaluated::Value(Seen { as_type: Some(of), is_base: true, ..seen }))
    }

    fn pseudo(&mut self, name: &str) -> Result<Evaluated> {
        if name != "exception" {
            return Err(EvaluationError::UnknownName { name: format!("${name}") });
        }
        let thread = self.session.thread(self.at.thread).map_err(EvaluationError::Session)?;
        let exception = self.session.current_exception(&thread);
        exception.map(Evaluated::Value).ok_or(EvaluationError::NoException)
    }

    /// A local variable or an argument.
    fn local(&mut self, name: &str) -> Result<Option<Evaluated>> {
        let found = self.session.named(&self.frame).into_iter().find(|variable| variable.name == name);
        found.map(|variable| self.of_named(&variable)).transpose()
    }

    fn of_named(&self, variable: &Named) -> Result<Evaluated> {
        match &variable.value {
            NamedValue::Place(value) => {
                let value = value.as_ref().map_err(|error| EvaluationError::Unreadable {
                    name: variable.name.clone(),
                    why: why_not(*error),
                })?;
                if variable.may_be_unready && !self.takes_zeros {
                    let name = variable.name.clone();
                    let why =
                        "it is zero, as all statics of its type: perhaps that is not initialised yet".into();
                    return Err(EvaluationError::Unreadable { name, why });
                }
                let seen = variable.with_item_names(self.session.values().see(value)?);
                Ok(Evaluated::Value(Seen { as_type: self.declared_type(variable, &seen), ..seen }))
            }
            NamedValue::Constant { of, value } => match (&of.of_enum, value) {
                (_, None) => Err(EvaluationError::Unreadable {
                    name: variable.name.clone(),
                    why: "the symbol file has no value for it".into(),
                }),
                (Some(of), Some(value)) => {
                    Ok(Evaluated::Enum { of: of.clone(), value: value.clone(), declared: None })
                }
                (None, Some(value)) => Ok(Evaluated::computed(value.clone())),
            },
        }
    }

    /// What can be computed with: numbers, truths, texts and null.
    fn constant(&self, evaluated: &Evaluated) -> Result<Constant> {
        match evaluated {
            Evaluated::Constant { value, .. } | Evaluated::Enum { value, .. } => Ok(value.clone()),
            Evaluated::Value(seen) => self.constant_of(seen),
            Evaluated::Type(of) => Err(EvaluationError::IsAType { name: of.display() }),
            Evaluated::Namespace(name) => Err(EvaluationError::UnknownName { name: name.clone() }),
            Evaluated::Nothing => Err(EvaluationError::NoValue),
        }
    }

    fn constant_of(&self, seen: &Seen) -> Result<Constant> {
        let values = self.session.values();
        let no_number = || EvaluationError::NoNumber { of: seen.of.display() };
        match &seen.content {
            Content::String(text) => {
                let length = text.length()?;
                short_enough(length as usize)?;
                Ok(Constant::String(Text(text.units(length)?.0)))
            }
            Content::Object(_) if seen.of.is_enum() => values
                .field_seen(seen, "value__")
                .and_then(|inner| values.constant(&inner))
                .ok_or_else(no_number),
            Content::Object(_) if seen.of.is_named("System.Nullable`1") => {
                match values.integer_field(seen, &["hasValue"]) {
                    Some(0) => Ok(Constant::Null),
                    _ => self.constant_of(&values.field_seen(seen, "value").ok_or_else(no_number)?),
                }
            }
            _ => values.constant(seen).ok_or_else(no_number),
        }
    }

    /// Whether it is there: not null, and not a nullable without a value.
    fn has_value(&self, evaluated: &Evaluated) -> bool {
        match evaluated {
            Evaluated::Value(seen) if seen.of.is_named("System.Nullable`1") => {
                self.session.values().integer_field(seen, &["hasValue"]) != Some(0)
            }
            other => !other.is_null(),
        }
    }
}

/// Refuses texts that would take much memory.
fn short_enough(length: usize) -> Result<()> {
    match length > LONGEST_STRING {
        true => Err(EvaluationError::TooLong { length, most: LONGEST_STRING }),
        false => Ok(()),
    }
}

/// What a failed look at a variable means for people.
fn why_not(error: crate::cor::CorError) -> String {
    match error.code {
        Hresult::STATIC_NOT_AVAILABLE | Hresult::CLASS_NOT_LOADED => {
            "its type is not initialised yet: nothing has used its fields so far".into()
        }
        code => code.to_string(),
    }
}
