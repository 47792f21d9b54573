//! Finding places in the code: lines, statements, methods.

use std::{path::Path, rc::Rc};

use hindcast_core::debug::{CompletionKind, DebugError, Location, Place, Reason, SourceFile};

use super::{Session, sites::Site};
use crate::{
    files::{LARGEST_SOURCE, read_plain},
    image::{Method, Spelling, Token, TypeNames, pdb::LineMatch},
    modules::LoadedModule,
    names::method_name,
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
        let (mut places, mut moved, mut knows_file) = (Vec::new(), None, false);
        for module in self.modules.iter() {
            let Some(pdb) = module.pdb() else { continue };
            for document in pdb.documents_matching(file) {
                knows_file = true;
                let Some((kind, found)) = pdb.breakpoint_places(document, line) else { continue };
                for place in found {
                    if kind != LineMatch::Exact {
                        moved = Some(place.span.start_line);
                    }
                    let location = self.place_of(module, place.method, place.il);
                    places.push(CodePlace {
                        module: module.clone(),
                        method: place.method,
                        offset: place.il,
                        location,
                    });
                }
            }
        }
        let note = match (places.is_empty(), moved) {
            (true, _) if knows_file => Some(format!("no code is at or behind line {line} of `{file}`")),
            (true, _) => Some(format!("no loaded assembly has symbols for `{file}`")),
            (false, Some(moved)) => {
                Some(format!("line {line} has no code of its own; it is on line {moved}"))
            }
            (false, None) => None,
        };
        let may_come = !knows_file;
        Resolved { places, note, may_come }
    }

    fn resolve_statement(&self, file: &str, text: &str) -> Result<Resolved, DebugError> {
        let squeeze = |text: &str| text.split_whitespace().collect::<String>();
        let wanted = squeeze(text);
        if wanted.is_empty() {
            return Err(DebugError::BreakpointFailed("the statement is empty".into()));
        }
        let mut resolved = Resolved::default();
        for (path, source) in self.source_texts(file) {
            for (number, line) in (1u32..).zip(source.lines()) {
                if squeeze(line).contains(&wanted) {
                    let found = self.resolve_line(&path, number);
                    resolved
                        .places
                        .extend(found.places.into_iter().filter(|place| place.location.line == Some(number)));
                }
            }
        }
        if resolved.places.is_empty() {
            resolved.note = Some(format!("no line of `{file}` with code contains `{text}`"));
            resolved.may_come = true;
        }
        resolved.places.truncate(MOST_PLACES);
        Ok(resolved)
    }

    fn resolve_function(&self, name: &str) -> Result<Resolved, DebugError> {
        let pattern = FunctionPattern::read(name)?;
        let mut places = Vec::new();
        for module in self.modules.iter().filter(|module| module.is_mine()) {
            self.functions_in(module, &pattern, &mut places);
        }
        if places.is_empty() && pattern.is_qualified() {
            for module in self.modules.iter().filter(|module| !module.is_mine()) {
                self.functions_in(module, &pattern, &mut places);
            }
        }
        places.truncate(MOST_PLACES);
        let may_come = places.is_empty();
        let note = may_come.then(|| format!("no loaded assembly has a method `{name}`"));
        Ok(Resolved { places, note, may_come })
    }

    fn functions_in(
        &self,
        module: &Rc<LoadedModule>,
        pattern: &FunctionPattern,
        places: &mut Vec<CodePlace>,
    ) {
        let Some(assembly) = module.assembly() else { return };
        for method in assembly.methods().filter(|method| method.rva() != 0) {
            if places.len() >= MOST_PLACES {
                return;
            }
            if !pattern.may_match(method.name().unwrap_or_default()) {
                continue;
            }
            let Some(name) = method_name(method) else { continue };
            if pattern.matches(&name, method) {
                places.extend(self.beginning(module, method));
            }
        }
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
            let why = resolved.note.unwrap_or_else(|| "there is no such place".into());
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

/// Which methods are meant by a name.
#[derive(Debug)]
struct FunctionPattern {
    /// `Main`, `Program.Main`, `MyApp.Program.Main`.
    name: String,
    /// `int, string` of `Add(int, string)`.
    parameters: Option<String>,
    expression: Option<regex_lite::Regex>,
}

impl FunctionPattern {
    fn read(text: &str) -> Result<Self, DebugError> {
        let text = text.trim();
        if let Some(expression) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            let expression = regex_lite::Regex::new(expression).map_err(|error| {
                DebugError::BreakpointFailed(format!("`{text}` is no regular expression: {error}").into())
            })?;
            return Ok(Self { name: String::new(), parameters: None, expression: Some(expression) });
        }
        let (name, parameters) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), Some(without_blanks(rest.trim_end_matches(')')))),
            None => (text, None),
        };
        if name.is_empty() {
            return Err(DebugError::BreakpointFailed("the name of a method is empty".into()));
        }
        // Types of C++ and Rust are joined by colons, and habits last.
        let name = without_arguments(&name.replace("::", ".").replace('+', "."));
        Ok(Self { name, parameters, expression: None })
    }

    fn is_qualified(&self) -> bool {
        self.name.contains('.') || self.expression.is_some()
    }

    /// A quick look at the method's own name.
    fn may_match(&self, raw: &str) -> bool {
        let last = self.name.rsplit('.').next().unwrap_or_default();
        self.expression.is_some()
            || raw.contains(last)
            || raw == "MoveNext"
            || raw.starts_with(['<', '.'])
            || matches!(last, "get" | "set" | "add" | "remove" | "lambda")
    }

    fn matches(&self, name: &str, method: Method<'_>) -> bool {
        if let Some(expression) = &self.expression {
            return expression.is_match(name);
        }
        // The body of an async method or an iterator is found through the method that was written.
        if method.name() == Some("MoveNext") && !name.ends_with(".MoveNext") {
            return false;
        }
        let plain = without_arguments(name);
        let is_named = plain == self.name
            || plain.strip_suffix(&self.name).is_some_and(|before| before.ends_with('.'))
            || method.name() == Some(&self.name);
        is_named && self.parameters.as_ref().is_none_or(|wanted| *wanted == parameters_of(method))
    }
}

