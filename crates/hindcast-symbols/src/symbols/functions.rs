//! Functions by name.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use memchr::memmem;

use super::{Symbols, code::symbol_function};
use crate::{
    demangle,
    dwarf::{DieRef, Entry},
    elf::SymbolType,
    module::{FunctionDie, LoadedModule, NameClass, NameKind, Named, all_named, base_name},
    names::LONGEST_NAME,
};

/// Which functions are meant.
#[derive(Debug, Clone)]
pub enum FunctionPattern {
    /// A name as source code writes it. What is left out matches everything: `f` is also `ns::f` and
    /// `f<int>`, `Type::method` also `ns::Type::method`.
    Exact(String),
    /// A regular expression, searched for in the qualified name.
    Regex(regex_lite::Regex),
}

/// Why a text says of no function that it is meant.
#[derive(Debug, thiserror::Error)]
pub enum PatternError {
    /// No function has such a name.
    #[error("a name of {length} bytes, longer than the {LONGEST_NAME} that names may have")]
    TooLong {
        /// In bytes.
        length: usize,
    },
    /// What is between slashes is no regular expression.
    #[error(transparent)]
    Regex(#[from] regex_lite::Error),
}

impl FunctionPattern {
    /// A name, or a regular expression between slashes.
    pub fn read(text: &str) -> Result<Self, PatternError> {
        if text.len() > LONGEST_NAME {
            return Err(PatternError::TooLong { length: text.len() });
        }
        match text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(expression) => Ok(Self::Regex(regex_lite::Regex::new(expression)?)),
            None => Ok(Self::Exact(text.to_owned())),
        }
    }

    /// Whether a qualified name is one of these.
    pub fn matches(&self, name: &str) -> bool {
        Matcher::new(self).matches(name)
    }
}

/// Where execution reaches a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionTarget {
    /// Qualified, without parameters.
    pub name: String,
    /// Behind the prologue.
    pub address: u64,
    /// Whether this is a copy within another function.
    pub inlined: bool,
    /// The file of that address.
    pub file: Option<Arc<str>>,
    /// The line of that address.
    pub line: Option<u32>,
}

impl Symbols {
    /// The functions of a name, and where they are inlined; at most `limit` addresses.
    ///
    /// Debug information that lies apart from its module, as that of the system's libraries does, is
    /// searched only where nothing else names the function: it is large, and what is asked for is
    /// hardly ever inlined in there.
    pub fn functions_named(&self, pattern: &FunctionPattern, limit: usize) -> Vec<FunctionTarget> {
        let matcher = Matcher::new(pattern);
        let mut targets = Vec::new();
        for module in self.loaded() {
            let mut found = Found::new();
            from_symbol_table(module, &matcher, limit, &mut found);
            if module.separate().is_none() {
                from_debug_information(module, &matcher, limit, &mut found);
            }
            add_targets(module, found, limit, &mut targets);
        }
        if targets.is_empty() {
            for module in self.loaded().iter().filter(|module| module.separate().is_some()) {
                let mut found = Found::new();
                from_debug_information(module, &matcher, limit, &mut found);
                add_targets(module, found, limit, &mut targets);
            }
        }
        targets
    }
}

/// Addresses behind prologues, with name and whether inlined.
type Found = BTreeMap<u64, (String, bool)>;

fn add_targets(module: &LoadedModule, found: Found, limit: usize, targets: &mut Vec<FunctionTarget>) {
    for (address, (name, inlined)) in found {
        if targets.len() >= limit {
            return;
        }
        let row = module.line_row_at(address);
        let (file, line) = row.map_or((None, None), |row| (row.file, Some(row.line)));
        targets.push(FunctionTarget { name, address: module.to_runtime(address), inlined, file, line });
    }
}

