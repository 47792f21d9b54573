//! What is always there, by its name: variables, functions and enumerators outside of frames.

use super::{
    InlineFrame, Symbols, VariableInfo,
    functions::{NamePattern, components},
    variables::{MOST, global, vanished},
};
use crate::{
    dwarf::{DieRef, Entry, View, die::flag},
    elf::SymbolType,
    module::{LoadedModule, NameClass, NameKind, base_name, is_static, unit_language},
    types::{Language, TypeKind, TypeRef, Types},
};

/// What a name means that no frame has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GlobalName {
    /// A variable that is always at the same place.
    Variable(VariableInfo),
    /// A named number.
    Enumerator {
        /// The enumeration.
        type_ref: TypeRef,
        /// The number.
        value: i128,
    },
    /// A function with code.
    Function {
        /// What it takes and returns.
        type_ref: TypeRef,
        /// Its first instruction.
        address: u64,
    },
}

/// What a name has in common with the function where it is asked for. Link-time optimisation brings functions of
/// other files into a unit, so that the file counts for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kinship {
    Neither,
    Unit,
    File,
    Both,
}

/// Where a name is asked for: it means what code there sees.
#[derive(Debug, Clone, Copy)]
pub struct Viewpoint {
    pub(super) address: u64,
    /// The function that is inlined at the address, where that one is meant.
    pub(super) function: Option<DieRef>,
}

impl From<u64> for Viewpoint {
    fn from(address: u64) -> Self {
        Self { address, function: None }
    }
}

impl From<&InlineFrame> for Viewpoint {
    fn from(frame: &InlineFrame) -> Self {
        Self { address: frame.address, function: frame.scope.map(|scope| scope.die) }
    }
}

impl Viewpoint {
    /// Where the function was declared that has the code: link-time optimisation moves its code to a unit of
    /// many files.
    pub(super) fn home(&self, module: &LoadedModule) -> Option<DieRef> {
        let physical = || module.function_die_at(module.to_file(self.address)).map(|function| function.die);
        self.function.or_else(physical).map(|function| module.declared_at(function))
    }
}

/// How close a name is to where it is asked for; a closer one hides the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Closeness {
    /// In another function, where no other code sees it.
    OtherFunction,
    /// In another namespace or class, or in another file only.
    Elsewhere,
    /// In the same file, but in another namespace or class.
    SameFile,
    /// In a namespace or class around the function, which is so deep.
    Around(usize),
    /// In the function itself.
    SameFunction,
}

impl Symbols {
    /// A variable that is not in a frame, by its name, qualified or not: as code at `from` sees it, from its
    /// own module before the program before libraries.
    pub fn find_global(&self, name: &str, from: impl Into<Viewpoint>) -> Option<VariableInfo> {
        match self.find(name, from.into(), &[NameClass::Variables])? {
            GlobalName::Variable(variable) => Some(variable),
            _ => None,
        }
    }

    /// What a name means that no frame has, by the same rules as [`Symbols::find_global`]. A variable that the
    /// optimiser left no place for is found where nothing else has the name.
    pub fn find_name(&self, name: &str, from: impl Into<Viewpoint>) -> Option<GlobalName> {
        let from = from.into();
        self.find(name, from, &[NameClass::Variables, NameClass::Enumerators, NameClass::Code])
            .or_else(|| self.find(name, from, &[NameClass::Vanished]))
    }

    fn find(&self, name: &str, from: Viewpoint, classes: &[NameClass]) -> Option<GlobalName> {
        let pattern = NamePattern::new(name);
        let near = self.loaded_at(from.address);
        let is_near = |module: &LoadedModule| near.is_some_and(|near| near.id == module.id);
        let program = self.loaded().first().filter(|program| !is_near(program));
        let libraries = self.loaded().iter().skip(1).filter(|module| !is_near(module));
        let mut hidden = None;
        for module in near.into_iter().chain(program) {
            let here = is_near(module).then_some(from);
            match Search::new(self, module, &pattern, here).closest(classes) {
                Some((Closeness::OtherFunction, found)) => hidden = hidden.or(Some(found)),
                Some((_, found)) => return Some(found),
                None => {}
            }
        }
        let visible = libraries.into_iter().find_map(|module| {
            let (closeness, found) = Search::new(self, module, &pattern, None).closest(classes)?;
            // What a file of the system's libraries keeps for itself is never meant.
            let least = match module.separate() {
                Some(_) => Closeness::SameFile,
                None => Closeness::Elsewhere,
            };
            (closeness >= least).then_some(found)
        });
        // What another function keeps for itself is still better than nothing, but not a library's.
        visible.or(hidden)
    }
}

/// A search for a name in one module.
struct Search<'s> {
    symbols: &'s Symbols,
    module: &'s LoadedModule,
    pattern: &'s NamePattern,
    /// The function where it is asked for, when that is in this module: where it was declared.
    home: Option<DieRef>,
    /// The unit of the source file that this is in.
    unit: Option<usize>,
    /// The source file that declares the function.
    file: Option<String>,
    /// The namespaces and classes around that function.
    around: Vec<String>,
}

