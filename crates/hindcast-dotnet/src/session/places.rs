//! Finding places in the code: lines, statements, methods.

use std::{path::Path, rc::Rc};

use hindcast_core::debug::{CompletionKind, DebugError, Location, Place, Reason, SourceFile};

use super::{
    Session,
    functions::{FunctionPattern, Meant},
    sites::Site,
};
use crate::{
    files::{LARGEST_SOURCE, read_plain},
    image::{Method, Token, pdb::LineMatch},
    modules::LoadedModule,
    names::method_name,
    visible::visible,
};

/// A place that a breakpoint can be set at.
#[derive(Debug, Clone)]
pub(super) struct CodePlace {
    pub(super) module: Rc<LoadedModule>,
    pub(super) method: Token,
    pub(super) offset: u32,
    pub(super) location: Location,
}

impl CodePlace {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.module, &other.module) && (self.method, self.offset) == (other.method, other.offset)
    }
}

/// What a place means in the program as it is.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) places: Vec<CodePlace>,
    /// What is to be said of it; why there is nothing, where there is nothing.
    pub(super) note: Option<String>,
    /// Whether another assembly may have it that is not loaded yet.
    pub(super) may_come: bool,
}

/// The methods that a name may mean.
#[derive(Debug, Default)]
struct Found {
    named: Vec<CodePlace>,
    /// Accessors of properties and events of that name.
    members: Vec<CodePlace>,
    /// Methods that the compiler made, such as the accessors of an event.
    without_source: Vec<CodePlace>,
    /// Whether the name has types for parameters, of which no breakpoint can be for some only.
    has_type_arguments: bool,
}

impl Found {
    fn is_empty(&self) -> bool {
        self.named.is_empty() && self.members.is_empty() && self.without_source.is_empty()
    }
}

/// How alike the names of files must be to be worth a hint: many begin and end alike.
const ALIKE_FILE: f64 = 0.9;

/// So many places at most; a regular expression may match everything.
const MOST_PLACES: usize = 1000;

impl Session {
    /// Where a place is in what is loaded.
    pub(super) fn resolve(&self, place: &Place) -> Result<Resolved, DebugError> {
        match place {
            Place::Address(_) => Err(DebugError::Unsupported(
                Reason::new("a .NET session has no addresses of code")
                    .advise("give `file` and `line`, or `function`"),
            )),
            Place::Line { file, line } => Ok(self.resolve_line(file, *line)),
            Place::Statement { file, text } => self.resolve_statement(file, text),
            Place::Function(name) => self.resolve_function(name),
        }
    }

    fn resolve_line(&self, file: &str, line: u32) -> Resolved {
        let (mut matches, mut knows_file) = (Vec::new(), false);
        for module in self.modules.iter() {
            let Some(pdb) = module.pdb() else { continue };
            let is_constructor = |method| {
                let method = module.assembly().and_then(|assembly| assembly.method(method));
                method.is_some_and(|method| matches!(method.name(), Some(".ctor" | ".cctor")))
            };
            for document in pdb.documents_matching(file) {
                knows_file = true;
                let found = pdb.breakpoint_places(document, line, is_constructor);
                let Some((kind, found)) = found else { continue };
                matches.extend(found.into_iter().map(|place| (kind, module, place)));
            }
        }
        // Of several files with the same name, or a file in several assemblies, one may have the line in a method.
        if matches.iter().any(|(kind, ..)| *kind != LineMatch::Beyond) {
            matches.retain(|(kind, ..)| *kind != LineMatch::Beyond);
        }
        let moved = matches.iter().find(|(kind, ..)| *kind != LineMatch::Exact);
        let note = match (moved, matches.is_empty()) {
            (Some((.., place)), _) => {
                let moved = place.span.start_line;
                Some(format!("line {line} has no code of its own; it is on line {moved}"))
            }
            (None, false) => None,
            (None, true) if knows_file => Some(format!("no code is at or behind line {line} of `{file}`")),
            (None, true) => Some(format!("no loaded assembly has symbols for `{file}`")),
        };
        let places = matches.iter().map(|(_, module, place)| self.code_place(module, place.method, place.il));
        Resolved { places: places.collect(), note, may_come: !knows_file }
    }