fn from_symbol_table(module: &LoadedModule, matcher: &Matcher<'_>, limit: usize, found: &mut Found) {
    let Some(table) = module.symbol_table() else { return };
    let part = matcher.necessary_part();
    let finder = memmem::Finder::new(part.as_bytes());
    for symbol in table.symbols() {
        if symbol.kind != SymbolType::Function || found.len() >= limit {
            continue;
        }
        let name = table.name(symbol);
        if finder.find(name).is_none() || is_piece(name) {
            continue;
        }
        let readable = demangle::readable(&String::from_utf8_lossy(name));
        if !matcher.matches(&readable) || !module.is_code(symbol.address) {
            continue;
        }
        let address = match module.function_die_at(symbol.address) {
            Some(function) if function.ranges.iter().any(|range| range.start == symbol.address) => {
                module.after_prologue(&function)
            }
            _ => match symbol_function(module, symbol.address) {
                Some(function) => module.to_file(function.after_prologue),
                None => symbol.address,
            },
        };
        found.entry(address).or_insert((readable, false));
    }
}

/// Whether a symbol is only a part of a function, or a special copy of it, such as `parse.cold`.
fn is_piece(symbol: &[u8]) -> bool {
    // Rust writes `..` for `::` within its names, which end with `E`.
    let end = if symbol.starts_with(b"_ZN") { memchr::memrchr(b'E', symbol) } else { None };
    symbol[end.unwrap_or(0)..].contains(&b'.')
}

fn from_debug_information(module: &LoadedModule, matcher: &Matcher<'_>, limit: usize, found: &mut Found) {
    let Some(debug) = module.debug().filter(|_| found.len() < limit) else { return };
    let candidates: Box<dyn Iterator<Item = Named>> = match matcher {
        Matcher::Name(pattern) => Box::new(module.named(base_name(pattern.last()), &[NameClass::Code])),
        Matcher::Regex(_) => Box::new(all_named(debug)),
    };
    let (mut inlined, mut verdicts) = (HashMap::new(), HashMap::new());
    for named in candidates {
        if found.len() >= limit {
            return;
        }
        match named.kind {
            NameKind::Function => {
                let Some(function) = concrete(module, named.die) else { continue };
                // All that the symbol table names was looked at already.
                if matches!(matcher, Matcher::Regex(_)) && module.has_symbol_at(function.ranges[0].start) {
                    continue;
                }
                let address = module.after_prologue(&function);
                if found.contains_key(&address) {
                    continue;
                }
                if let Some(name) = module.function_names(named.die).name.filter(|name| matcher.matches(name))
                {
                    found.insert(address, (name, false));
                }
            }
            NameKind::Inlined => {
                let Some(name) = module.function_names(named.die).name else { continue };
                // Every unit that inlines a function tells of it: matching the name once is enough.
                let fits = match verdicts.get(&name) {
                    Some(&fits) => fits,
                    None => *verdicts.entry(name.clone()).or_insert_with(|| matcher.matches(&name)),
                };
                if fits {
                    inlined.insert(named.die, name);
                }
            }
            NameKind::Type | NameKind::Variable | NameKind::Enumerator | NameKind::Vanished => {}
        }
    }
    add_inlined_copies(module, &inlined, found);
}

fn concrete(module: &LoadedModule, die: DieRef) -> Option<FunctionDie> {
    let view = module.debug()?.view_of(die)?;
    let entry = view.entry(die)?;
    module.function_die(&view, &entry)
}

/// Adds where copies of functions begin that were inlined in others. Each unit is read once.
fn add_inlined_copies(module: &LoadedModule, origins: &HashMap<DieRef, String>, found: &mut Found) {
    let Some(debug) = module.debug() else { return };
    let mut units = BTreeSet::new();
    for origin in origins.keys() {
        let home = debug.file(origin.file).and_then(|file| file.unit_of(debug.own(), *origin));
        units.extend(home.map(|home| (origin.file, home)));
    }
    if units.iter().any(|(file, _)| *file == 0) {
        // Link-time optimisation makes copies in other units.
        let others = (0..debug.units().len()).filter(|&unit| {
            let is_told = units.contains(&(0, unit));
            !is_told && debug.view(0, unit).is_some_and(|view| view.inlines_from_others())
        });
        let others: Vec<_> = others.map(|unit| (0, unit)).collect();
        units.extend(others);
    }
    for (file, unit) in units {
        let _ = copies_in(module, file, unit, origins, found);
    }
}

