//! From words to a query: XPath 1.0, productions 1 to 27.

use std::collections::BTreeMap;

use super::{
    error::XPathError,
    functions::Function,
    syntax::{Axis, Expression, NodeTest, Operator, Start, Step},
    token::{Token, tokens},
};

/// Parentheses, predicates and arguments may nest so deep.
const DEPTH: usize = 64;

/// Operators that a query may have.
const OPERATORS: usize = 500;

/// Longer queries are surely a mistake.
const LONGEST: usize = 64 << 10;

/// Prefixes and the namespaces they mean; the empty prefix gives unprefixed names of elements a namespace.
pub type Namespaces = BTreeMap<String, String>;

/// The query and the number of its steps.
pub(super) fn parse(query: &str, namespaces: &Namespaces) -> Result<(Expression, usize), XPathError> {
    if query.len() > LONGEST {
        return Err(XPathError::syntax(LONGEST, format!("the query is longer than {LONGEST} bytes")));
    }
    let tokens = tokens(query)?;
    let end = query.chars().count() + 1;
    let mut parser = Parser { tokens: &tokens, at: 0, end, depth: 0, steps: 0, operators: 0, namespaces };
    let expression = parser.expression()?;
    match parser.tokens.get(parser.at) {
        None => Ok((expression, parser.steps)),
        Some((at, _)) => Err(XPathError::syntax(*at, "the query should have ended before this")),
    }
}

struct Parser<'q> {
    tokens: &'q [(usize, Token)],
    at: usize,
    end: usize,
    depth: usize,
    steps: usize,
    operators: usize,
    namespaces: &'q Namespaces,
}

/// Binary operators by how tightly they bind, loosest first.
const LEVELS: [&[Operator]; 7] = [
    &[Operator::Or],
    &[Operator::And],
    &[Operator::Equal, Operator::NotEqual],
    &[Operator::Less, Operator::LessOrEqual, Operator::Greater, Operator::GreaterOrEqual],
    &[Operator::Add, Operator::Subtract],
    &[Operator::Multiply, Operator::Divide, Operator::Remainder],
    &[Operator::Union],
];

