//! The tree of an expression.

use super::constant::{Constant, Primitive};

/// Which bytes of the text a part of an expression is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn to(self, end: Self) -> Self {
        Self { start: self.start, end: end.end }
    }

    /// The part of the text.
    pub(crate) fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or_default()
    }
}

/// A part of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
    /// How many levels of nodes are in it.
    pub(super) depth: u32,
}

/// What a part of an expression is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Constant(Constant),
    /// `$"…{x}…"`
    Interpolated(Vec<InterpolatedPart>),
    /// `x`, `List<int>`: a local, a member of the class, a type or a namespace.
    Name {
        name: Identifier,
        type_arguments: Vec<TypeName>,
        /// Whether it is written `global::x`.
        is_global: bool,
    },
    /// `$exception`, without the `$`.
    Pseudo(String),
    This,
    Base,
    /// A type where only a type can be meant: the `int` of `int.MaxValue`.
    Type(TypeName),
    Member {
        of: Box<Node>,
        name: Identifier,
        type_arguments: Vec<TypeName>,
    },
    Index {
        of: Box<Node>,
        arguments: Vec<Argument>,
    },
    Call {
        /// A [`Kind::Name`] or [`Kind::Member`], or a value that is a delegate.
        function: Box<Node>,
        arguments: Vec<Argument>,
    },
    New {
        of: TypeName,
        arguments: Vec<Argument>,
    },
    /// `receiver?.…`: null if the receiver is null, otherwise `then`, in which [`Kind::Receiver`] is the
    /// value of `receiver`. All that follows in the chain is in `then`: of `a?.b.c`, `.b.c` is.
    WhenNotNull {
        receiver: Box<Node>,
        then: Box<Node>,
    },
    /// The value before the innermost `?.` or `?[` around.
    Receiver,
    Unary(Unary, Box<Node>),
    /// `^1`, only as an argument of an index.
    FromEnd(Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    /// `a ?? b`
    Coalesce(Box<Node>, Box<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Cast(TypeName, Box<Node>),
    As(Box<Node>, TypeName),
    Is {
        value: Box<Node>,
        /// Whether it is written `is not`.
        negated: bool,
        pattern: Pattern,
    },
    TypeOf(TypeName),
    SizeOf(TypeName),
    /// `default(T)`, or `default` where the place says which type.
    Default(Option<TypeName>),
    /// `nameof(x)` and the name that it comes to.
    NameOf(Box<Node>, String),
    Tuple(Vec<Argument>),
    Assign {
        operator: Assignment,
        target: Box<Node>,
        value: Box<Node>,
    },
}

/// A name and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identifier {
    /// Without the `@` of a name that is a keyword.
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// An argument of a call, an index or a tuple.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument {
    /// The `x` of `x: 1`.
    pub(crate) name: Option<Identifier>,
    pub(crate) value: Node,
}

/// A part of an interpolated string.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum InterpolatedPart {
    Text(super::Text),
    Value {
        value: Box<Node>,
        /// The fewest characters, to the left if negative.
        alignment: Option<i32>,
        /// Behind a colon.
        format: Option<String>,
    },
}

/// What stands behind `is`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Pattern {
    Null,
    /// A type, or a constant where the name is one's.
    Type(TypeName),
    Constant(Box<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unary {
    Plus,
    Negate,
    Not,
    Complement,
}

impl Unary {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Plus => "+",
            Self::Negate => "-",
            Self::Not => "!",
            Self::Complement => "~",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    UnsignedShiftRight,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    Equal,
    NotEqual,
    BitAnd,
    BitXor,
    BitOr,
}

impl Binary {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::UnsignedShiftRight => ">>>",
            Self::Less => "<",
            Self::Greater => ">",
            Self::LessOrEqual => "<=",
            Self::GreaterOrEqual => ">=",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::BitAnd => "&",
            Self::BitXor => "^",
            Self::BitOr => "|",
        }
    }
}

/// How a value is assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// `=`
    Plain,
    /// `+=` and its like.
    With(Binary),
    /// `??=`
    IfNull,
}

/// A type as it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TypeName {
    pub(crate) kind: TypeKind,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TypeKind {
    /// `int`, `string`
    Primitive(Primitive),
    Object,
    Void,
    /// `System.Collections.Generic.List<int>`: namespaces, outer types and the type, with a dot between them.
    Named {
        is_global: bool,
        path: Vec<TypePart>,
    },
    /// `T?`
    Nullable(Box<TypeName>),
    /// `T[]` has rank 1, `T[,]` 2. Of `int[][,]`, the outer array is the one of rank 1.
    Array(Box<TypeName>, u32),
    /// Two or more, with their names.
    Tuple(Vec<(TypeName, Option<Identifier>)>),
    /// `T*`
    Pointer(Box<TypeName>),
}