fn copies_in(
    module: &LoadedModule,
    file: u32,
    unit: usize,
    origins: &HashMap<DieRef, String>,
    found: &mut Found,
) -> Option<()> {
    let debug = module.debug()?;
    let view = debug.view(file, unit)?;
    let mut entries = view.unit.entries_raw(None).ok()?;
    let mut entry = Entry::null();
    while !entries.is_empty() {
        let abbreviation = entries.read_abbreviation().ok()?;
        let Some(abbreviation) = abbreviation else { continue };
        if abbreviation.tag() != gimli::DW_TAG_inlined_subroutine {
            entries.skip_attributes(abbreviation.attributes()).ok()?;
            continue;
        }
        entries.read_attributes(abbreviation.attributes(), &mut entry.attrs).ok()?;
        let origin = debug.attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin);
        let Some(name) = origin.and_then(|origin| origins.get(&origin)) else { continue };
        let ranges = module.code_ranges(&view, &entry);
        let entry_pc = entry.attr_value(gimli::DW_AT_entry_pc).and_then(|value| view.address(value));
        let entry_pc = entry_pc.filter(|&pc| crate::dwarf::die::contains(&ranges, pc));
        if let Some(start) = entry_pc.or(ranges.first().map(|range| range.start)) {
            found.entry(start).or_insert_with(|| (name.clone(), true));
        }
    }
    Some(())
}

pub(super) enum Matcher<'p> {
    Name(NamePattern),
    Regex(&'p regex_lite::Regex),
}

impl<'p> Matcher<'p> {
    pub(super) fn new(pattern: &'p FunctionPattern) -> Self {
        match pattern {
            FunctionPattern::Exact(name) => Self::Name(NamePattern::new(name)),
            FunctionPattern::Regex(regex) => Self::Regex(regex),
        }
    }

    fn matches(&self, name: &str) -> bool {
        match self {
            Self::Name(pattern) => pattern.matches(name),
            Self::Regex(regex) => regex.is_match(name),
        }
    }

    /// What mangled names must contain.
    fn necessary_part(&self) -> &str {
        match self {
            Self::Name(pattern) => {
                let word = base_name(pattern.last());
                let is_word = word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                // Operators, destructors and closures are mangled into something else.
                if is_word { word } else { "" }
            }
            Self::Regex(_) => "",
        }
    }
}

/// A name that may leave out outer namespaces and generic arguments.
pub(super) struct NamePattern {
    components: Vec<String>,
    rooted: bool,
}

impl NamePattern {
    pub(super) fn new(name: &str) -> Self {
        let name = name.trim();
        // Parameters after a name are not told apart.
        let name = match name.rfind('(') {
            Some(at)
                if name.ends_with(')') && at > 0 && !name.contains("operator") && !name.starts_with('(') =>
            {
                name[..at].trim_end()
            }
            _ => name,
        };
        let (name, rooted) = name.strip_prefix("::").map_or((name, false), |rest| (rest, true));
        let squeezed = squeeze(name);
        Self { components: components(&squeezed).into_iter().map(str::to_owned).collect(), rooted }
    }

    /// How many parts it has.
    pub(super) fn length(&self) -> usize {
        self.components.len()
    }

    pub(super) fn last(&self) -> &str {
        self.components.last().map_or("", String::as_str)
    }

    pub(super) fn matches(&self, name: &str) -> bool {
        let squeezed = squeeze(name);
        let theirs = components(&squeezed);
        self.fits(&theirs) || self.fits_implementation(&theirs)
    }

    fn fits(&self, theirs: &[&str]) -> bool {
        let Some(skipped) = theirs.len().checked_sub(self.components.len()) else { return false };
        if self.components.is_empty() || self.rooted && skipped > 0 {
            return false;
        }
        std::iter::zip(&self.components, &theirs[skipped..]).all(|(ours, theirs)| fits_part(ours, theirs))
    }

    /// `Type::method` and `Trait::method` mean `<module::Type as module::Trait>::method`, and the first also
    /// `<module::Type>::method`.
    fn fits_implementation(&self, theirs: &[&str]) -> bool {
        let Some(at) = theirs.iter().position(|part| part.starts_with('<') && part.ends_with('>')) else {
            return false;
        };
        let inner = &theirs[at][1..theirs[at].len() - 1];
        let (of, implemented) = inner.split_once(" as ").map_or((inner, None), |(of, it)| (of, Some(it)));
        std::iter::once(of).chain(implemented).any(|part| {
            let expanded: Vec<&str> =
                components(part).into_iter().chain(theirs[at + 1..].iter().copied()).collect();
            self.fits(&expanded)
        })
    }
}

