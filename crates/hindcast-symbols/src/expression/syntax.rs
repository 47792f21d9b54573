//! What expressions are made of.

/// A node of a parsed expression.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) kind: Kind,
    /// The column it is spoken of by.
    pub(super) column: usize,
    /// Levels below it, itself included.
    pub(super) depth: u32,
}

impl Node {
    /// The nodes within it that give many values, in the order of evaluation. What elements come to together is one value.
    pub(super) fn sources(&self) -> Vec<&Node> {
        let below = match &self.kind {
            Kind::Together(..) => Vec::new(),
            // Links are those of each element.
            Kind::Linked(_, first, _) => first.sources(),
            kind => kind.children().into_iter().flat_map(Node::sources).collect(),
        };
        let own = matches!(self.kind, Kind::Each(_) | Kind::Linked(..)).then_some(self);
        below.into_iter().chain(own).collect()
    }

    pub(super) fn contains(&self, other: &Node) -> bool {
        self.kind.children().into_iter().any(|child| std::ptr::eq(child, other) || child.contains(other))
    }

    /// Whether both are written the same.
    pub(super) fn is_same(&self, other: &Node) -> bool {
        let (ours, theirs) = (self.kind.children(), other.kind.children());
        self.kind.own() == other.kind.own()
            && ours.len() == theirs.len()
            && ours.into_iter().zip(theirs).all(|(one, other)| one.is_same(other))
    }
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Also a path: `a::b`.
    Name(String),
    Integer(u128, String),
    Float(f64, String),
    Character(u32),
    /// One byte above 127, negative where `char` is signed.
    HighCharacter(u8),
    Text(Vec<u8>),
    Truth(bool),
    Null,
    Register(String),
    /// `.name`, `->name` and `.0`.
    Field(Box<Node>, String),
    Method(Box<Node>, String),
    /// `Some(3)`: a case of an enum, for comparing.
    Case(String, Vec<Node>),
    Index(Box<Node>, Box<Node>),
    /// `a[from..to]`
    Slice(Box<Node>, Option<Box<Node>>, Option<Box<Node>>, Ends),
    /// `p@count`
    Repeat(Box<Node>, Box<Node>),
    /// `a[*]`: every element.
    Each(Box<Node>),
    /// `list(head, next)`, `tree(root, left, right)`: what is linked, from the first on. The links are those of an element.
    Linked(Links, Box<Node>, Vec<Node>),
    /// `sum(a[*].n)`, `count(a, n > 3)`: what elements come to together, those that a condition on each holds for.
    Together(Together, Box<Node>, Option<Box<Node>>),
    Unary(Unary, Box<Node>),
    Binary(Binary, Box<Node>, Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Conditional(Box<Node>, Box<Node>, Box<Node>),
    Cast(TypeName, Box<Node>),
    SizeOfType(TypeName),
    SizeOf(Box<Node>),
    /// Of the value, or of the target combined with it.
    Assign(Option<Binary>, Box<Node>, Box<Node>),
}

impl Kind {
    /// What a node is, without the nodes below.
    fn own(&self) -> String {
        match self {
            Self::Name(_)
            | Self::Integer(..)
            | Self::Float(..)
            | Self::Character(_)
            | Self::HighCharacter(_)
            | Self::Text(_)
            | Self::Truth(_)
            | Self::Null
            | Self::Register(_)
            | Self::SizeOfType(_) => format!("{self:?}"),
            Self::Field(_, name) => format!("field {name}"),
            Self::Method(_, name) => format!("method {name}"),
            Self::Case(name, _) => format!("case {name}"),
            Self::Index(..) => "index".into(),
            Self::Slice(_, from, to, ends) => format!("slice {} {} {ends:?}", from.is_some(), to.is_some()),
            Self::Repeat(..) => "repeat".into(),
            Self::Each(_) => "each".into(),
            Self::Linked(links, ..) => format!("{links:?}"),
            Self::Together(together, ..) => format!("{together:?}"),
            Self::Unary(operator, _) => format!("{operator:?}"),
            Self::Binary(operator, ..) => format!("{operator:?}"),
            Self::And(..) => "and".into(),
            Self::Or(..) => "or".into(),
            Self::Conditional(..) => "conditional".into(),
            Self::Cast(to, _) => format!("{to:?}"),
            Self::SizeOf(_) => "size".into(),
            Self::Assign(operator, ..) => format!("assign {operator:?}"),
        }
    }

    /// The nodes right below, in the order in which they are evaluated.
    pub(super) fn children(&self) -> Vec<&Node> {
        match self {
            Self::Name(_)
            | Self::Integer(..)
            | Self::Float(..)
            | Self::Character(_)
            | Self::HighCharacter(_)
            | Self::Text(_)
            | Self::Truth(_)
            | Self::Null
            | Self::Register(_)
            | Self::SizeOfType(_) => Vec::new(),
            Self::Field(one, _)
            | Self::Method(one, _)
            | Self::Unary(_, one)
            | Self::Cast(_, one)
            | Self::Each(one)
            | Self::SizeOf(one) => vec![one],
            Self::Index(one, other)
            | Self::Repeat(one, other)
            | Self::Binary(_, one, other)
            | Self::And(one, other)
            | Self::Or(one, other)
            | Self::Assign(_, one, other) => vec![one, other],
            Self::Slice(one, from, to, _) => {
                std::iter::once(&**one).chain(from.as_deref()).chain(to.as_deref()).collect()
            }
            Self::Conditional(one, two, three) => vec![one, two, three],
            Self::Case(_, values) => values.iter().collect(),
            Self::Linked(_, first, links) => std::iter::once(&**first).chain(links).collect(),
            Self::Together(_, of, condition) => std::iter::once(&**of).chain(condition.as_deref()).collect(),
        }
    }
}

/// How elements are linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    List,
    Tree,
    Reachable,
}

impl Links {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "list" => Some(Self::List),
            "tree" => Some(Self::Tree),
            "reachable" => Some(Self::Reachable),
            _ => None,
        }
    }
}

/// What many elements come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Together {
    Sum,
    Count,
    Least,
    Greatest,
    Any,
    All,
}

impl Together {
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "sum" => Self::Sum,
            "count" => Self::Count,
            "min" => Self::Least,
            "max" => Self::Greatest,
            "any" => Self::Any,
            "all" => Self::All,
            _ => return None,
        })
    }
}

/// Whether the last element of a range is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    Before,
    At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unary {
    Negate,
    Not,
    Complement,
    Dereference,
    AddressOf,
    Plus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    ShiftLeft,
    ShiftRight,
    BitAnd,
    BitOr,
    BitXor,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Binary {
    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
        }
    }

    pub(super) fn is_comparison(self) -> bool {
        use Binary::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
        matches!(self, Equal | NotEqual | Less | LessOrEqual | Greater | GreaterOrEqual)
    }

    /// Whether two things in this order make it true.
    pub(super) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
            _ => false,
        }
    }
}

/// A type as an expression writes it: a name, and how many pointers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TypeName {
    pub(super) name: String,
    pub(super) pointers: u32,
    /// Whether it ends in C++'s `&`.
    pub(super) reference: bool,
}
