//! Tokens to syntax: operators and casts.

use super::{
    Expression, Format,
    constant::Constant,
    error::{Expected, Mistake, ParseError, Unsupported},
    syntax::{Assignment, Binary, Kind, Node, Pattern, Span, TypeKind, TypeName, Unary},
    token::{Token, TokenKind, tokens},
};

/// No sensible expression is longer.
pub(super) const LONGEST: usize = 4096;

/// What parsing and evaluating need of the stack grows with the depth.
pub(super) const DEEPEST: u32 = 64;

pub(super) type Parsed = Result<Node, ParseError>;

/// Understands `text[span]`. In a template, a number format may stand behind a colon.
pub(super) fn parse(text: &str, span: Span, in_template: bool) -> Result<Expression, ParseError> {
    let length = span.end - span.start;
    if length > LONGEST {
        return Err(ParseError::new(text, span.start, Mistake::TooLong { length, most: LONGEST }));
    }
    let mut parser = Parser::new(text, span, 0)?;
    let root = parser.expression()?;
    let mut format = Vec::new();
    while parser.accept(",") || in_template && parser.accept(":") {
        format.push(parser.format()?);
    }
    // A trailing semicolon does no harm.
    parser.accept(";");
    parser.end(&root)?;
    Ok(Expression { root, format })
}

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    tokens: Vec<Token>,
    pub(super) at: usize,
    pub(super) depth: u32,
}

/// An operator between two values.
#[derive(Clone, Copy)]
enum Infix {
    Binary(Binary),
    And,
    Or,
    Coalesce,
    Is,
    As,
}

const COALESCE: u8 = 0;
const SHIFT: u8 = 8;

/// Operators and how strongly they bind. Those of several `>` are put together from tokens.
const INFIX: [(&str, Infix, u8); 20] = [
    ("??", Infix::Coalesce, COALESCE),
    ("||", Infix::Or, 1),
    ("&&", Infix::And, 2),
    ("|", Infix::Binary(Binary::BitOr), 3),
    ("^", Infix::Binary(Binary::BitXor), 4),
    ("&", Infix::Binary(Binary::BitAnd), 5),
    ("==", Infix::Binary(Binary::Equal), 6),
    ("!=", Infix::Binary(Binary::NotEqual), 6),
    ("<", Infix::Binary(Binary::Less), 7),
    (">", Infix::Binary(Binary::Greater), 7),
    ("<=", Infix::Binary(Binary::LessOrEqual), 7),
    (">=", Infix::Binary(Binary::GreaterOrEqual), 7),
    ("<<", Infix::Binary(Binary::ShiftLeft), SHIFT),
    (">>", Infix::Binary(Binary::ShiftRight), SHIFT),
    (">>>", Infix::Binary(Binary::UnsignedShiftRight), SHIFT),
    ("+", Infix::Binary(Binary::Add), 9),
    ("-", Infix::Binary(Binary::Subtract), 9),
    ("*", Infix::Binary(Binary::Multiply), 10),
    ("/", Infix::Binary(Binary::Divide), 10),
    ("%", Infix::Binary(Binary::Remainder), 10),
];
/// `is` and `as` bind as `<` does.
const RELATIONAL: u8 = 7;

const ASSIGNMENTS: [(&str, Assignment); 13] = [
    ("=", Assignment::Plain),
    ("+=", Assignment::With(Binary::Add)),
    ("-=", Assignment::With(Binary::Subtract)),
    ("*=", Assignment::With(Binary::Multiply)),
    ("/=", Assignment::With(Binary::Divide)),
    ("%=", Assignment::With(Binary::Remainder)),
    ("&=", Assignment::With(Binary::BitAnd)),
    ("|=", Assignment::With(Binary::BitOr)),
    ("^=", Assignment::With(Binary::BitXor)),
    ("<<=", Assignment::With(Binary::ShiftLeft)),
    (">>=", Assignment::With(Binary::ShiftRight)),
    (">>>=", Assignment::With(Binary::UnsignedShiftRight)),
    ("??=", Assignment::IfNull),
];

