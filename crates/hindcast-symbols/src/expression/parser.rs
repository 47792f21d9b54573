//! Tokens to syntax. Operators bind as in C; `as` binds as in Rust.

use super::{
    error::ExpressionError,
    scalar::is_known_type,
    syntax::{Binary, Ends, Kind, Links, Node, Together, TypeName, Unary},
    token::{Token, TokenKind, column, tokens},
};

/// No sensible expression is longer.
pub(super) const LONGEST: usize = 8 * 1024;

/// What parsing and evaluating need of the stack grows with the depth.
pub(super) const DEEPEST: u32 = 100;

type Parsed = Result<Node, ExpressionError>;

pub(super) fn parse(text: &str) -> Parsed {
    if text.len() > LONGEST {
        return Err(ExpressionError::TooLong { length: text.len(), most: LONGEST });
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { text, tokens, at: 0, depth: 0 };
    let node = parser.assignment()?;
    // A trailing semicolon does no harm.
    parser.accept(";");
    match parser.peek() {
        TokenKind::End => Ok(node),
        _ => Err(parser.expected("an operator or the end")),
    }
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

/// Binary operators by how strongly they bind, weakest first.
const LEVELS: [&[(&str, Binary)]; 8] = [
    &[("|", Binary::BitOr)],
    &[("^", Binary::BitXor)],
    &[("&", Binary::BitAnd)],
    &[("==", Binary::Equal), ("!=", Binary::NotEqual)],
    &[
        ("<=", Binary::LessOrEqual),
        (">=", Binary::GreaterOrEqual),
        ("<", Binary::Less),
        (">", Binary::Greater),
    ],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("%", Binary::Remainder)],
];

const ASSIGNMENTS: [(&str, Option<Binary>); 11] = [
    ("=", None),
    ("+=", Some(Binary::Add)),
    ("-=", Some(Binary::Subtract)),
    ("*=", Some(Binary::Multiply)),
    ("/=", Some(Binary::Divide)),
    ("%=", Some(Binary::Remainder)),
    ("&=", Some(Binary::BitAnd)),
    ("|=", Some(Binary::BitOr)),
    ("^=", Some(Binary::BitXor)),
    ("<<=", Some(Binary::ShiftLeft)),
    (">>=", Some(Binary::ShiftRight)),
];

impl Parser<'_> {
    fn peek(&self) -> &TokenKind {
        self.tokens.get(self.at).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn peek_behind(&self, ahead: usize) -> &TokenKind {
        self.tokens.get(self.at + ahead).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn advance(&mut self) {
        self.at += 1;
    }

    fn column(&self) -> usize {
        column(self.text, self.tokens.get(self.at).map_or(self.text.len(), |token| token.at))
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), TokenKind::Symbol(found) if *found == symbol)
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &'static str) -> Result<(), ExpressionError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.expected(symbol)) }
    }

    fn expected(&self, expected: &'static str) -> ExpressionError {
        let found = match self.tokens.get(self.at) {
            Some(Token { kind: TokenKind::End, .. }) | None => "the end".to_owned(),
            Some(token) => self.text.get(token.at..token.end).unwrap_or_default().to_owned(),
        };
        ExpressionError::Syntax { column: self.column(), expected, found }
    }

    /// Counts the levels that the parser itself is deep in.
    fn deeper(&mut self, parse: impl FnOnce(&mut Self) -> Parsed) -> Parsed {
        if self.depth >= DEEPEST {
            return Err(ExpressionError::TooDeep { column: self.column(), most: DEEPEST });
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// A node above others. Also chains such as `1+1+1` are deep trees, though they need no depth to parse.
    fn node(&self, kind: Kind, column: usize) -> Parsed {
        let below = kind.children().into_iter().map(|child| child.depth).max().unwrap_or(0);
        if below >= DEEPEST {
            return Err(ExpressionError::TooDeep { column, most: DEEPEST });
        }
        Ok(Node { kind, column, depth: below + 1 })
    }

    fn assignment(&mut self) -> Parsed {
        self.deeper(|parser| {
            let target = parser.conditional()?;
            for (symbol, operator) in ASSIGNMENTS {
                if parser.is(symbol) {
                    let column = parser.column();
                    parser.advance();
                    let value = parser.assignment()?;
                    return parser.node(Kind::Assign(operator, target.into(), value.into()), column);
                }
            }
            Ok(target)
        })
    }

    fn conditional(&mut self) -> Parsed {
        let condition = self.or()?;
        let column = self.column();
        if !self.accept("?") {
            return Ok(condition);
        }
        let yes = self.assignment()?;
        self.expect(":")?;
        let no = self.deeper(Self::conditional)?;
        self.node(Kind::Conditional(condition.into(), yes.into(), no.into()), column)
    }

    fn or(&mut self) -> Parsed {
        let mut left = self.and()?;
        while self.is("||") {
            let column = self.column();
            self.advance();
            let right = self.and()?;
            left = self.node(Kind::Or(left.into(), right.into()), column)?;
        }
        Ok(left)
    }

    fn and(&mut self) -> Parsed {
        let mut left = self.binary(0)?;
        while self.is("&&") {
            let column = self.column();
            self.advance();
            let right = self.binary(0)?;
            left = self.node(Kind::And(left.into(), right.into()), column)?;
        }
        Ok(left)
    }

    fn binary(&mut self, level: usize) -> Parsed {
        let Some(operators) = LEVELS.get(level) else { return self.repeat() };
        let mut left = self.binary(level + 1)?;
        'next: loop {
            for (symbol, operator) in *operators {
                if self.is(symbol) {
                    let column = self.column();
                    self.advance();
                    let right = self.binary(level + 1)?;
                    left = self.node(Kind::Binary(*operator, left.into(), right.into()), column)?;
                    continue 'next;
                }
            }
            return Ok(left);
        }
    }

    fn repeat(&mut self) -> Parsed {
        let mut left = self.cast_as()?;
        while self.is("@") {
            let column = self.column();
            self.advance();
            let count = self.cast_as()?;
            left = self.node(Kind::Repeat(left.into(), count.into()), column)?;
        }
        Ok(left)
    }

    /// `x as u8`
    fn cast_as(&mut self) -> Parsed {
        let mut value = self.unary()?;
        while matches!(self.peek(), TokenKind::Name(name) if name == "as") {
            let column = self.column();
            self.advance();
            let Some(type_name) = self.rust_type() else { return Err(self.expected("a type")) };
            value = self.node(Kind::Cast(type_name, value.into()), column)?;
        }
        Ok(value)
    }

    fn unary(&mut self) -> Parsed {
        let column = self.column();
        let operator = match self.peek() {
            TokenKind::Symbol("-") => Unary::Negate,
            TokenKind::Symbol("+") => Unary::Plus,
            TokenKind::Symbol("!") => Unary::Not,
            TokenKind::Symbol("~") => Unary::Complement,
            TokenKind::Symbol("*") => Unary::Dereference,
            TokenKind::Symbol("&") => Unary::AddressOf,
            // `&&x` is two references in Rust and never a conjunction here.
            TokenKind::Symbol("&&") => {
                return Err(self.expected("a value"));
            }
            TokenKind::Symbol("--") => {
                self.advance();
                let operand = self.deeper(Self::unary)?;
                let inner = self.node(Kind::Unary(Unary::Negate, operand.into()), column)?;
                return self.node(Kind::Unary(Unary::Negate, inner.into()), column);
            }
            TokenKind::Symbol("(") => return self.deeper(Self::cast_or_group),
            TokenKind::Name(name) if name == "sizeof" => return self.deeper(Self::size_of),
            _ => return self.postfix(),
        };
        self.advance();
        if operator == Unary::AddressOf && matches!(self.peek(), TokenKind::Name(name) if name == "mut") {
            self.advance();
        }
        let operand = self.deeper(Self::unary)?;
        self.node(Kind::Unary(operator, operand.into()), column)
    }

    fn size_of(&mut self) -> Parsed {
        let column = self.column();
        self.advance();
        let start = self.at;
        if self.accept("(") {
            if let Some(type_name) = self.c_type()
                && self.accept(")")
            {
                // `sizeof(name)` may be a type or a variable: evaluating tells.
                return self.node(Kind::SizeOfType(type_name), column);
            }
            self.at = start;
        }
        let operand = self.unary()?;
        self.node(Kind::SizeOf(operand.into()), column)
    }

    fn cast_or_group(&mut self) -> Parsed {
        let column = self.column();
        let start = self.at;
        self.advance();
        if let Some(type_name) = self.c_type()
            && self.accept(")")
        {
            let is_type = type_name.pointers > 0 || type_name.reference || is_known_type(&type_name.name);
            let operand_follows = match self.peek() {
                TokenKind::Name(name) => name != "as",
                TokenKind::End => false,
                TokenKind::Symbol(symbol) => {
                    matches!(*symbol, "(" | "~" | "!" | "::")
                        || is_type && matches!(*symbol, "*" | "&" | "-" | "+")
                }
                _ => true,
            };
            if operand_follows {
                let operand = self.unary()?;
                return self.node(Kind::Cast(type_name, operand.into()), column);
            }
        }
        self.at = start;
        self.postfix()
    }

    /// `struct point *`, `unsigned long`, `std::vector<int>`, `*const u8`; only as far as it is one.
    fn c_type(&mut self) -> Option<TypeName> {
        if self.is("*") || self.is("&") {
            return self.rust_type();
        }
        let mut words: Vec<String> = Vec::new();
        loop {
            match self.peek() {
                TokenKind::Name(word) if word == "as" || word == "sizeof" => return None,
                TokenKind::Name(_) => {}
                TokenKind::Symbol("::") if matches!(self.peek_behind(1), TokenKind::Name(_)) => {}
                _ => break,
            }
            let full = self.type_path()?;
            if !matches!(
                full.as_str(),
                "const" | "volatile" | "struct" | "class" | "union" | "enum" | "typename"
            ) {
                words.push(full);
            }
        }
        let numeric = ["unsigned", "signed", "long", "short", "int", "char", "double"];
        if words.is_empty() || words.len() > 1 && !words.iter().all(|word| numeric.contains(&word.as_str())) {
            return None;
        }
        let mut pointers = 0;
        loop {
            if self.accept("*") {
                pointers += 1;
            } else if matches!(self.peek(), TokenKind::Name(word) if word == "const" || word == "volatile") {
                self.advance();
            } else {
                let reference = self.accept("&");
                return Some(TypeName { name: words.join(" "), pointers, reference });
            }
        }
    }

    /// `*const T`, `&T`, `a::B<C>`.
    fn rust_type(&mut self) -> Option<TypeName> {
        let mut pointers = 0;
        loop {
            if self.accept("*") {
                match self.peek() {
                    TokenKind::Name(word) if word == "const" || word == "mut" => self.advance(),
                    _ => return None,
                }
            } else if self.accept("&") {
                if matches!(self.peek(), TokenKind::Name(word) if word == "mut") {
                    self.advance();
                }
            } else {
                break;
            }
            pointers += 1;
        }
        let name = self.type_path()?;
        Some(TypeName { name, pointers, reference: false })
    }

    /// A path with generic arguments, as it is written.
    fn type_path(&mut self) -> Option<String> {
        let start = self.tokens.get(self.at)?.at;
        self.accept("::");
        loop {
            let TokenKind::Name(_) = self.peek() else { return None };
            self.advance();
            if self.is("<") && !self.generic_arguments() {
                return None;
            }
            if !self.accept("::") {
                break;
            }
        }
        let end = self.tokens.get(self.at.checked_sub(1)?)?.end;
        Some(self.text.get(start..end)?.to_owned())
    }

    fn generic_arguments(&mut self) -> bool {
        let mut depth = 0;
        loop {
            match self.peek() {
                TokenKind::Symbol("<") => depth += 1,
                TokenKind::Symbol(">") => depth -= 1,
                TokenKind::Symbol(">>") => depth -= 2,
                TokenKind::Symbol("," | "::" | "*" | "&" | "[" | "]" | ";" | "(" | ")")
                | TokenKind::Name(_)
                | TokenKind::Integer(..) => {}
                _ => return false,
            }
            self.advance();
            if depth <= 0 {
                return depth == 0;
            }
        }
    }

    fn postfix(&mut self) -> Parsed {
        let mut value = self.primary()?;
        loop {
            let column = self.column();
            if self.accept(".") || self.accept("->") {
                let name = self.member_name()?;
                let is_call = self.is("(");
                if is_call {
                    self.advance();
                    if !self.accept(")") {
                        return Err(ExpressionError::Call { column, name });
                    }
                    value = self.node(Kind::Method(value.into(), name), column)?;
                } else {
                    value = self.node(Kind::Field(value.into(), name), column)?;
                }
            } else if self.accept("[") {
                value = self.deeper(|parser| parser.index(value, column))?;
            } else {
                return Ok(value);
            }
        }
    }

    /// `name`, `0`, or `Class::name`.
    fn member_name(&mut self) -> Result<String, ExpressionError> {
        let start = self.at;
        let path = self.type_path();
        let is_qualified = self.at.checked_sub(2).and_then(|before| self.tokens.get(before));
        if let (Some(path), Some(Token { kind: TokenKind::Symbol("::"), .. })) = (path, is_qualified) {
            return Ok(path);
        }
        self.at = start;
        let name = match self.peek().clone() {
            TokenKind::Name(name) => name,
            TokenKind::Integer(number, _) => number.to_string(),
            _ => return Err(self.expected("the name of a field")),
        };
        self.advance();
        Ok(name)
    }

    fn index(&mut self, value: Node, column: usize) -> Parsed {
        if self.is("*") && matches!(self.peek_behind(1), TokenKind::Symbol("]")) {
            self.advance();
            self.advance();
            return self.node(Kind::Each(value.into()), column);
        }
        let from = if self.is("..") || self.is("..=") { None } else { Some(self.conditional()?) };
        let ends = if self.accept("..=") {
            Ends::At
        } else if self.accept("..") {
            Ends::Before
        } else {
            self.expect("]")?;
            let Some(index) = from else { return Err(self.expected("an index")) };
            return self.node(Kind::Index(value.into(), index.into()), column);
        };
        let to = if self.is("]") { None } else { Some(self.conditional()?) };
        self.expect("]")?;
        self.node(Kind::Slice(value.into(), from.map(Box::new), to.map(Box::new), ends), column)
    }

    fn primary(&mut self) -> Parsed {
        let column = self.column();
        let kind = match self.peek().clone() {
            TokenKind::Integer(value, suffix) => Kind::Integer(value, suffix),
            TokenKind::Float(value, suffix) => Kind::Float(value, suffix),
            TokenKind::Character(value) => Kind::Character(value),
            TokenKind::HighCharacter(byte) => Kind::HighCharacter(byte),
            TokenKind::Text(bytes) => Kind::Text(bytes),
            TokenKind::Register(name) => Kind::Register(name),
            TokenKind::Name(_) => return self.name(column),
            TokenKind::Symbol("::") if matches!(self.peek_behind(1), TokenKind::Name(_)) => {
                return self.name(column);
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.assignment()?;
                self.expect(")")?;
                return Ok(inner);
            }
            _ => return Err(self.expected("a value")),
        };
        self.advance();
        self.node(kind, column)
    }

    fn name(&mut self, column: usize) -> Parsed {
        let mut path = if self.accept("::") { "::".to_owned() } else { String::new() };
        while let TokenKind::Name(part) = self.peek() {
            path += part;
            self.advance();
            let goes_on = self.is("::") && matches!(self.peek_behind(1), TokenKind::Name(_));
            if !goes_on {
                break;
            }
            path += "::";
            self.advance();
        }
        let kind = match path.as_str() {
            "true" => Kind::Truth(true),
            "false" => Kind::Truth(false),
            "null" | "nullptr" | "NULL" => Kind::Null,
            _ if self.is("(") => return self.case(path, column),
            _ => Kind::Name(path),
        };
        self.node(kind, column)
    }

    /// `sum(…)` and its like, or `Some(3)`. Whether that is a case or a call is known when it is compared.
    fn case(&mut self, name: String, column: usize) -> Parsed {
        self.advance();
        let mut values = Vec::new();
        while !self.is(")") {
            values.push(self.assignment()?);
            if !self.accept(",") {
                break;
            }
        }
        self.expect(")")?;
        let kind = match (Together::named(&name), Links::named(&name), values.len()) {
            (Some(together), _, 1 | 2) => {
                let mut values = values.into_iter().map(Box::new);
                let Some(of) = values.next() else { return Err(self.expected("elements")) };
                Kind::Together(together, of, values.next())
            }
            (_, Some(links @ Links::List), 2)
            | (_, Some(links @ Links::Tree), 2..)
            | (_, Some(links @ Links::Reachable), 1 | 2) => {
                let first = values.remove(0);
                Kind::Linked(links, first.into(), values)
            }
            _ => Kind::Case(name, values),
        };
        self.node(kind, column)
    }
}