    fn resolve_statement(&self, file: &str, text: &str) -> Result<Resolved, DebugError> {
        let wanted: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        if wanted.is_empty() {
            return Err(DebugError::BreakpointFailed("the statement is empty".into()));
        }
        let mut resolved = Resolved::default();
        for (path, source) in self.source_texts(file) {
            for (from, to) in stretches(&source, &wanted, text.trim().contains('\n')) {
                let mut found = self.places_around(&path, from, to);
                if found.is_empty() {
                    // It is more than a statement, or beside one.
                    found = self.resolve_line(&path, from.0).places;
                    found.retain(|place| place.location.line == Some(from.0));
                }
                found.retain(|place| !resolved.places.iter().any(|known| known.is_same(place)));
                resolved.places.extend(found);
            }
        }
        if resolved.places.is_empty() {
            resolved.note = Some(format!("no line of `{file}` with code contains `{text}`"));
            resolved.may_come = true;
        }
        resolved.places.truncate(MOST_PLACES);
        Ok(resolved)
    }

    /// The statement that a stretch of a source lies in, in all assemblies that are made of the source.
    fn places_around(&self, path: &str, from: (u32, u32), to: (u32, u32)) -> Vec<CodePlace> {
        let mut places = Vec::new();
        for module in self.modules.iter() {
            let Some(pdb) = module.pdb() else { continue };
            let documents = pdb.documents_matching(path).into_iter();
            let found = documents.flat_map(|document| pdb.places_around(document, from, to));
            places.extend(found.map(|place| self.code_place(module, place.method, place.il)));
        }
        places
    }

    fn resolve_function(&self, name: &str) -> Result<Resolved, DebugError> {
        let pattern = FunctionPattern::read(name)?;
        let mut found = Found::default();
        for module in self.modules.iter().filter(|module| module.is_mine()) {
            self.functions_in(module, &pattern, &mut found);
        }
        if found.is_empty() && pattern.is_qualified() {
            for module in self.modules.iter().filter(|module| !module.is_mine()) {
                self.functions_in(module, &pattern, &mut found);
            }
        }
        let of_all = "it stops whatever the type arguments are: only a condition can tell them apart";
        let (mut places, mut note) = (found.named, found.has_type_arguments.then(|| of_all.to_owned()));
        if places.is_empty() {
            places = found.members;
        }
        if places.is_empty() && !pattern.is_expression() {
            places = found.without_source;
            note = Some(format!("`{name}` has no source of its own; it is at its first instruction"));
        }
        places.truncate(MOST_PLACES);
        let may_come = places.is_empty();
        if may_come {
            note = Some(format!("no loaded assembly has a method `{name}`"));
        }
        Ok(Resolved { places, note, may_come })
    }

    fn functions_in(&self, module: &Rc<LoadedModule>, pattern: &FunctionPattern, found: &mut Found) {
        let Some(assembly) = module.assembly() else { return };
        for method in assembly.methods().filter(|method| method.rva() != 0) {
            if found.named.len() >= MOST_PLACES {
                return;
            }
            let Some(meant) = pattern.means(method) else { continue };
            found.has_type_arguments |= pattern.has_type_arguments_for(method);
            let list = match meant {
                Meant::Itself => &mut found.named,
                Meant::Member => &mut found.members,
            };
            match self.beginning(module, method) {
                Some(place) => list.push(place),
                None => found.without_source.push(self.code_place(module, method.token(), 0)),
            }
        }
    }