const FORMATS: [(&str, Format); 9] = [
    ("d", Format::Decimal),
    ("x", Format::Hexadecimal),
    ("X", Format::Hexadecimal),
    ("h", Format::Hexadecimal),
    ("H", Format::Hexadecimal),
    ("b", Format::Binary),
    ("o", Format::Octal),
    ("nq", Format::NoQuotes),
    ("raw", Format::Raw),
];

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, span: Span, depth: u32) -> Result<Self, ParseError> {
        let tokens = tokens(text, span, DEEPEST.saturating_sub(depth))?;
        Ok(Self { text, tokens, at: 0, depth })
    }

    pub(super) fn peek(&self) -> &TokenKind {
        self.peek_behind(0)
    }

    pub(super) fn peek_behind(&self, ahead: usize) -> &TokenKind {
        self.tokens.get(self.at + ahead).map_or(&TokenKind::End, |token| &token.kind)
    }

    pub(super) fn advance(&mut self) {
        self.at += 1;
    }

    /// Where the next token stands.
    pub(super) fn span(&self) -> Span {
        let last = self.tokens.last().map_or(self.text.len(), |token| token.span.end);
        self.tokens.get(self.at).map_or(Span { start: last, end: last }, |token| token.span)
    }

    /// From `start` to the last token that was read.
    pub(super) fn since(&self, start: Span) -> Span {
        let last = self.at.checked_sub(1).and_then(|last| self.tokens.get(last));
        last.map_or(start, |token| start.to(token.span))
    }

    pub(super) fn is(&self, symbol: &str) -> bool {
        self.is_behind(0, symbol)
    }

    pub(super) fn is_behind(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.peek_behind(ahead), TokenKind::Symbol(found) if *found == symbol)
    }

    pub(super) fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.peek(), TokenKind::Keyword(found) if *found == keyword)
    }

    pub(super) fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, symbol: &'static str) -> Result<(), ParseError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.expected(Expected::Symbol(symbol))) }
    }

    pub(super) fn error(&self, span: Span, what: Mistake) -> ParseError {
        ParseError::new(self.text, span.start, what)
    }

    pub(super) fn unsupported(&self, span: Span, what: Unsupported) -> ParseError {
        self.error(span, Mistake::NotSupported { text: span.of(self.text).to_owned(), what })
    }

    /// Something else stands here. Says what it is if C# has a use for it.
    pub(super) fn expected(&self, expected: Expected) -> ParseError {
        let span = self.span();
        let what = match self.peek() {
            TokenKind::Symbol("=>") => Unsupported::Lambda,
            TokenKind::Symbol(")") if self.is_behind(1, "=>") => {
                let arrow = self.tokens.get(self.at + 1).map_or(span, |token| token.span);
                return self.unsupported(arrow, Unsupported::Lambda);
            }
            TokenKind::Symbol("..") => Unsupported::Range,
            TokenKind::Symbol("->") => Unsupported::Pointer,
            TokenKind::Symbol("++" | "--") => Unsupported::Increment,
            TokenKind::Symbol("{") => Unsupported::Initialiser,
            TokenKind::Symbol(";") => Unsupported::Statement,
            TokenKind::Keyword("switch") => Unsupported::Switch,
            _ => {
                let is_end = *self.peek() == TokenKind::End;
                let found = (!is_end).then(|| span.of(self.text).to_owned());
                return self.error(span, Mistake::Expected { expected, found });
            }
        };
        self.unsupported(span, what)
    }

    fn format(&mut self) -> Result<Format, ParseError> {
        let span = self.span();
        let written = match self.peek() {
            TokenKind::Name(name) => name.clone(),
            _ => return Err(self.expected(Expected::Format)),
        };
        self.advance();
        let found = FORMATS.iter().find(|(name, _)| *name == written).map(|(_, format)| *format);
        found.ok_or_else(|| self.error(span, Mistake::UnknownFormat { name: written }))
    }

    /// Nothing may stand behind the expression.
    fn end(&self, root: &Node) -> Result<(), ParseError> {
        let is_declared = self.is_behind(1, "=");
        let is_type = matches!(root.kind, Kind::Name { .. } | Kind::Member { .. } | Kind::Type(_));
        let is_statement = self.at > 0 && matches!(self.tokens[self.at - 1].kind, TokenKind::Symbol(";"));
        match self.peek() {
            TokenKind::End => Ok(()),
            _ if is_statement => Err(self.unsupported(self.span(), Unsupported::Statement)),
            TokenKind::Name(_) if is_type && root.span.of(self.text) == "await" => {
                Err(self.unsupported(root.span, Unsupported::Await))
            }
            TokenKind::Name(_) if is_type && is_declared => {
                Err(self.unsupported(root.span.to(self.span()), Unsupported::Declaration))
            }
            _ => Err(self.expected(Expected::Operator)),
        }
    }

    pub(super) fn too_deep(&self, span: Span) -> ParseError {
        self.error(span, Mistake::TooDeep { most: DEEPEST })
    }

    /// Counts the levels that the parser itself is deep in.
    pub(super) fn deeper<T>(
        &mut self,
        parse: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth >= DEEPEST {
            return Err(self.too_deep(self.span()));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A node above others. Also chains such as `1+1+1` are deep trees, though they need no depth to parse.
    pub(super) fn node(&self, kind: Kind, span: Span) -> Parsed {
        let mut node = Node { kind, span, depth: 0 };
        let below = node.children().iter().map(|child| child.depth).max().unwrap_or(0);
        if below >= DEEPEST {
            return Err(self.too_deep(span));
        }
        node.depth = below + 1;
        Ok(node)
    }

    /// The operator at hand, put together from tokens that follow each other without a blank, and how many
    /// tokens it has.
    fn operator(&self) -> (&'static str, usize) {
        let TokenKind::Symbol(symbol) = *self.peek() else { return ("", 0) };
        if symbol != ">" {
            return (symbol, 1);
        }
        let follows = |ahead: usize, symbol: &str| {
            let before = self.tokens.get(self.at + ahead - 1).map(|token| token.span.end);
            let start = self.tokens.get(self.at + ahead).map(|token| token.span.start);
            before == start && self.is_behind(ahead, symbol)
        };
        match () {
            () if follows(1, ">=") => (">>=", 2),
            () if !follows(1, ">") => (">", 1),
            () if follows(2, ">=") => (">>>=", 3),
            () if follows(2, ">") => (">>>", 3),
            () => (">>", 2),
        }
    }

    /// Everything, also an assignment.
    pub(super) fn expression(&mut self) -> Parsed {
        self.deeper(|parser| {
            let target = parser.conditional()?;
            let (symbol, length) = parser.operator();
            let found = ASSIGNMENTS.iter().find(|(assignment, _)| *assignment == symbol);
            let Some((_, operator)) = found.copied() else { return Ok(target) };
            if !matches!(
                target.kind,
                Kind::Name { .. } | Kind::Member { .. } | Kind::Index { .. } | Kind::Pseudo(_)
            ) {
                let text = target.span.of(parser.text).to_owned();
                return Err(parser.error(target.span, Mistake::NotAssignable { text }));
            }
            parser.at += length;
            let value = parser.expression()?;
            let span = target.span.to(value.span);
            parser.node(Kind::Assign { operator, target: target.into(), value: value.into() }, span)
        })
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.infix(COALESCE)?;
        if !self.accept("?") {
            return Ok(condition);
        }
        let yes = self.expression()?;
        self.expect(":")?;
        let no = self.expression()?;
        let span = condition.span.to(no.span);
        self.node(Kind::Conditional(condition.into(), yes.into(), no.into()), span)
    }

    /// Operators that bind at least as strongly as `weakest`.
    fn infix(&mut self, weakest: u8) -> Parsed {
        let mut left = self.unary()?;
        loop {
            let (symbol, length) = self.operator();
            let (infix, strength) = match self.peek() {
                TokenKind::Keyword("is") => (Infix::Is, RELATIONAL),
                TokenKind::Keyword("as") => (Infix::As, RELATIONAL),
                _ => match INFIX.iter().find(|(infix, ..)| *infix == symbol) {
                    Some((_, infix, strength)) => (*infix, *strength),
                    None => return Ok(left),
                },
            };
            if strength < weakest {
                return Ok(left);
            }
            self.at += length.max(1);
            left = self.applied(infix, left, strength)?;
        }
    }

    /// The operator was read, what is right of it was not.
    fn applied(&mut self, infix: Infix, left: Node, strength: u8) -> Parsed {
        let start = left.span;
        let kind = match infix {
            Infix::Is => return self.pattern(left),
            Infix::As => {
                let of = self.type_after_operator()?;
                Kind::As(left.into(), of)
            }
            Infix::Coalesce => {
                let right = self.deeper(|parser| parser.infix(COALESCE))?;
                Kind::Coalesce(left.into(), right.into())
            }
            Infix::And => Kind::And(left.into(), self.infix(strength + 1)?.into()),
            Infix::Or => Kind::Or(left.into(), self.infix(strength + 1)?.into()),
            Infix::Binary(operator) => Kind::Binary(operator, left.into(), self.infix(strength + 1)?.into()),
        };
        self.node(kind, self.since(start))
    }

    /// What stands behind `is`.
    fn pattern(&mut self, value: Node) -> Parsed {
        let start = value.span;
        let negated = matches!(self.peek(), TokenKind::Name(name) if name == "not");
        self.at += usize::from(negated);
        let before = self.at;
        let is_declared =
            |parser: &Self| matches!(parser.peek(), TokenKind::Name(_)) || parser.is("{") || parser.is("(");
        let pattern = match self.peek() {
            TokenKind::Constant(_)
            | TokenKind::Least { .. }
            | TokenKind::Keyword("true" | "false" | "null")
            | TokenKind::Symbol("-" | "+" | "~" | "!") => self.constant_pattern()?,
            TokenKind::Symbol("{" | "[" | "(" | "<" | ">" | "<=" | ">=") => {
                return Err(self.unsupported(self.span(), Unsupported::Pattern));
            }
            _ => {
                let of = self.type_after_operator()?;
                let (symbol, _) = self.operator();
                // The compiler takes `x is T >> y` as a shift of the truth, whatever that is good for.
                let binds_closer = symbol != ">>"
                    && INFIX.iter().any(|(infix, _, strength)| *infix == symbol && *strength >= SHIFT);
                if self.is(".") || binds_closer {
                    // `int.MaxValue`, `Limit - 1`
                    self.at = before;
                    self.constant_pattern()?
                } else {
                    Pattern::Type(of)
                }
            }
        };
        if is_declared(self) {
            return Err(self.unsupported(self.span(), Unsupported::Pattern));
        }
        self.node(Kind::Is { value: value.into(), negated, pattern }, self.since(start))
    }

    fn constant_pattern(&mut self) -> Result<Pattern, ParseError> {
        let constant = self.infix(SHIFT)?;
        let is_null = matches!(constant.kind, Kind::Constant(Constant::Null));
        Ok(if is_null { Pattern::Null } else { Pattern::Constant(constant.into()) })
    }

    pub(super) fn unary(&mut self) -> Parsed {
        let start = self.span();
        let operator = match self.peek() {
            TokenKind::Symbol("-") => Unary::Negate,
            TokenKind::Symbol("+") => Unary::Plus,
            TokenKind::Symbol("!") => Unary::Not,
            TokenKind::Symbol("~") => Unary::Complement,
            TokenKind::Symbol("*" | "&") => return Err(self.unsupported(start, Unsupported::Pointer)),
            TokenKind::Symbol("^") => return Err(self.unsupported(start, Unsupported::Range)),
            TokenKind::Symbol("(") => return self.deeper(Self::cast_or_group),
            _ => return self.postfix(),
        };
        self.advance();
        // The least number is written as one whose opposite does not fit.
        if let (Unary::Negate, TokenKind::Least { negated, .. }) = (operator, self.peek())
            && !self.is_behind(1, ".")
        {
            let kind = Kind::Constant(negated.clone());
            self.advance();
            return self.node(kind, self.since(start));
        }
        let operand = self.deeper(Self::unary)?;
        self.node(Kind::Unary(operator, operand.into()), self.since(start))
    }

    fn cast_or_group(&mut self) -> Parsed {
        let start = self.span();
        let before = self.at;
        self.advance();
        if let Ok(of) = self.type_name()
            && self.accept(")")
            && !self.is("=>")
            && (is_only_type(&of) || self.follows_cast())
        {
            let operand = self.unary()?;
            return self.node(Kind::Cast(of, operand.into()), self.since(start));
        }
        self.at = before;
        self.postfix()
    }

    /// Whether what stands here tells that the name in parentheses before it is a type, as C# decides it.
    fn follows_cast(&self) -> bool {
        match self.peek() {
            TokenKind::Symbol(symbol) => matches!(*symbol, "(" | "~" | "!"),
            TokenKind::Keyword(keyword) => !matches!(*keyword, "is" | "as" | "switch" | "in"),
            TokenKind::End => false,
            _ => true,
        }
    }
}

/// Whether the text of a type is not also one of an expression.
fn is_only_type(of: &TypeName) -> bool {
    match &of.kind {
        TypeKind::Named { .. } => false,
        TypeKind::Tuple(elements) => elements.iter().any(|(of, name)| name.is_some() || is_only_type(of)),
        _ => true,
    }
}
