//! What objects are, as far as their memory is laid out differently.

/// The layout of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    None,
    Ellipsis,
    NotImplemented,
    Bool,
    Int,
    Float,
    Complex,
    Str,
    Bytes,
    ByteArray,
    List,
    Tuple,
    Dict,
    Set,
    FrozenSet,
    Range,
    Slice,
    Deque,
    Function,
    Method,
    BuiltinFunction,
    Module,
    Type,
    Code,
    Cell,
    Generator,
    Coroutine,
    AsyncGenerator,
    Exception,
    Property,
    StaticMethod,
    ClassMethod,
    MemberDescriptor,
    MappingProxy,
    Date,
    DateTime,
    Time,
    TimeDelta,
    Array,
    /// Made from a class.
    Instance,
}

/// Set in a type whose objects begin like those of a built-in one.
const SUBCLASSES: [(u64, Kind); 8] = [
    (1 << 24, Kind::Int),
    (1 << 25, Kind::List),
    (1 << 26, Kind::Tuple),
    (1 << 27, Kind::Bytes),
    (1 << 28, Kind::Str),
    (1 << 29, Kind::Dict),
    (1 << 30, Kind::Exception),
    (1 << 31, Kind::Type),
];

impl Kind {
    /// By a type's own name and flags; its base decides otherwise.
    pub(crate) fn of_named(name: &str, flags: u64) -> Option<Self> {
        // Classes in Python have names without a dot; the built-in types without one are no heap types.
        let is_builtin = flags & crate::reader::IS_HEAP_TYPE == 0;
        let named = match name {
            "NoneType" if is_builtin => Self::None,
            "ellipsis" if is_builtin => Self::Ellipsis,
            "NotImplementedType" if is_builtin => Self::NotImplemented,
            "bool" if is_builtin => Self::Bool,
            "float" if is_builtin => Self::Float,
            "complex" if is_builtin => Self::Complex,
            "bytearray" if is_builtin => Self::ByteArray,
            "set" if is_builtin => Self::Set,
            "frozenset" if is_builtin => Self::FrozenSet,
            "range" if is_builtin => Self::Range,
            "slice" if is_builtin => Self::Slice,
            "function" if is_builtin => Self::Function,
            "method" if is_builtin => Self::Method,
            "builtin_function_or_method" if is_builtin => Self::BuiltinFunction,
            "module" if is_builtin => Self::Module,
            "code" if is_builtin => Self::Code,
            "cell" if is_builtin => Self::Cell,
            "generator" if is_builtin => Self::Generator,
            "coroutine" if is_builtin => Self::Coroutine,
            "async_generator" if is_builtin => Self::AsyncGenerator,
            "property" if is_builtin => Self::Property,
            "staticmethod" if is_builtin => Self::StaticMethod,
            "classmethod" if is_builtin => Self::ClassMethod,
            "member_descriptor" if is_builtin => Self::MemberDescriptor,
            "mappingproxy" if is_builtin => Self::MappingProxy,
            "object" if is_builtin => Self::Instance,
            "collections.deque" => Self::Deque,
            "datetime.datetime" => Self::DateTime,
            "datetime.date" => Self::Date,
            "datetime.time" => Self::Time,
            "datetime.timedelta" => Self::TimeDelta,
            "numpy.ndarray" => Self::Array,
            _ => {
                let known = SUBCLASSES.iter().find(|(flag, _)| flags & flag != 0)?;
                return Some(known.1);
            }
        };
        Some(named)
    }

    /// Whether it is a value that has no parts.
    pub(crate) fn is_callable(self) -> bool {
        matches!(self, Self::Function | Self::Method | Self::BuiltinFunction | Self::Type)
    }

    pub(crate) fn is_plain(self) -> bool {
        !matches!(
            self,
            Self::List
                | Self::Tuple
                | Self::Dict
                | Self::Set
                | Self::FrozenSet
                | Self::Deque
                | Self::Cell
                | Self::Exception
                | Self::MappingProxy
                | Self::Instance
        )
    }
}