    /// What may be meant by a place that is nowhere: methods or files of the program that are called nearly so.
    pub(super) fn hint(&self, place: &Place) -> String {
        let mut alike = match place {
            Place::Function(name) => self.similar_functions(name),
            Place::Line { file, .. } | Place::Statement { file, .. } => self.similar_files(file),
            Place::Address(_) => Vec::new(),
        };
        alike.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        alike.dedup_by(|one, other| one.1 == other.1);
        let names: Vec<String> = alike.into_iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
        match names.split_last() {
            None => String::new(),
            Some((only, [])) => format!(" (did you mean {only}?)"),
            Some((last, others)) => format!(" (did you mean {} or {last}?)", others.join(", ")),
        }
    }

    fn similar_functions(&self, name: &str) -> Vec<(f64, String)> {
        let Ok(pattern) = FunctionPattern::read(name) else { return Vec::new() };
        let mine = self.modules.iter().filter(|module| module.is_mine());
        let assemblies = mine.filter_map(|module| module.assembly());
        let methods = assemblies.flat_map(|assembly| assembly.methods()).filter(|method| method.rva() != 0);
        let similar = methods.filter_map(|method| {
            let mut name = method_name(method)?;
            let is_accessor = [".get", ".set", ".add", ".remove"].iter().find(|end| name.ends_with(*end));
            name.truncate(name.len() - is_accessor.map_or(0, |end| end.len()));
            Some((pattern.likeness(&name)?, name))
        });
        similar.collect()
    }

    /// Names of sources that are nearly those of a file which no symbols name.
    fn similar_files(&self, file: &str) -> Vec<(f64, String)> {
        let wanted = file_name(file).to_lowercase();
        let mine = self.modules.iter().filter(|module| module.is_mine());
        let pdbs: Vec<_> = mine.filter_map(|module| module.pdb()).collect();
        if pdbs.iter().any(|pdb| !pdb.documents_matching(file).is_empty()) {
            return Vec::new();
        }
        let paths = pdbs.iter().flat_map(|pdb| pdb.documents().filter_map(|document| document.path()));
        let similar = paths.filter_map(|path| {
            let name = file_name(&path);
            let likeness = strsim::jaro_winkler(&name.to_lowercase(), &wanted);
            // A file of that very name is in another folder.
            let told = if name == file_name(file) { visible(&path) } else { visible(name) };
            (likeness >= ALIKE_FILE).then(|| (likeness, told.into_owned()))
        });
        similar.collect()
    }

    /// The first statement of a method; of an async method or an iterator, the first of its body.
    pub(super) fn beginning(&self, module: &Rc<LoadedModule>, method: Method<'_>) -> Option<CodePlace> {
        let mut token = method.token();
        let mut offset = 0;
        if let Some(pdb) = module.pdb() {
            token = pdb.move_next_method(token).unwrap_or(token);
            let points = pdb.sequence_points(token).ok()?;
            offset = points.iter().find(|point| point.span.is_some())?.il;
        }
        let location = self.place_of(module, token, offset);
        Some(CodePlace { module: module.clone(), method: token, offset, location })
    }

    /// Where the program stops for a movement to a place.
    pub(super) fn sites_at(&self, place: &Place) -> Result<Vec<Rc<Site>>, DebugError> {
        let resolved = self.resolve(place)?;
        if resolved.places.is_empty() {
            let why = resolved.note.unwrap_or_else(|| "there is no such place".into()) + &self.hint(place);
            let reason = Reason::new(why);
            return Err(DebugError::BreakpointFailed(match resolved.may_come {
                true => reason.advise("set a breakpoint there: it waits for the assembly that has it"),
                false => reason,
            }));
        }
        resolved.places.iter().map(|place| self.sites.hold(place).map_err(super::failed)).collect()
    }

