//! Types that no debug information has: what casts, literals and rows of arrays need.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::types::{
    AliasFlavour, Encoding, Language, ModuleId, PointerFlavour, StructFlavour, Type, TypeKind, TypeRef, Types,
};

/// How many parameters of a function type are named.
const MOST_PARAMETERS: usize = 12;

/// No module has this number.
const DERIVED: ModuleId = ModuleId(u32::MAX);

/// The types of the program, and those derived from them while looking at it. A derived type is
/// known to the object that made it only.
pub struct DerivedTypes<'a> {
    real: &'a dyn Types,
    made: Mutex<Made>,
}

#[derive(Default)]
struct Made {
    types: Vec<Arc<Type>>,
    known: HashMap<Recipe, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Recipe {
    Pointer(Option<TypeRef>, bool),
    Array(TypeRef, Vec<Option<u64>>),
    Base(&'static str, u64, bool),
}

impl<'a> DerivedTypes<'a> {
    /// Nothing derived yet.
    pub fn new(real: &'a dyn Types) -> Self {
        Self { real, made: Mutex::default() }
    }

    /// Pointer to `target`; to `void` where there is none.
    pub fn pointer_to(&self, target: Option<TypeRef>, language: Language) -> TypeRef {
        self.make(Recipe::Pointer(target, language == Language::Rust), || Type {
            name: String::new(),
            size: Some(8),
            language,
            kind: TypeKind::Pointer { target, flavour: PointerFlavour::Pointer },
        })
    }

    /// `counts` of `element`, outermost first.
    pub fn array_of(&self, element: TypeRef, counts: &[Option<u64>], language: Language) -> TypeRef {
        self.make(Recipe::Array(element, counts.to_vec()), || Type {
            name: String::new(),
            size: None,
            language,
            kind: TypeKind::Array { element, counts: counts.to_vec(), vector: false },
        })
    }

    /// A number, character or truth value, by the name its language gives it.
    pub fn base(&self, name: &'static str, encoding: Encoding, size: u64, language: Language) -> TypeRef {
        self.make(Recipe::Base(name, size, language == Language::Rust), || Type {
            name: name.to_owned(),
            size: Some(size),
            language,
            kind: TypeKind::Base(encoding),
        })
    }

    fn make(&self, recipe: Recipe, build: impl FnOnce() -> Type) -> TypeRef {
        let mut made = self.made();
        let entry = match made.known.get(&recipe) {
            Some(&entry) => entry,
            None => {
                let entry = made.types.len() as u64;
                made.types.push(Arc::new(build()));
                made.known.insert(recipe, entry);
                entry
            }
        };
        TypeRef { module: DERIVED, entry }
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        // Nothing panics while it is held half done.
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Without typedefs and qualifiers; `None` for `void` and what is broken.
    pub(crate) fn real(&self, type_ref: TypeRef) -> Option<(TypeRef, Arc<Type>)> {
        let mut at = type_ref;
        // A chain of aliases this long is a circle.
        for _ in 0..64 {
            let found = self.get(at)?;
            match &found.kind {
                TypeKind::Alias { target, .. } => at = (*target)?,
                _ => return Some((at, found)),
            }
        }
        None
    }

    /// In bytes.
    pub(crate) fn size(&self, type_ref: TypeRef) -> Option<u64> {
        self.size_within(type_ref, 16)
    }

    /// An array of itself is in no program, but may be in a file.
    fn size_within(&self, type_ref: TypeRef, depth: u32) -> Option<u64> {
        let depth = depth.checked_sub(1)?;
        let (_, found) = self.real(type_ref)?;
        match (&found.kind, found.size) {
            (_, Some(size)) => Some(size),
            (TypeKind::Array { element, counts, .. }, None) => {
                let element = self.size_within(*element, depth)?;
                counts.iter().try_fold(element, |product, count| product.checked_mul((*count)?))
            }
            (TypeKind::MemberPointer { target: Some(target) }, None) => {
                let method = self
                    .real(*target)
                    .is_some_and(|(_, found)| matches!(found.kind, TypeKind::Function { .. }));
                Some(if method { 16 } else { 8 })
            }
            (TypeKind::Pointer { .. } | TypeKind::MemberPointer { .. }, None) => Some(8),
            (TypeKind::Enum { underlying: Some(underlying), .. }, None) => {
                self.size_within(*underlying, depth)
            }
            _ => None,
        }
    }

    /// As source code writes it; composed where the debug information has no name.
    pub fn name_of(&self, type_ref: TypeRef) -> String {
        self.declare(Some(type_ref), "", 0)
    }

    /// A declaration of `inner` as this type, the way C nests them: `int (*)[3]`.
    fn declare(&self, type_ref: Option<TypeRef>, inner: &str, level: u32) -> String {
        let Some(type_ref) = type_ref else { return spaced("void", inner) };
        let Some(found) = self.get(type_ref) else { return spaced("?", inner) };
        if !found.name.is_empty() {
            return match c_keyword(&found) {
                Some(keyword) => spaced(&format!("{keyword} {}", found.name), inner),
                None => spaced(&found.name, inner),
            };
        }
        if level > 32 {
            return spaced("…", inner);
        }
        let rust = found.language == Language::Rust;
        let deeper = level + 1;
        match &found.kind {
            TypeKind::Pointer { target, .. } if rust => format!("*{}", self.declare(*target, inner, deeper)),
            TypeKind::Pointer { target, flavour } => {
                let mark = match flavour {
                    PointerFlavour::Pointer => "*",
                    PointerFlavour::Reference => "&",
                    PointerFlavour::RvalueReference => "&&",
                };
                let wraps = target.and_then(|target| self.get(target)).is_some_and(|target| {
                    matches!(target.kind, TypeKind::Function { .. } | TypeKind::Array { .. })
                        && target.name.is_empty()
                });
                let inner = format!("{mark}{inner}");
                self.declare(*target, &if wraps { format!("({inner})") } else { inner }, deeper)
            }
            TypeKind::Alias { target, flavour } => {
                let word = match flavour {
                    AliasFlavour::Const => "const",
                    AliasFlavour::Volatile => "volatile",
                    AliasFlavour::Restrict => "restrict",
                    AliasFlavour::Atomic => "_Atomic",
                    _ => "",
                };
                self.qualify(*target, word, inner, deeper)
            }
            TypeKind::Array { element, counts, .. } if rust => {
                let mut text = self.declare(Some(*element), "", deeper);
                for count in counts.iter().rev() {
                    text = match count {
                        Some(count) => format!("[{text}; {count}]"),
                        None => format!("[{text}]"),
                    };
                }
                spaced(&text, inner)
            }
            TypeKind::Array { element, counts, .. } => {
                let counts: String = counts
                    .iter()
                    .map(|count| count.map_or("[]".to_owned(), |count| format!("[{count}]")))
                    .collect();
                self.declare(Some(*element), &format!("{inner}{counts}"), deeper)
            }
            TypeKind::Function { returns, parameters } => {
                // A function that takes itself several times doubles with every level.
                let deeper = level + 8;
                let mut taken: Vec<_> = parameters
                    .iter()
                    .take(MOST_PARAMETERS)
                    .map(|parameter| self.declare(Some(*parameter), "", deeper))
                    .collect();
                if parameters.len() > MOST_PARAMETERS {
                    taken.push("…".to_owned());
                }
                self.declare(*returns, &format!("{inner}({})", taken.join(", ")), deeper)
            }
            TypeKind::Struct(_) => spaced("{anonymous}", inner),
            TypeKind::Enum { .. } => spaced("{anonymous enum}", inner),
            TypeKind::MemberPointer { target } => self.declare(*target, &format!("::*{inner}"), deeper),
            TypeKind::Base(_) | TypeKind::Unspecified | TypeKind::Declaration => spaced("?", inner),
        }
    }

    /// `const` stands before what it qualifies, but behind the star of a pointer.
    fn qualify(&self, target: Option<TypeRef>, word: &str, inner: &str, level: u32) -> String {
        let pointer = target
            .and_then(|target| self.get(target))
            .is_some_and(|target| matches!(target.kind, TypeKind::Pointer { .. }) && target.name.is_empty());
        if word.is_empty() {
            self.declare(target, inner, level)
        } else if pointer {
            let inner = if inner.is_empty() { format!(" {word}") } else { format!(" {word} {inner}") };
            self.declare(target, &inner, level)
        } else {
            let declared = self.declare(target, inner, level);
            // Of an array, it is said of the whole and of its elements.
            let said = declared.strip_prefix(word).is_some_and(|rest| rest.starts_with(' '));
            if said { declared } else { format!("{word} {declared}") }
        }
    }
}

impl Types for DerivedTypes<'_> {
    fn get(&self, type_ref: TypeRef) -> Option<Arc<Type>> {
        if type_ref.module != DERIVED {
            return self.real.get(type_ref);
        }
        self.made().types.get(usize::try_from(type_ref.entry).ok()?).cloned()
    }

    fn named(&self, name: &str) -> Option<TypeRef> {
        self.real.named(name)
    }

    fn symbol_at(&self, address: u64) -> Option<(String, u64)> {
        self.real.symbol_at(address)
    }

    fn producer(&self, type_ref: TypeRef) -> Option<String> {
        self.real.producer(type_ref)
    }
}

/// The word without which C does not know the name.
fn c_keyword(found: &Type) -> Option<&'static str> {
    match &found.kind {
        _ if found.language != Language::C => None,
        TypeKind::Struct(of) if of.flavour == StructFlavour::Union => Some("union"),
        // Nobody declares a union or an enum alone.
        TypeKind::Struct(_) | TypeKind::Declaration => Some("struct"),
        TypeKind::Enum { .. } => Some("enum"),
        _ => None,
    }
}

fn spaced(name: &str, inner: &str) -> String {
    match inner.chars().next() {
        None => name.to_owned(),
        Some(' ') => format!("{name}{inner}"),
        Some(_) => format!("{name} {inner}"),
    }
}