/// Whether one part of a name is another; generic arguments, modules of a type and its trait, and the number of a
/// closure may be left out.
fn fits_part(ours: &str, theirs: &str) -> bool {
    let implementation = |part: &str| -> Option<(String, String)> {
        let (of, implemented) = part.strip_prefix('<')?.strip_suffix('>')?.split_once(" as ")?;
        Some((of.to_owned(), implemented.to_owned()))
    };
    if let (Some(ours), Some(theirs)) = (implementation(ours), implementation(theirs)) {
        return NamePattern::new(&ours.0).matches(&theirs.0) && NamePattern::new(&ours.1).matches(&theirs.1);
    }
    let is_closure = |part: &str| part == "{{closure}}" || part.starts_with("{closure#");
    ours == theirs
        || !ours.contains('<') && ours == base_name(theirs)
        // Rust's names may be told without them.
        || !theirs.contains('<') && base_name(ours) == theirs
        || is_closure(ours) && is_closure(theirs)
}

/// The parts of a qualified name: what `::` separates outside of brackets.
pub(super) fn components(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let (mut parts, mut start, mut depth, mut at) = (Vec::new(), 0, 0usize, 0);
    while at < bytes.len() {
        match bytes[at] {
            // `operator<` and its kin open nothing, `->` closes nothing.
            b'<' | b'>' if name[start..].starts_with("operator") && depth == 0 => {}
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => {
                parts.push(&name[start..at]);
                start = at + 2;
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&name[start..]);
    parts
}

/// Without the spaces that compilers and people set differently.
fn squeeze(name: &str) -> String {
    let mut squeezed = String::with_capacity(name.len());
    let mut characters = name.chars().peekable();
    while let Some(character) = characters.next() {
        if character != ' ' {
            squeezed.push(character);
            continue;
        }
        let word = |character: Option<char>| character.is_some_and(|of| of.is_alphanumeric() || of == '_');
        let (before, next) = (squeezed.chars().last(), characters.peek().copied());
        // Between words, and around `as`, a space means something.
        let between_words = (word(before) || before == Some('>')) && word(next);
        let after_as = matches!(next, Some('<' | '&' | '*')) && squeezed.ends_with(" as");
        if between_words || after_as {
            squeezed.push(' ');
        }
    }
    squeezed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_with_outer_parts_left_out() {
        let cases = [
            ("f", "f", true),
            ("f", "ns::f", true),
            ("f", "f<int>", true),
            ("f", "ns::g", false),
            ("f", "ff", false),
            ("f<int>", "ns::f<int>", true),
            ("f<int>", "f<double>", false),
            ("ns::f", "outer::ns::f", true),
            ("::f", "ns::f", false),
            ("Type::method", "Type<int, char>::method", true),
            ("Type<int,char>::method", "Type<int, char>::method", true),
            ("Point::len", "<geometry::Point as geometry::Shape>::len", true),
            ("<geometry::Point as geometry::Shape>::len", "<geometry::Point as geometry::Shape>::len", true),
            ("<Point as Shape>::len", "<geometry::Point as geometry::Shape>::len", true),
            ("<Line as Shape>::len", "<geometry::Point as geometry::Shape>::len", false),
            ("Shape::len", "<geometry::Point as geometry::Shape>::len", true),
            ("Cart<u8>::add", "shop::Cart::add", true),
            ("main::{{closure}}", "calls::main::{{closure}}", true),
            ("main::{closure#0}", "calls::main::{{closure}}", true),
            ("add(int, int)", "add", true),
            ("operator<", "ns::operator<", true),
        ];
        for (pattern, name, fits) in cases {
            assert_eq!(NamePattern::new(pattern).matches(name), fits, "{pattern} on {name}");
        }
    }

    #[test]
    fn names_are_split_outside_of_brackets() {
        assert_eq!(components("a::b<c::d>::e"), ["a", "b<c::d>", "e"]);
        assert_eq!(components("<a::B as c::D>::e"), ["<a::B as c::D>", "e"]);
        assert_eq!(components("ns::operator<"), ["ns", "operator<"]);
        assert_eq!(components("main"), ["main"]);
    }
}
