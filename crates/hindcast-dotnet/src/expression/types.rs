//! Types as C# writes them.

use super::{
    constant::Primitive,
    error::{Expected, ParseError, Unsupported},
    parser::Parser,
    syntax::{Identifier, Span, TypeKind, TypeName, TypePart},
    token::TokenKind,
};

impl Parser<'_> {
    pub(super) fn type_name(&mut self) -> Result<TypeName, ParseError> {
        self.deeper(|parser| parser.type_with(false))
    }

    /// The type behind `is` or `as`. A question mark there is the one of a condition if a value follows it.
    pub(super) fn type_after_operator(&mut self) -> Result<TypeName, ParseError> {
        self.deeper(|parser| parser.type_with(true))
    }

    fn type_with(&mut self, may_be_condition: bool) -> Result<TypeName, ParseError> {
        let start = self.span();
        let mut kind = self.plain_type()?;
        loop {
            let is_array = |ahead| matches!(self.peek_behind(ahead), TokenKind::Symbol("]" | ","));
            let of = |parser: &Self, kind| Box::new(TypeName { kind, span: parser.since(start) });
            if self.is("?[") && is_array(1) {
                // The token is both: of `int?[]`, the elements may be null.
                let span = Span { end: self.span().start + 1, ..start };
                kind = TypeKind::Nullable(Box::new(TypeName { kind, span }));
                kind = self.ranks(start, kind)?;
            } else if self.is("[") && is_array(1) {
                kind = self.ranks(start, kind)?;
            } else if self.is("?") && !(may_be_condition && self.begins_value(1)) {
                let inner = of(self, kind);
                self.advance();
                kind = TypeKind::Nullable(inner);
            } else if self.is("*")
                && !may_be_condition
                && matches!(self.peek_behind(1), TokenKind::Symbol(")" | "*" | ">" | "," | "["))
            {
                let inner = of(self, kind);
                self.advance();
                kind = TypeKind::Pointer(inner);
            } else {
                return Ok(TypeName { kind, span: self.since(start) });
            }
        }
    }

    /// `[]`, `[,]` and several of them, the outer array first; the parser stands at `[` or `?[`.
    fn ranks(&mut self, start: Span, mut kind: TypeKind) -> Result<TypeKind, ParseError> {
        let mut ranks = Vec::new();
        loop {
            self.advance();
            let mut rank = 1;
            while self.accept(",") {
                rank += 1;
            }
            self.expect("]")?;
            ranks.push(rank);
            if !(self.is("[") && matches!(self.peek_behind(1), TokenKind::Symbol("]" | ","))) {
                break;
            }
        }
        let span = self.since(start);
        if ranks.len() > super::parser::DEEPEST as usize {
            return Err(self.too_deep(span));
        }
        for rank in ranks.into_iter().rev() {
            kind = TypeKind::Array(Box::new(TypeName { kind, span }), rank);
        }
        Ok(kind)
    }

    /// Whether the token can be the first of a value.
    fn begins_value(&self, ahead: usize) -> bool {
        match self.peek_behind(ahead) {
            TokenKind::Symbol(symbol) => matches!(*symbol, "(" | "-" | "+" | "!" | "~"),
            TokenKind::Keyword(keyword) => !matches!(*keyword, "is" | "as"),
            TokenKind::End => false,
            _ => true,
        }
    }

    fn plain_type(&mut self) -> Result<TypeKind, ParseError> {
        match self.peek() {
            TokenKind::Keyword("object") => {
                self.advance();
                Ok(TypeKind::Object)
            }
            TokenKind::Keyword("void") => {
                self.advance();
                Ok(TypeKind::Void)
            }
            TokenKind::Keyword(keyword) => {
                let primitive = Primitive::of_keyword(keyword);
                let primitive = primitive.ok_or_else(|| self.expected(Expected::Type))?;
                self.advance();
                Ok(TypeKind::Primitive(primitive))
            }
            TokenKind::Symbol("(") => self.tuple_type(),
            TokenKind::Name(_) => self.named_type(),
            _ => Err(self.expected(Expected::Type)),
        }
    }

    fn tuple_type(&mut self) -> Result<TypeKind, ParseError> {
        self.expect("(")?;
        let mut elements = Vec::new();
        loop {
            let of = self.type_name()?;
            let name =
                if matches!(self.peek(), TokenKind::Name(_)) { Some(self.identifier()?) } else { None };
            elements.push((of, name));
            if !self.accept(",") {
                break;
            }
        }
        if elements.len() < 2 {
            return Err(self.expected(Expected::Symbol(",")));
        }
        self.expect(")")?;
        Ok(TypeKind::Tuple(elements))
    }

    fn named_type(&mut self) -> Result<TypeKind, ParseError> {
        let is_global = self.alias()?;
        let mut path = Vec::new();
        loop {
            let name = self.identifier()?;
            let arguments = if self.is("<") { self.type_arguments()? } else { Vec::new() };
            path.push(TypePart { name, arguments });
            if !(self.is(".") && matches!(self.peek_behind(1), TokenKind::Name(_))) {
                break;
            }
            self.advance();
        }
        // Not reserved words: the type may also be one that is named so, which no sensible program has.
        if let ([TypePart { name, arguments }], false) = (path.as_slice(), is_global)
            && arguments.is_empty()
            && matches!(name.text.as_str(), "nint" | "nuint")
            && let Some(primitive) = Primitive::of_keyword(&name.text)
        {
            return Ok(TypeKind::Primitive(primitive));
        }
        Ok(TypeKind::Named { is_global, path })
    }

    /// Whether `global::` stands here; it is read.
    pub(super) fn alias(&mut self) -> Result<bool, ParseError> {
        if !self.is_behind(1, "::") {
            return Ok(false);
        }
        if !matches!(self.peek(), TokenKind::Name(name) if name == "global") {
            return Err(self.unsupported(self.span(), Unsupported::Alias));
        }
        self.at += 2;
        Ok(true)
    }

    pub(super) fn identifier(&mut self) -> Result<Identifier, ParseError> {
        let span = self.span();
        let TokenKind::Name(text) = self.peek() else { return Err(self.expected(Expected::Name)) };
        let text = text.clone();
        self.advance();
        Ok(Identifier { text, span })
    }

    /// `<int, string>`, or `<,>` where the types are left out.
    pub(super) fn type_arguments(&mut self) -> Result<Vec<Option<TypeName>>, ParseError> {
        self.expect("<")?;
        let mut arguments = Vec::new();
        let is_open = self.is(">") || self.is(",");
        loop {
            arguments.push(if is_open { None } else { Some(self.type_name()?) });
            if !self.accept(",") {
                break;
            }
        }
        if self.is(">") {
            self.advance();
            return Ok(arguments);
        }
        Err(self.expected(Expected::Either(">", ",")))
    }
}
