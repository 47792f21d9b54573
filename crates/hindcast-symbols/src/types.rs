//! Types, as debug information describes them.

use std::{ops::RangeInclusive, sync::Arc};

/// A type: which entry of which module's debug information describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeRef {
    /// The module.
    pub module: ModuleId,
    /// Where in the module's debug information; what that means is the reader's business.
    pub entry: u64,
}

/// An executable or library that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModuleId(pub u32);

/// What can be asked about types. Implemented by the loaded symbols.
pub trait Types {
    /// The type; `None` where the debug information is broken there. A declaration is completed by
    /// its definition, from whatever module has one.
    fn get(&self, type_ref: TypeRef) -> Option<Arc<Type>>;

    /// A type by its name as source code writes it (`int`, `unsigned long`, `ns::Point`,
    /// `alloc::string::String`), for casts.
    fn named(&self, name: &str) -> Option<TypeRef>;

    /// The function or variable at a runtime address, demangled, and how far `address` is from its
    /// beginning: for function pointers and vtables.
    fn symbol_at(&self, address: u64) -> Option<(String, u64)>;

    /// What compiled the unit that describes the type, as it calls itself.
    fn producer(&self, type_ref: TypeRef) -> Option<String>;
}

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub struct Type {
    /// Qualified by its namespaces, with template arguments, as its language writes it; empty where it has none.
    pub name: String,
    /// In bytes, where known.
    pub size: Option<u64>,
    /// Whose rules it follows.
    pub language: Language,
    /// What it is made of.
    pub kind: TypeKind,
}

/// The languages whose values look different.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Language {
    /// C and everything that is not named here.
    #[default]
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
}

/// What a type is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum TypeKind {
    /// A number, character or truth value.
    Base(Encoding),
    /// Points to something; `None` for `void`.
    Pointer {
        /// What it points to.
        target: Option<TypeRef>,
        /// How it is written.
        flavour: PointerFlavour,
    },
    /// Another name for a type, or a type with a qualifier; `None` for `void`.
    Alias {
        /// What it really is.
        target: Option<TypeRef>,
        /// What it adds.
        flavour: AliasFlavour,
    },
    /// Members side by side or, in a union, on top of each other.
    Struct(Box<StructType>),
    /// Named numbers.
    Enum {
        /// The type of the numbers.
        underlying: Option<TypeRef>,
        /// In the order of their declaration.
        enumerators: Vec<(String, i128)>,
    },
    /// Elements one after the other.
    Array {
        /// What they are.
        element: TypeRef,
        /// How many in each dimension, outermost first; `None` where the type does not say.
        counts: Vec<Option<u64>>,
        /// Whether it is a SIMD vector.
        vector: bool,
    },
    /// Code.
    Function {
        /// What it returns; `None` for `void`.
        returns: Option<TypeRef>,
        /// What it takes.
        parameters: Vec<TypeRef>,
    },
    /// A pointer to a member of a C++ class.
    MemberPointer {
        /// What the member is.
        target: Option<TypeRef>,
    },
    /// A type with a name and nothing else, such as `decltype(nullptr)` or `!`.
    Unspecified,
    /// Only declared, and defined nowhere.
    Declaration,
}

/// How a base type's bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Encoding {
    Boolean,
    Signed,
    Unsigned,
    /// `char` of C and C++, signed.
    SignedChar,
    /// `unsigned char`.
    UnsignedChar,
    /// A Unicode character: `char` of Rust, `char8_t`, `char16_t`, `char32_t`.
    Utf,
    Float,
    ComplexFloat,
    /// Something else, shown as bytes.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum PointerFlavour {
    Pointer,
    Reference,
    RvalueReference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AliasFlavour {
    Typedef,
    Const,
    Volatile,
    Restrict,
    Atomic,
    Other,
}

/// A struct, class, union, tuple, or Rust enum.
#[derive(Debug, Clone, PartialEq)]
pub struct StructType {
    /// How it was written.
    pub flavour: StructFlavour,
    /// C++ base classes, in the order of declaration.
    pub bases: Vec<Base>,
    /// Data members that are in each value.
    pub members: Vec<Member>,
    /// Static data members: name, type and, where it is constant, its value.
    pub statics: Vec<StaticMember>,
    /// Template or generic parameters.
    pub parameters: Vec<TemplateParameter>,
    /// The cases of a Rust enum or another tagged union.
    pub variants: Option<VariantPart>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum StructFlavour {
    Struct,
    Class,
    Union,
}

/// A base class.
#[derive(Debug, Clone, PartialEq)]
pub struct Base {
    /// The class.
    pub type_ref: TypeRef,
    /// Where it is in the derived one; `None` for a virtual base, whose place is in the vtable.
    pub offset: Option<u64>,
    /// For a virtual base: how far before the vtable's address its offset is kept (as a signed
    /// distance to add to the vtable pointer), where the debug information says so.
    pub vtable_offset: Option<i64>,
}

/// A data member.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// `None` for an anonymous struct or union, whose members count as the outer one's.
    pub name: Option<String>,
    /// What it is.
    pub type_ref: TypeRef,
    /// In bytes.
    pub offset: u64,
    /// For a bit-field: its first bit from `offset` on, counted from the lowest, and how many.
    pub bits: Option<(u64, u64)>,
    /// Whether the compiler made it, such as `_vptr`.
    pub artificial: bool,
}

/// A static data member.
#[derive(Debug, Clone, PartialEq)]
pub struct StaticMember {
    /// Its name.
    pub name: String,
    /// What it is.
    pub type_ref: TypeRef,
    /// Its value, where it is a constant.
    pub constant: Option<i128>,
}

/// A template or generic parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplateParameter {
    /// Its name, where it has one.
    pub name: Option<String>,
    /// The type it stands for, or the type of its value.
    pub type_ref: Option<TypeRef>,
    /// Its value, where it stands for one.
    pub value: Option<i128>,
}

/// Cases of which a value has one at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct VariantPart {
    /// What tells them apart; absent where there is only one.
    pub discriminant: Option<Member>,
    /// The cases.
    pub variants: Vec<Variant>,
}

/// One case.
#[derive(Debug, Clone, PartialEq)]
pub struct Variant {
    /// The discriminants that mean it; empty for the case that all others mean.
    pub values: Vec<RangeInclusive<i128>>,
    /// What it holds, named after the case.
    pub members: Vec<Member>,
}