/// A part of the name of a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TypePart {
    pub(crate) name: Identifier,
    /// Empty if there are none; `None` for each that is left out, as in `typeof(List<>)`.
    pub(crate) arguments: Vec<Option<TypeName>>,
}

impl std::fmt::Display for TypeName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.kind {
            TypeKind::Primitive(primitive) => out.write_str(primitive.keyword()),
            TypeKind::Object => out.write_str("object"),
            TypeKind::Void => out.write_str("void"),
            TypeKind::Named { is_global, path } => {
                out.write_str(if *is_global { "global::" } else { "" })?;
                joined(out, path, ".", |out, part| {
                    out.write_str(&part.name.text)?;
                    if part.arguments.is_empty() {
                        return Ok(());
                    }
                    out.write_str("<")?;
                    joined(out, &part.arguments, ", ", |out, argument| {
                        argument.as_ref().map_or(Ok(()), |argument| write!(out, "{argument}"))
                    })?;
                    out.write_str(">")
                })
            }
            TypeKind::Nullable(of) => write!(out, "{of}?"),
            TypeKind::Array(..) => array(self, out),
            TypeKind::Tuple(elements) => {
                out.write_str("(")?;
                joined(out, elements, ", ", |out, (element, name)| {
                    write!(out, "{element}")?;
                    name.as_ref().map_or(Ok(()), |name| write!(out, " {}", name.text))
                })?;
                out.write_str(")")
            }
            TypeKind::Pointer(of) => write!(out, "{of}*"),
        }
    }
}

/// The outer array's brackets come first.
fn array(name: &TypeName, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let mut element = name;
    let mut brackets = String::new();
    while let TypeKind::Array(of, rank) = &element.kind {
        brackets += &format!("[{}]", ",".repeat(*rank as usize - 1));
        element = of;
    }
    write!(out, "{element}{brackets}")
}

fn joined<T>(
    out: &mut std::fmt::Formatter<'_>,
    items: &[T],
    between: &str,
    write: impl Fn(&mut std::fmt::Formatter<'_>, &T) -> std::fmt::Result,
) -> std::fmt::Result {
    for (index, item) in items.iter().enumerate() {
        out.write_str(if index == 0 { "" } else { between })?;
        write(out, item)?;
    }
    Ok(())
}

impl Node {
    /// The parts that this one is made of, in the order in which they are evaluated.
    pub(crate) fn children(&self) -> Vec<&Node> {
        fn values(arguments: &[Argument]) -> impl Iterator<Item = &Node> {
            arguments.iter().map(|argument| &argument.value)
        }
        match &self.kind {
            Kind::Constant(_)
            | Kind::Name { .. }
            | Kind::Pseudo(_)
            | Kind::This
            | Kind::Base
            | Kind::Type(_)
            | Kind::Receiver
            | Kind::TypeOf(_)
            | Kind::SizeOf(_)
            | Kind::Default(_) => Vec::new(),
            Kind::Interpolated(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    InterpolatedPart::Text(_) => None,
                    InterpolatedPart::Value { value, .. } => Some(&**value),
                })
                .collect(),
            Kind::Member { of, .. } => vec![of],
            Kind::Index { of: first, arguments } | Kind::Call { function: first, arguments } => {
                std::iter::once(&**first).chain(values(arguments)).collect()
            }
            Kind::New { arguments, .. } | Kind::Tuple(arguments) => values(arguments).collect(),
            Kind::Unary(_, one)
            | Kind::FromEnd(one)
            | Kind::Cast(_, one)
            | Kind::As(one, _)
            | Kind::NameOf(one, _) => vec![one],
            Kind::Is { value, pattern: Pattern::Constant(constant), .. } => vec![value, constant],
            Kind::Is { value, .. } => vec![value],
            Kind::WhenNotNull { receiver: one, then: other }
            | Kind::Binary(_, one, other)
            | Kind::And(one, other)
            | Kind::Or(one, other)
            | Kind::Coalesce(one, other)
            | Kind::Assign { target: one, value: other, .. } => vec![one, other],
            Kind::Conditional(one, two, three) => vec![one, two, three],
        }
    }

    /// Whether it may run code of the program that has effects, so that it is not evaluated twice.
    pub(crate) fn runs_code(&self) -> bool {
        self.any(&|kind| matches!(kind, Kind::Call { .. } | Kind::New { .. } | Kind::Assign { .. }))
    }

    /// Whether it or a part of it that is evaluated is such a node.
    pub(super) fn any(&self, is_such: &impl Fn(&Kind) -> bool) -> bool {
        is_such(&self.kind)
            // Nothing in `nameof` is evaluated.
            || !matches!(self.kind, Kind::NameOf(..)) && self.children().iter().any(|child| child.any(is_such))
    }
}
