//! Tokens to syntax: values, members and calls.

use super::{
    constant::{Constant, Primitive},
    error::{Expected, Mistake, ParseError, Unsupported},
    parser::{Parsed, Parser},
    syntax::{Argument, InterpolatedPart, Kind, Node, Span, TypeKind, TypeName},
    token::{RawPart, TokenKind},
};

impl Parser<'_> {
    /// A value with the members, calls and indexes behind it.
    pub(super) fn postfix(&mut self) -> Parsed {
        let value = self.primary()?;
        self.chain(value)
    }

    fn chain(&mut self, mut value: Node) -> Parsed {
        loop {
            let start = value.span;
            let TokenKind::Symbol(symbol) = *self.peek() else {
                if self.is_keyword("switch") {
                    return Err(self.unsupported(self.span(), Unsupported::Switch));
                }
                return Ok(value);
            };
            value = match symbol {
                "." => {
                    self.advance();
                    self.member(value, start)?
                }
                "(" => {
                    self.advance();
                    let arguments = self.deeper(|parser| parser.arguments(")", false))?;
                    self.node(Kind::Call { function: value.into(), arguments }, self.since(start))?
                }
                "[" => {
                    self.advance();
                    self.index(value, start)?
                }
                "?." | "?[" => return self.when_not_null(value, symbol),
                // `x!` only tells the compiler something.
                "!" => {
                    self.advance();
                    Node { span: self.since(start), ..value }
                }
                "++" | "--" => return Err(self.unsupported(self.span(), Unsupported::Increment)),
                "->" => return Err(self.unsupported(self.span(), Unsupported::Pointer)),
                _ => return Ok(value),
            };
        }
    }

    fn when_not_null(&mut self, receiver: Node, symbol: &str) -> Parsed {
        let start = receiver.span;
        let here = self.node(Kind::Receiver, start)?;
        self.advance();
        let then = self.deeper(|parser| {
            let first =
                if symbol == "?." { parser.member(here, start)? } else { parser.index(here, start)? };
            parser.chain(first)
        })?;
        self.node(Kind::WhenNotNull { receiver: receiver.into(), then: then.into() }, self.since(start))
    }

    fn member(&mut self, of: Node, start: Span) -> Parsed {
        let name = self.identifier()?;
        let type_arguments = self.method_type_arguments();
        self.node(Kind::Member { of: of.into(), name, type_arguments }, self.since(start))
    }

    fn index(&mut self, of: Node, start: Span) -> Parsed {
        if self.is("]") {
            return Err(self.expected(Expected::Value));
        }
        let arguments = self.deeper(|parser| parser.arguments("]", true))?;
        self.node(Kind::Index { of: of.into(), arguments }, self.since(start))
    }

    /// Type arguments behind a name, where C# takes `<` as their beginning and not as a comparison: if one of
    /// them can be nothing but a type, and otherwise if what stands behind them is no value.
    fn method_type_arguments(&mut self) -> Vec<TypeName> {
        let before = self.at;
        if self.is("<")
            && let Ok(arguments) = self.type_arguments()
            && let Some(arguments) = arguments.into_iter().collect::<Option<Vec<_>>>()
        {
            let is_certain = arguments
                .iter()
                .any(|argument| !matches!(argument.kind, TypeKind::Named { .. } | TypeKind::Tuple(_)));
            if is_certain || self.follows_type_arguments() {
                return arguments;
            }
        }
        self.at = before;
        Vec::new()
    }

    fn follows_type_arguments(&self) -> bool {
        match self.peek() {
            TokenKind::End | TokenKind::Keyword("is" | "as") => true,
            TokenKind::Symbol(symbol) => matches!(
                *symbol,
                "(" | ")"
                    | "]"
                    | "}"
                    | ":"
                    | ";"
                    | ","
                    | "."
                    | "?"
                    | "?."
                    | "?["
                    | "=="
                    | "!="
                    | "|"
                    | "^"
                    | "&&"
                    | "||"
                    | "&"
                    | "["
                    | "<"
                    | "<="
                    | ">="
            ),
            _ => false,
        }
    }

    /// Values up to the bracket, which is read.
    fn arguments(&mut self, close: &'static str, is_index: bool) -> Result<Vec<Argument>, ParseError> {
        let mut arguments = Vec::new();
        if self.accept(close) {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.argument(is_index)?);
            if !self.accept(",") {
                break;
            }
        }
        if self.accept(close) { Ok(arguments) } else { Err(self.expected(Expected::Either(",", close))) }
    }

    fn argument(&mut self, is_index: bool) -> Result<Argument, ParseError> {
        let is_named = matches!(self.peek(), TokenKind::Name(_)) && self.is_behind(1, ":");
        let name = if is_named { Some(self.identifier()?) } else { None };
        self.at += usize::from(is_named);
        let start = self.span();
        if matches!(self.peek(), TokenKind::Keyword("ref" | "out" | "in")) {
            return Err(self.unsupported(start, Unsupported::Reference));
        }
        let value = if is_index && self.accept("^") {
            let operand = self.unary()?;
            self.node(Kind::FromEnd(operand.into()), self.since(start))?
        } else {
            self.expression()?
        };
        Ok(Argument { name, value })
    }

    fn primary(&mut self) -> Parsed {
        let start = self.span();
        let kind = match self.peek().clone() {
            TokenKind::Constant(constant) => Kind::Constant(constant),
            TokenKind::Least { plain, .. } => Kind::Constant(plain),
            TokenKind::Pseudo(name) => Kind::Pseudo(name),
            TokenKind::Interpolated(parts) => {
                self.advance();
                return self.interpolated(parts, start);
            }
            TokenKind::Name(name) => return self.name(&name, start),
            TokenKind::Keyword(keyword) => return self.keyword(keyword, start),
            TokenKind::Symbol("(") => return self.group(),
            TokenKind::Symbol("[") => return Err(self.unsupported(start, Unsupported::Array)),
            TokenKind::Symbol("{") => return Err(self.unsupported(start, Unsupported::Statement)),
            _ => return Err(self.expected(Expected::Value)),
        };
        self.advance();
        self.node(kind, start)
    }

    /// `(x)` or `(x, y)`
    fn group(&mut self) -> Parsed {
        let start = self.span();
        self.advance();
        if self.is(")") {
            return Err(self.expected(Expected::Value));
        }
        let first = self.argument(false)?;
        if !self.is(",") {
            if first.name.is_some() || !self.is(")") {
                return Err(self.expected(Expected::Either(")", ",")));
            }
            self.advance();
            return Ok(Node { span: self.since(start), ..first.value });
        }
        let mut elements = vec![first];
        while self.accept(",") {
            elements.push(self.argument(false)?);
        }
        if !self.accept(")") {
            return Err(self.expected(Expected::Either(")", ",")));
        }
        if self.is("=>") {
            return Err(self.unsupported(self.span(), Unsupported::Lambda));
        }
        self.node(Kind::Tuple(elements), self.since(start))
    }

    fn interpolated(&mut self, raw: Vec<RawPart>, span: Span) -> Parsed {
        let mut parts = Vec::new();
        for part in raw {
            parts.push(match part {
                RawPart::Text(text) => InterpolatedPart::Text(text),
                RawPart::Value { span, alignment, format } => {
                    let mut inner = Parser::new(self.text, span, self.depth)?;
                    let value = inner.expression()?;
                    if *inner.peek() != TokenKind::End {
                        return Err(inner.expected(Expected::Operator));
                    }
                    InterpolatedPart::Value { value: value.into(), alignment, format }
                }
            });
        }
        self.node(Kind::Interpolated(parts), span)
    }

    fn name(&mut self, name: &str, start: Span) -> Parsed {
        if name == "nameof" && self.is_behind(1, "(") {
            return self.name_of();
        }
        let next_is_name = matches!(self.peek_behind(1), TokenKind::Name(_));
        if name == "await" && (next_is_name || *self.peek_behind(1) == TokenKind::Keyword("this")) {
            return Err(self.unsupported(start, Unsupported::Await));
        }
        if name == "from" && next_is_name && *self.peek_behind(2) == TokenKind::Keyword("in") {
            return Err(self.unsupported(start, Unsupported::Query));
        }
        let is_global = self.alias()?;
        let name = self.identifier()?;
        let type_arguments = self.method_type_arguments();
        self.node(Kind::Name { name, type_arguments, is_global }, self.since(start))
    }

    fn name_of(&mut self) -> Parsed {
        let start = self.span();
        self.at += 2;
        let value = self.expression()?;
        self.expect(")")?;
        let name = match &value.kind {
            Kind::Name { name, .. } | Kind::Member { name, .. } => name.text.clone(),
            _ => {
                let found = Some(value.span.of(self.text).to_owned());
                return Err(self.error(value.span, Mistake::Expected { expected: Expected::Name, found }));
            }
        };
        self.node(Kind::NameOf(value.into(), name), self.since(start))
    }

    fn keyword(&mut self, keyword: &'static str, start: Span) -> Parsed {
        let kind = match keyword {
            "this" => Kind::This,
            "base" => Kind::Base,
            "true" => Kind::Constant(Constant::Bool(true)),
            "false" => Kind::Constant(Constant::Bool(false)),
            "null" => Kind::Constant(Constant::Null),
            "new" => return self.new_object(start),
            "typeof" => Kind::TypeOf(self.type_in_parentheses()?),
            "sizeof" => Kind::SizeOf(self.type_in_parentheses()?),
            "default" if self.is_behind(1, "(") => Kind::Default(Some(self.type_in_parentheses()?)),
            "default" => Kind::Default(None),
            // Arithmetic is not checked anyway.
            "unchecked" => {
                self.advance();
                self.expect("(")?;
                let value = self.expression()?;
                self.expect(")")?;
                return Ok(Node { span: self.since(start), ..value });
            }
            "object" => return self.type_keyword(TypeKind::Object, start),
            _ => match Primitive::of_keyword(keyword) {
                Some(primitive) => return self.type_keyword(TypeKind::Primitive(primitive), start),
                None => return Err(self.refused_keyword(keyword, start)),
            },
        };
        if !matches!(kind, Kind::TypeOf(_) | Kind::SizeOf(_) | Kind::Default(Some(_))) {
            self.advance();
        }
        self.node(kind, self.since(start))
    }

    /// A keyword of a type has a value only through a member: `int.MaxValue`.
    fn type_keyword(&mut self, kind: TypeKind, start: Span) -> Parsed {
        self.advance();
        if matches!(self.peek(), TokenKind::Name(_)) {
            return Err(self.unsupported(start.to(self.span()), Unsupported::Declaration));
        }
        if !self.is(".") {
            return Err(self.expected(Expected::Symbol(".")));
        }
        self.node(Kind::Type(TypeName { kind, span: start }), start)
    }

    fn type_in_parentheses(&mut self) -> Result<TypeName, ParseError> {
        self.advance();
        self.expect("(")?;
        let of = self.type_name()?;
        self.expect(")")?;
        Ok(of)
    }

    fn new_object(&mut self, start: Span) -> Parsed {
        self.advance();
        match self.peek() {
            TokenKind::Symbol("[") => return Err(self.unsupported(start, Unsupported::Array)),
            TokenKind::Symbol("{") => return Err(self.unsupported(start, Unsupported::AnonymousType)),
            TokenKind::Symbol("(") => return Err(self.unsupported(start, Unsupported::TargetTyped)),
            _ => {}
        }
        let of = self.type_name()?;
        if matches!(of.kind, TypeKind::Array(..)) || self.is("[") {
            return Err(self.unsupported(start.to(of.span), Unsupported::Array));
        }
        if self.is("{") {
            return Err(self.unsupported(self.span(), Unsupported::Initialiser));
        }
        self.expect("(")?;
        let arguments = self.deeper(|parser| parser.arguments(")", false))?;
        if self.is("{") {
            return Err(self.unsupported(self.span(), Unsupported::Initialiser));
        }
        self.node(Kind::New { of, arguments }, self.since(start))
    }

    fn refused_keyword(&self, keyword: &str, span: Span) -> ParseError {
        let what = match keyword {
            "if" | "for" | "foreach" | "while" | "do" | "switch" | "return" | "throw" | "try" | "using"
            | "lock" | "goto" | "break" | "continue" | "fixed" | "unsafe" => Unsupported::Statement,
            "delegate" | "static" => Unsupported::Lambda,
            "const" | "class" | "struct" | "enum" | "interface" | "namespace" | "event" | "public"
            | "private" | "internal" | "protected" | "readonly" | "void" => Unsupported::Declaration,
            "checked" => Unsupported::Checked,
            "stackalloc" => Unsupported::Array,
            "ref" | "out" | "in" => Unsupported::Reference,
            _ => return self.expected(Expected::Value),
        };
        self.unsupported(span, what)
    }
}