/// The variable that Rust's `thread_local!` makes.
const RUST_THREAD_LOCAL: &str = "__RUST_STD_INTERNAL_VAL";

impl<'s> Search<'s> {
    fn new(
        symbols: &'s Symbols,
        module: &'s LoadedModule,
        pattern: &'s NamePattern,
        here: Option<Viewpoint>,
    ) -> Self {
        let home = here.and_then(|here| here.home(module));
        let code = || module.debug()?.unit_at(module.to_file(here?.address));
        let unit = home.and_then(|home| unit_of(module, home)).or_else(code);
        let around = home.map_or_else(String::new, |home| module.scope_path(home));
        let file = home.and_then(|home| module.declaring_file(home));
        Self { symbols, module, pattern, home, unit, file, around: named_scopes(&around) }
    }

    fn closest(&self, classes: &[NameClass]) -> Option<(Closeness, GlobalName)> {
        let mut best: Option<((Closeness, Kinship), GlobalName)> = None;
        let candidates = self.module.named(base_name(self.pattern.last()), classes);
        let of_threads = self.module.named(RUST_THREAD_LOCAL, classes);
        for named in candidates.take(MOST).chain(of_threads.take(MOST)) {
            let Some(view) = self.module.debug().and_then(|debug| debug.view_of(named.die)) else { continue };
            let Some(entry) = view.entry(named.die) else { continue };
            let found = match named.kind {
                NameKind::Variable => self.variable(&view, &entry),
                NameKind::Enumerator => self.enumerator(&view, &entry),
                NameKind::Function => self.function(&view, &entry),
                NameKind::Vanished => self.vanished(&view, &entry),
                NameKind::Inlined | NameKind::Type => None,
            };
            let Some((name, found)) = found else { continue };
            let kinship = self.kinship(&view, &entry);
            let closeness = self.closeness(&view, &entry, &name, kinship);
            if !self.may_be_meant(&found, &name, closeness) {
                continue;
            }
            let closeness = (closeness, kinship);
            // The first of equals, but a variable before anything else.
            let is_better = best.as_ref().is_none_or(|(best, other)| match closeness.cmp(best) {
                std::cmp::Ordering::Equal => {
                    matches!(found, GlobalName::Variable(_)) && !matches!(other, GlobalName::Variable(_))
                }
                order => order.is_gt(),
            });
            if is_better {
                best = Some((closeness, found));
            }
        }
        best.map(|((closeness, _), found)| (closeness, found))
    }

    fn variable<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Option<(String, GlobalName)> {
        // A constant of a function may be one of a block that execution is not in.
        let die = view.die_ref(entry.offset());
        if !is_static(entry) && self.enclosing_function(view, die).is_some() {
            return None;
        }
        let mut found = global(self.module, view, entry)?;
        if let Some(name) = self.thread_local_name(&found.name) {
            if !self.is_linked(view, entry) {
                return None;
            }
            found.name = name;
        }
        self.fitting(found)
    }

    /// What Rust's source calls a variable of `thread_local!`, which debug information names by what the macro makes of it; none
    /// for other variables, and where that name itself is meant.
    fn thread_local_name(&self, name: &str) -> Option<String> {
        let (named, made) = name.split_once("::{constant#")?;
        (made.ends_with(RUST_THREAD_LOCAL) && self.pattern.last() != RUST_THREAD_LOCAL)
            .then(|| named.to_owned())
    }

    /// Whether the linker kept the variable: a thread-local one that it did not keep is described at the place of the first one.
    fn is_linked<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> bool {
        let Some(table) = self.module.symbol_table() else { return false };
        let Some(name) = view.linkage_name(entry) else { return false };
        let mut kept = table.symbols().iter().filter(|symbol| symbol.kind == SymbolType::ThreadLocal);
        kept.any(|symbol| table.name(symbol) == name.as_bytes())
    }

    fn vanished<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Option<(String, GlobalName)> {
        self.fitting(vanished(self.module, view, entry)?)
    }

    fn fitting(&self, variable: VariableInfo) -> Option<(String, GlobalName)> {
        let fits = self.pattern.matches(&variable.name);
        fits.then(|| (variable.name.clone(), GlobalName::Variable(variable)))
    }