/// `int,string` of a method.
fn parameters_of(method: Method<'_>) -> String {
    struct Names<'a>(Method<'a>);
    impl TypeNames for Names<'_> {
        fn type_name(&self, token: Token) -> Option<String> {
            self.0.assembly().type_full_name(token)
        }

        fn type_parameter(&self, number: u32) -> Option<String> {
            let parameters = self.0.declaring_type()?.generic_parameters();
            parameters.get(number as usize).map(|parameter| parameter.name.to_owned())
        }

        fn method_parameter(&self, number: u32) -> Option<String> {
            self.0.generic_parameters().get(number as usize).map(|parameter| parameter.name.to_owned())
        }
    }
    let names = Names(method);
    let Ok(signature) = method.signature() else { return String::new() };
    let types: Vec<_> = signature.parameters.iter().map(|of| of.spell(&names, Spelling::Short)).collect();
    without_blanks(&types.join(","))
}

fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

/// A name without what stands between angle brackets.
fn without_arguments(name: &str) -> String {
    let (mut plain, mut depth) = (String::with_capacity(name.len()), 0u32);
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' if depth > 0 => depth -= 1,
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_types_do_not_count_in_names() {
        assert_eq!(without_arguments("Ns.Box<List<int>>.Get<T>"), "Ns.Box.Get");
    }

    #[test]
    fn parameters_choose_among_overloads() {
        let pattern = FunctionPattern::read(" Program.Add(int, string) ").unwrap();
        assert_eq!(
            (pattern.name.as_str(), pattern.parameters.as_deref()),
            ("Program.Add", Some("int,string"))
        );
        assert!(pattern.is_qualified());
        assert!(FunctionPattern::read("/[/").is_err());
    }
}
