//! The tree of an expression as a text with a pair of parentheses around every operation.

use crate::expression::{Argument, Assignment, InterpolatedPart, Kind, Node, Pattern, TypeName};

pub(super) fn show(node: &Node) -> String {
    match &node.kind {
        Kind::Constant(constant) => format!("{}:{}", constant.display(), constant.type_name()),
        Kind::Interpolated(parts) => {
            let parts = parts.iter().map(|part| match part {
                InterpolatedPart::Text(text) => text.quoted(),
                InterpolatedPart::Value { value, alignment, format } => {
                    let alignment = alignment.map_or_else(String::new, |alignment| format!(",{alignment}"));
                    let format = format.as_ref().map_or_else(String::new, |format| format!(":{format}"));
                    format!("{{{}{alignment}{format}}}", show(value))
                }
            });
            format!("$[{}]", parts.collect::<Vec<_>>().join(" "))
        }
        Kind::Name { name, type_arguments, is_global } => {
            let global = if *is_global { "global::" } else { "" };
            format!("{global}{}{}", name.text, types(type_arguments))
        }
        Kind::Pseudo(name) => format!("${name}"),
        Kind::This => "this".to_owned(),
        Kind::Base => "base".to_owned(),
        Kind::Type(of) => format!("type:{of}"),
        Kind::Member { of, name, type_arguments } => {
            format!("{}.{}{}", show(of), name.text, types(type_arguments))
        }
        Kind::Index { of, arguments } => format!("{}[{}]", show(of), list(arguments)),
        Kind::Call { function, arguments } => format!("{}({})", show(function), list(arguments)),
        Kind::New { of, arguments } => format!("new {of}({})", list(arguments)),
        Kind::WhenNotNull { receiver, then } => format!("({} ?{{ {} }})", show(receiver), show(then)),
        Kind::Receiver => "it".to_owned(),
        Kind::Unary(operator, operand) => format!("({}{})", operator.symbol(), show(operand)),
        Kind::FromEnd(operand) => format!("(^{})", show(operand)),
        Kind::Binary(operator, left, right) => {
            format!("({} {} {})", show(left), operator.symbol(), show(right))
        }
        Kind::And(left, right) => format!("({} && {})", show(left), show(right)),
        Kind::Or(left, right) => format!("({} || {})", show(left), show(right)),
        Kind::Coalesce(left, right) => format!("({} ?? {})", show(left), show(right)),
        Kind::Conditional(condition, yes, no) => {
            format!("({} ? {} : {})", show(condition), show(yes), show(no))
        }
        Kind::Cast(of, operand) => format!("(cast {of} {})", show(operand)),
        Kind::As(value, of) => format!("({} as {of})", show(value)),
        Kind::Is { value, negated, pattern } => {
            let pattern = match pattern {
                Pattern::Null => "null".to_owned(),
                Pattern::Type(of) => of.to_string(),
                Pattern::Constant(constant) => show(constant),
            };
            format!("({} is {}{pattern})", show(value), if *negated { "not " } else { "" })
        }
        Kind::TypeOf(of) => format!("typeof({of})"),
        Kind::SizeOf(of) => format!("sizeof({of})"),
        Kind::Default(of) => {
            format!("default({})", of.as_ref().map_or_else(String::new, TypeName::to_string))
        }
        Kind::NameOf(_, name) => format!("nameof:{name}"),
        Kind::Tuple(elements) => format!("tuple({})", list(elements)),
        Kind::Assign { operator, target, value } => {
            let operator = match operator {
                Assignment::Plain => "",
                Assignment::With(operator) => operator.symbol(),
                Assignment::IfNull => "??",
            };
            format!("({} {operator}= {})", show(target), show(value))
        }
    }
}

fn types(arguments: &[TypeName]) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let arguments: Vec<_> = arguments.iter().map(TypeName::to_string).collect();
    format!("<{}>", arguments.join(", "))
}

fn list(arguments: &[Argument]) -> String {
    let shown = arguments.iter().map(|argument| {
        let name = argument.name.as_ref().map_or_else(String::new, |name| format!("{}: ", name.text));
        format!("{name}{}", show(&argument.value))
    });
    shown.collect::<Vec<_>>().join(", ")
}