    /// Sources that end in `file`, with their texts.
    fn source_texts(&self, file: &str) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for module in self.modules.iter() {
            let Some(pdb) = module.pdb() else { continue };
            for document in pdb.documents_matching(file) {
                let Some(path) = document.path() else { continue };
                if found.iter().any(|(known, _)| *known == path) {
                    continue;
                }
                let on_disk = read_plain(Path::new(&path), LARGEST_SOURCE).ok();
                let text = on_disk.or_else(|| document.embedded_source().ok().flatten());
                if let Some(text) = text {
                    found.push((path, String::from_utf8_lossy(&text).into_owned()));
                }
            }
        }
        found
    }

    /// Where to read a source that the symbols name.
    pub(super) fn source_of(&self, path: &str) -> Option<SourceFile> {
        for module in self.modules.iter() {
            let Some(pdb) = module.pdb() else { continue };
            let Some(document) = pdb.documents_matching(path).into_iter().next() else { continue };
            let on_disk = document.path()?;
            if let Ok(bytes) = read_plain(Path::new(&on_disk), LARGEST_SOURCE) {
                let changed = document.matches(&bytes) == Some(false);
                return Some(SourceFile { path: Some(on_disk.into()), text: None, changed });
            }
            let embedded = document.embedded_source().ok().flatten();
            let text = embedded.map(|bytes| String::from_utf8_lossy(&bytes).into_owned().into());
            return Some(SourceFile { path: Some(on_disk.into()), text, changed: false });
        }
        None
    }

    pub(super) fn completions(&mut self, kind: CompletionKind, prefix: &str, limit: usize) -> Vec<String> {
        let mut found: Vec<String> = match kind {
            CompletionKind::File => {
                let pdbs = self.modules.iter().filter_map(|module| module.pdb());
                let paths = pdbs.flat_map(|pdb| pdb.documents().filter_map(|document| document.path()));
                paths.filter(|path| path.starts_with(prefix) || file_name(path).starts_with(prefix)).collect()
            }
            CompletionKind::Function => {
                let mine = self.modules.iter().filter(|module| module.is_mine());
                let methods =
                    mine.filter_map(|module| module.assembly()).flat_map(|assembly| assembly.methods());
                let names = methods.filter_map(method_name);
                names
                    .filter(|name| {
                        name.starts_with(prefix) || crate::names::short_name(name).starts_with(prefix)
                    })
                    .collect()
            }
            CompletionKind::Variable => self.variable_names(prefix),
        };
        found.sort();
        found.dedup();
        found.truncate(limit);
        found
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// A letter of a source, the line and column where it stands, and those behind it.
type Letter = (char, (u32, u32), (u32, u32));

/// Where a source contains a text, whatever blanks are in either: the line and column where it begins, and those behind it.
/// Columns count UTF-16 units, as in symbols. Only a text of several lines may go on over the end of a line.
fn stretches(source: &str, wanted: &[char], is_of_several_lines: bool) -> Vec<((u32, u32), (u32, u32))> {
    let mut letters: Vec<Letter> = Vec::new();
    for (number, line) in (1u32..).zip(source.lines()) {
        let mut column = 1;
        for letter in line.trim_start_matches('\u{feff}').chars() {
            let next = column + letter.len_utf16() as u32;
            if !letter.is_whitespace() {
                letters.push((letter, (number, column), (number, next)));
            }
            column = next;
        }
    }
    let is_found = |window: &&[Letter]| {
        let is_on_a_line = window[0].1.0 == window[window.len() - 1].1.0;
        (is_on_a_line || is_of_several_lines)
            && window.iter().map(|letter| letter.0).eq(wanted.iter().copied())
    };
    let found = letters.windows(wanted.len().max(1)).filter(is_found);
    found.map(|window| (window[0].1, window[window.len() - 1].2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_whatever_blanks_are_in_it() {
        let find = |source: &str, text: &str| {
            let wanted: Vec<char> = text.chars().filter(|letter| !letter.is_whitespace()).collect();
            stretches(source, &wanted, text.contains('\n'))
        };
        let source = "\u{feff}for (i = 0; i < 3; i ++)\n\t\"\u{1f600}\"; i++;\na +\nb;\n";
        assert_eq!(find(source, "i++"), [((1, 20), (1, 24)), ((2, 8), (2, 11))]);
        assert_eq!(find(source, "a + b"), []);
        assert_eq!(find(source, "a +\nb"), [((3, 1), (4, 2))]);
    }
}
