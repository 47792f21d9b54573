//! A query as a tree.

/// A direction from a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Axis {
    Ancestor,
    AncestorOrSelf,
    Attribute,
    Child,
    Descendant,
    DescendantOrSelf,
    Following,
    FollowingSibling,
    Namespace,
    Parent,
    Preceding,
    PrecedingSibling,
    Itself,
}

impl Axis {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ancestor" => Self::Ancestor,
            "ancestor-or-self" => Self::AncestorOrSelf,
            "attribute" => Self::Attribute,
            "child" => Self::Child,
            "descendant" => Self::Descendant,
            "descendant-or-self" => Self::DescendantOrSelf,
            "following" => Self::Following,
            "following-sibling" => Self::FollowingSibling,
            "namespace" => Self::Namespace,
            "parent" => Self::Parent,
            "preceding" => Self::Preceding,
            "preceding-sibling" => Self::PrecedingSibling,
            "self" => Self::Itself,
            _ => return None,
        })
    }

    /// Whether position 1 is the nearest node before, not the first in the document.
    pub(super) fn is_backwards(self) -> bool {
        matches!(self, Self::Ancestor | Self::AncestorOrSelf | Self::Preceding | Self::PrecedingSibling)
    }
}

/// Which nodes of an axis are meant.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NodeTest {
    /// `node()`
    Any,
    /// `text()`
    Text,
    /// `comment()`
    Comment,
    /// `processing-instruction()`, with a target or any.
    Instruction(Option<String>),
    /// `*`
    Star,
    /// `prefix:*`, the namespace resolved.
    InNamespace(String),
    /// `name` or `prefix:name`, the namespace resolved.
    Name { namespace: String, local: String },
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    /// The number of the step in the query: what is found out about its test is kept under it.
    pub(super) number: usize,
    pub(super) axis: Axis,
    pub(super) test: NodeTest,
    pub(super) predicates: Vec<Expression>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Union,
}

/// Where a path begins.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Start {
    Root,
    Context,
    Nodes(Box<Expression>),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Number(f64),
    Literal(String),
    Negate(Box<Expression>),
    Binary(Operator, Box<Expression>, Box<Expression>),
    Call(super::functions::Function, Vec<Expression>),
    Filter(Box<Expression>, Vec<Expression>),
    Path(Start, Vec<Step>),
}

impl Expression {
    /// Whether the value may depend on the context's position or size: then the nodes must be seen one context at a time.
    pub(super) fn is_positional(&self) -> bool {
        use super::functions::Function;
        match self {
            // A number as predicate is a position.
            Self::Number(_) | Self::Negate(_) => true,
            Self::Literal(_) | Self::Path(..) => false,
            Self::Binary(operator, left, right) => {
                matches!(
                    operator,
                    Operator::Add
                        | Operator::Subtract
                        | Operator::Multiply
                        | Operator::Divide
                        | Operator::Remainder
                ) || left.mentions_position()
                    || right.mentions_position()
            }
            Self::Call(function, arguments) => {
                function.gives_number()
                    || matches!(function, Function::Position | Function::Last)
                    || arguments.iter().any(Self::mentions_position)
            }
            Self::Filter(inner, _) => inner.is_positional(),
        }
    }

    /// Whether `position()` or `last()` of the surrounding context is asked for.
    fn mentions_position(&self) -> bool {
        use super::functions::Function;
        match self {
            Self::Number(_) | Self::Literal(_) | Self::Path(Start::Root | Start::Context, _) => false,
            Self::Path(Start::Nodes(inner), _) | Self::Negate(inner) | Self::Filter(inner, _) => {
                inner.mentions_position()
            }
            Self::Binary(_, left, right) => left.mentions_position() || right.mentions_position(),
            Self::Call(function, arguments) => {
                matches!(function, Function::Position | Function::Last)
                    || arguments.iter().any(Self::mentions_position)
            }
        }
    }
}

impl Expression {
    /// Whether an element is asked for by a name in no namespace.
    pub(super) fn has_unprefixed_names(&self) -> bool {
        let in_steps = |steps: &[Step]| {
            steps.iter().any(|step| {
                let unprefixed =
                    matches!(&step.test, NodeTest::Name { namespace, .. } if namespace.is_empty());
                (unprefixed && step.axis != Axis::Attribute)
                    || step.predicates.iter().any(Self::has_unprefixed_names)
            })
        };
        match self {
            Self::Number(_) | Self::Literal(_) => false,
            Self::Negate(inner) => inner.has_unprefixed_names(),
            Self::Binary(_, left, right) => left.has_unprefixed_names() || right.has_unprefixed_names(),
            Self::Call(_, arguments) => arguments.iter().any(Self::has_unprefixed_names),
            Self::Filter(inner, predicates) => {
                inner.has_unprefixed_names() || predicates.iter().any(Self::has_unprefixed_names)
            }
            Self::Path(start, steps) => {
                matches!(start, Start::Nodes(inner) if inner.has_unprefixed_names()) || in_steps(steps)
            }
        }
    }
}