/// Negation binds tighter than multiplication and looser than union.
const NEGATION: usize = 6;

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(_, token)| token)
    }

    fn peek_after(&self) -> Option<&Token> {
        self.tokens.get(self.at + 1).map(|(_, token)| token)
    }

    fn take(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &Token, name: &str) -> Result<(), XPathError> {
        if self.take(token) { Ok(()) } else { Err(self.problem(format!("`{name}` is missing"))) }
    }

    fn problem(&self, problem: impl Into<String>) -> XPathError {
        let at = self.tokens.get(self.at).map_or(self.end, |(at, _)| *at);
        XPathError::syntax(at, problem)
    }

    fn expression(&mut self) -> Result<Expression, XPathError> {
        if self.depth >= DEPTH {
            return Err(self.problem(format!("the query nests deeper than {DEPTH}")));
        }
        self.depth += 1;
        let expression = self.binary(0);
        self.depth -= 1;
        expression
    }

    fn binary(&mut self, level: usize) -> Result<Expression, XPathError> {
        if level == NEGATION {
            let mut negations = 0;
            while self.take(&Token::Operator(Operator::Subtract)) {
                negations += 1;
            }
            let operand = self.operators(level)?;
            return Ok(match negations {
                0 => operand,
                // An even number of signs still makes a number.
                count if count % 2 == 0 => {
                    Expression::Negate(Box::new(Expression::Negate(Box::new(operand))))
                }
                _ => Expression::Negate(Box::new(operand)),
            });
        }
        self.operators(level)
    }

    fn operators(&mut self, level: usize) -> Result<Expression, XPathError> {
        let operand = |parser: &mut Self| {
            if level + 1 == LEVELS.len() { parser.path() } else { parser.binary(level + 1) }
        };
        let mut left = operand(self)?;
        while let Some(Token::Operator(operator)) = self.peek() {
            let operator = *operator;
            if !LEVELS[level].contains(&operator) {
                break;
            }
            self.at += 1;
            // Each operator is a level of the tree, and the tree is walked by recursion.
            self.operators += 1;
            if self.operators > OPERATORS {
                return Err(self.problem(format!("the query has more than {OPERATORS} operators")));
            }
            let right = operand(self)?;
            left = Expression::Binary(operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    /// A location path, or a primary expression with predicates and a path after it.
    fn path(&mut self) -> Result<Expression, XPathError> {
        if !self.begins_primary() {
            return self.location_path();
        }
        let primary = self.primary()?;
        let predicates = self.predicates()?;
        let filtered =
            if predicates.is_empty() { primary } else { Expression::Filter(Box::new(primary), predicates) };
        if !matches!(self.peek(), Some(Token::Slash | Token::SlashSlash)) {
            return Ok(filtered);
        }
        let mut steps = Vec::new();
        self.further_steps(&mut steps)?;
        Ok(Expression::Path(Start::Nodes(Box::new(filtered)), simplified(steps)))
    }

    fn begins_primary(&self) -> bool {
        match self.peek() {
            Some(Token::Open | Token::Literal(_) | Token::Number(_) | Token::Variable(_)) => true,
            Some(Token::Name { prefix, local }) => {
                let is_node_type = prefix.is_empty()
                    && matches!(local.as_str(), "node" | "text" | "comment" | "processing-instruction");
                self.peek_after() == Some(&Token::Open) && !is_node_type
            }
            _ => false,
        }
    }

    fn primary(&mut self) -> Result<Expression, XPathError> {
        let Some(token) = self.peek().cloned() else { return Err(self.problem("something is missing here")) };
        self.at += 1;
        match token {
            Token::Number(number) => Ok(Expression::Number(number)),
            Token::Literal(text) => Ok(Expression::Literal(text)),
            Token::Variable(name) => Err(XPathError::UnknownVariable(name)),
            Token::Name { prefix, local } => {
                self.at += 1;
                self.call(&prefix, &local)
            }
            _ => {
                let inner = self.expression()?;
                self.expect(&Token::Close, ")")?;
                Ok(inner)
            }
        }
    }

    fn call(&mut self, prefix: &str, local: &str) -> Result<Expression, XPathError> {
        let mut arguments = Vec::new();
        if !self.take(&Token::Close) {
            loop {
                arguments.push(self.expression()?);
                if !self.take(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::Close, ")")?;
        }
        let unknown = || {
            let colon = if prefix.is_empty() { "" } else { ":" };
            XPathError::UnknownFunction(format!("{prefix}{colon}{local}"))
        };
        let function = Function::named(local).filter(|_| prefix.is_empty()).ok_or_else(unknown)?;
        function.check(arguments.len())?;
        Ok(Expression::Call(function, arguments))
    }

    fn predicates(&mut self) -> Result<Vec<Expression>, XPathError> {
        let mut predicates = Vec::new();
        while self.take(&Token::OpenBracket) {
            predicates.push(self.expression()?);
            self.expect(&Token::CloseBracket, "]")?;
        }
        Ok(predicates)
    }

    fn location_path(&mut self) -> Result<Expression, XPathError> {
        let mut steps = Vec::new();
        let start = match self.peek() {
            Some(Token::Slash) => {
                self.at += 1;
                if self.begins_step() {
                    steps.push(self.step()?);
                }
                Start::Root
            }
            Some(Token::SlashSlash) => Start::Root,
            _ => {
                steps.push(self.step()?);
                Start::Context
            }
        };
        self.further_steps(&mut steps)?;
        Ok(Expression::Path(start, simplified(steps)))
    }

    fn begins_step(&self) -> bool {
        matches!(
            self.peek(),
            Some(
                Token::Dot
                    | Token::DotDot
                    | Token::At
                    | Token::Star
                    | Token::PrefixStar(_)
                    | Token::Name { .. }
            )
        )
    }

    fn further_steps(&mut self, steps: &mut Vec<Step>) -> Result<(), XPathError> {
        loop {
            if self.take(&Token::SlashSlash) {
                steps.push(self.new_step(Axis::DescendantOrSelf, NodeTest::Any, Vec::new()));
            } else if !self.take(&Token::Slash) {
                return Ok(());
            }
            steps.push(self.step()?);
        }
    }

    fn step(&mut self) -> Result<Step, XPathError> {
        if self.take(&Token::Dot) {
            return Ok(self.new_step(Axis::Itself, NodeTest::Any, Vec::new()));
        }
        if self.take(&Token::DotDot) {
            return Ok(self.new_step(Axis::Parent, NodeTest::Any, Vec::new()));
        }
        let axis = if self.take(&Token::At) {
            Axis::Attribute
        } else if let (Some(Token::Name { local, .. }), Some(Token::Axis)) = (self.peek(), self.peek_after())
        {
            let axis =
                Axis::named(local).ok_or_else(|| self.problem(format!("there is no axis `{local}`")))?;
            self.at += 2;
            axis
        } else {
            Axis::Child
        };
        let test = self.node_test(axis)?;
        let predicates = self.predicates()?;
        Ok(self.new_step(axis, test, predicates))
    }

    fn new_step(&mut self, axis: Axis, test: NodeTest, predicates: Vec<Expression>) -> Step {
        self.steps += 1;
        Step { number: self.steps - 1, axis, test, predicates }
    }

    fn node_test(&mut self, axis: Axis) -> Result<NodeTest, XPathError> {
        let Some(token) = self.peek().cloned() else { return Err(self.problem("a step is missing here")) };
        let is_type = self.peek_after() == Some(&Token::Open);
        let test = match token {
            Token::Star => NodeTest::Star,
            Token::PrefixStar(prefix) => NodeTest::InNamespace(self.namespace(&prefix)?),
            Token::Name { prefix, local } if prefix.is_empty() && is_type => {
                self.at += 2;
                return self.node_type(&local);
            }
            Token::Name { prefix, local } => {
                let namespace = match prefix.as_str() {
                    "" if matches!(axis, Axis::Attribute | Axis::Namespace) => String::new(),
                    "" => self.namespaces.get("").cloned().unwrap_or_default(),
                    prefix => self.namespace(prefix)?,
                };
                NodeTest::Name { namespace, local }
            }
            _ => return Err(self.problem("a step should begin here")),
        };
        self.at += 1;
        Ok(test)
    }

    fn node_type(&mut self, name: &str) -> Result<NodeTest, XPathError> {
        let test = match name {
            "node" => NodeTest::Any,
            "text" => NodeTest::Text,
            "comment" => NodeTest::Comment,
            "processing-instruction" => {
                let target =
                    if let Some(Token::Literal(target)) = self.peek() { Some(target.clone()) } else { None };
                self.at += usize::from(target.is_some());
                NodeTest::Instruction(target)
            }
            _ => return Err(self.problem(format!("a function cannot be a step: `{name}()`"))),
        };
        self.expect(&Token::Close, ")")?;
        Ok(test)
    }

    fn namespace(&self, prefix: &str) -> Result<String, XPathError> {
        match self.namespaces.get(prefix) {
            Some(namespace) => Ok(namespace.clone()),
            None if prefix == "xml" => Ok(crate::read::XML_NAMESPACE.into()),
            None => Err(XPathError::UnknownPrefix(prefix.into())),
        }
    }
}

/// `//x` is `descendant-or-self::node()/child::x`; where no position is asked for, `descendant::x` is the same.
fn simplified(steps: Vec<Step>) -> Vec<Step> {
    let mut simplified: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in steps {
        let after_any = simplified.last().is_some_and(|last| {
            last.axis == Axis::DescendantOrSelf && last.test == NodeTest::Any && last.predicates.is_empty()
        });
        if after_any
            && matches!(step.axis, Axis::Child | Axis::Descendant)
            && !step.predicates.iter().any(Expression::is_positional)
        {
            simplified.pop();
            step.axis = Axis::Descendant;
        }
        simplified.push(step);
    }
    simplified
}