    fn enumerator<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Option<(String, GlobalName)> {
        let index = self.module.debug()?.index(view.file, view.index)?;
        let around = index.scopes_of(entry.offset()).next()?;
        let enumeration = view.unit.entry(around).ok()?;
        if enumeration.tag() != gimli::DW_TAG_enumeration_type {
            return None;
        }
        let plain = view.name(entry)?;
        let type_ref = TypeRef { module: self.module.id, entry: view.die_ref(around).encode() };
        let is_c = unit_language(view) == Language::C;
        let outside = if is_c {
            plain.clone().into_owned()
        } else {
            self.module.qualified(view.die_ref(around), &plain)
        };
        let within = view.name(&enumeration).map(|name| {
            let path =
                if is_c { name.into_owned() } else { self.module.qualified(view.die_ref(around), &name) };
            format!("{path}::{plain}")
        });
        let is_scoped = flag(&enumeration, gimli::DW_AT_enum_class);
        let name = match within {
            Some(within) if is_scoped || !self.pattern.matches(&outside) => within,
            _ => outside,
        };
        if !self.pattern.matches(&name) {
            return None;
        }
        let found = self.symbols.get(type_ref)?;
        let TypeKind::Enum { enumerators, .. } = &found.kind else { return None };
        let (_, value) = enumerators.iter().find(|(known, _)| *known == plain)?;
        Some((name, GlobalName::Enumerator { type_ref, value: *value }))
    }

    fn function<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Option<(String, GlobalName)> {
        let function = self.module.function_die(view, entry)?;
        let name = self.module.function_names(function.die).name?;
        if !self.pattern.matches(&name) {
            return None;
        }
        let type_ref = TypeRef { module: self.module.id, entry: function.die.encode() };
        let address = self.module.to_runtime(function.ranges.first()?.start);
        Some((name, GlobalName::Function { type_ref, address }))
    }

    fn kinship<'a>(&self, view: &View<'a>, entry: &Entry<'a>) -> Kinship {
        let declared = self.module.declared_at(view.die_ref(entry.offset()));
        let own_unit = || self.module.debug().map(|debug| debug.own_unit(view));
        let unit = unit_of(self.module, declared).or_else(own_unit);
        let is_same_unit = self.unit.is_some() && self.unit == unit;
        let is_same_file = self.file.is_some() && self.file == self.module.declaring_file(declared);
        match (is_same_file, is_same_unit) {
            (true, true) => Kinship::Both,
            (true, false) => Kinship::File,
            (false, true) => Kinship::Unit,
            (false, false) => Kinship::Neither,
        }
    }

    fn closeness<'a>(&self, view: &View<'a>, entry: &Entry<'a>, name: &str, kinship: Kinship) -> Closeness {
        let die = view.die_ref(entry.offset());
        if let Some(around) = self.enclosing_function(view, die) {
            let is_same = self.home == Some(self.module.declared_at(around));
            return if is_same { Closeness::SameFunction } else { Closeness::OtherFunction };
        }
        let declared = self.module.declared_at(die);
        let is_same_file = kinship > Kinship::Neither;
        match self.left_out(name) {
            Some(depth) if is_same_file || self.is_shared(entry, declared) => Closeness::Around(depth),
            _ if is_same_file => Closeness::SameFile,
            _ => Closeness::Elsewhere,
        }
    }

    /// How many namespaces and classes of a name the pattern leaves out, if code here may leave them out.
    fn left_out(&self, name: &str) -> Option<usize> {
        let scopes = named_scopes(name);
        let left_out = scopes.len().saturating_sub(self.pattern.length());
        (self.around.get(..left_out)? == &scopes[..left_out]).then_some(left_out)
    }

    /// Methods and enumerators have many short names: one of these alone means what code here sees.
    fn may_be_meant(&self, found: &GlobalName, name: &str, closeness: Closeness) -> bool {
        let is_seen = self.pattern.length() > 1 || self.left_out(name).is_some();
        match found {
            GlobalName::Variable(_) => true,
            // Perhaps there is a `using`.
            GlobalName::Enumerator { .. } => is_seen || closeness == Closeness::SameFile,
            GlobalName::Function { .. } => is_seen,
        }
    }

    /// Whether other files see it too; they do of definitions that stand apart from their declaration.
    fn is_shared(&self, entry: &Entry<'_>, declared: DieRef) -> bool {
        let is_declared_external = || {
            let view = self.module.debug()?.view_of(declared)?;
            Some(flag(&view.entry(declared)?, gimli::DW_AT_external))
        };
        flag(entry, gimli::DW_AT_external)
            || entry.has_attr(gimli::DW_AT_specification)
            || is_declared_external() == Some(true)
    }

    fn enclosing_function(&self, view: &View<'_>, die: DieRef) -> Option<DieRef> {
        let index = self.module.debug()?.index(view.file, view.index)?;
        let mut scopes = index.scopes_of(view.offset_of(die)?);
        let function = scopes.find(|&scope| {
            view.unit.entry(scope).is_ok_and(|entry| entry.tag() == gimli::DW_TAG_subprogram)
        })?;
        Some(view.die_ref(function))
    }
}

/// Which of the module's own units an entry is in, where that stands for a source file.
fn unit_of(module: &LoadedModule, die: DieRef) -> Option<usize> {
    let debug = module.debug()?;
    let view = debug.view_of(die)?;
    (!view.is_partial()).then(|| debug.own_unit(&view))
}

/// The parts of a name, without those that source code does not write.
fn named_scopes(path: &str) -> Vec<String> {
    let parts = components(path).into_iter();
    parts.filter(|part| !part.is_empty() && !part.starts_with('(')).map(str::to_owned).collect()
}
