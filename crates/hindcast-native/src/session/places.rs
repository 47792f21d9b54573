//! What the places of breakpoints mean in the program: lines, functions, statements.

use hindcast_core::debug::{Location, Place, Reason};
use hindcast_symbols::{
    FunctionPattern, FunctionTarget, LineTarget, Symbols, in_last_parentheses, names::cut, read_plain,
};

use super::Session;
use crate::look::{file_name, too_long};

/// No source that a person reads is larger. Debug information may name any file.
const LARGEST_SOURCE: u64 = 8 << 20;

/// So many places at most; a regular expression may match everything.
const MOST_TARGETS: usize = 1000;

/// What a place means in the program as it is.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    pub(super) targets: Vec<Location>,
    /// What is to be said of it; why there is nothing, where there is nothing.
    pub(super) note: Option<Reason>,
    /// Whether nothing that is loaded later can change that there is nothing.
    pub(super) is_impossible: bool,
}

impl Session {
    /// What a place means in the program as it is.
    pub(super) fn resolve(&self, place: &Place) -> Resolved {
        if let Some(reason) = too_long(place) {
            return Resolved::nothing(reason);
        }
        match place {
            Place::Address(address) => {
                Resolved { targets: vec![self.location(address.0)], ..Resolved::default() }
            }
            Place::Line { file, line } => self.resolve_line(file, *line),
            Place::Function(name) => self.resolve_function(name),
            Place::Statement { file, text } => self.resolve_statement(file, text),
        }
    }

    fn resolve_line(&self, file: &str, line: u32) -> Resolved {
        let found = self.symbols.addresses_of_line(file, line);
        let mut addresses = Vec::new();
        let mut doubt = None;
        for target in found.targets.iter().take(MOST_TARGETS) {
            let pieces = self.pieces(target);
            if pieces.is_doubtful {
                doubt = doubt.or(Some(target));
            }
            addresses.push(target.address);
            addresses.extend(pieces.copies);
        }
        addresses.sort_unstable();
        addresses.dedup();
        let targets: Vec<_> =
            addresses.into_iter().take(MOST_TARGETS).map(|address| self.location(address)).collect();
        let is_impossible = found.last.is_some() && !is_header(file);
        let bound = targets.first().and_then(|target| target.line).filter(|&bound| bound != line);
        let note = match (bound, found.last) {
            (Some(bound), _) if found.moved_to.is_some() => {
                Some(format!("line {line} has no code; moved to line {bound}").into())
            }
            // The beginning of a function, or of what is inlined there.
            (Some(bound), _) => {
                let place = targets.first().and_then(|target| target.file.as_deref()).map(file_name);
                let place = place.unwrap_or_default();
                Some(format!("it stops at {place}:{bound}, the first statement there").into())
            }
            (None, Some(last)) => {
                let binds = if is_impossible { "" } else { "; it binds when a library has some there" };
                let file = cut(file);
                let what = format!("`{file}` has no code at line {line} or behind it{binds}");
                Some(Reason::new(what).advise(format!("line {last} is its last with code")))
            }
            (None, None) if targets.is_empty() => {
                let similar = self.nearest_file(file);
                let what = "it binds when a library with it is loaded";
                Some(format!("no loaded symbols name the file `{}`{similar}; {what}", cut(file)).into())
            }
            (None, None) => doubt.map(|target| in_pieces(target).into()),
        };
        Resolved { targets, note, is_impossible }
    }

    fn nearest_file(&self, file: &str) -> String {
        let name = file_name(file);
        match self.symbols.source_files(&name, 3).first() {
            Some(similar) => format!(" (there is `{similar}`)"),
            None => String::new(),
        }
    }

    fn resolve_function(&self, name: &str) -> Resolved {
        let pattern = match FunctionPattern::read(name) {
            Ok(pattern) => pattern,
            Err(error) => return Resolved::nothing(error.to_string().into()),
        };
        let mut found = self.symbols.functions_named(&pattern, MOST_TARGETS);
        let mut said = self.choose_overload(&mut found, name);
        if matches!(pattern, FunctionPattern::Exact(_)) && !name.contains("::") {
            said = said.or(self.prefer_own(&mut found));
        }
        let mut targets: Vec<_> = found.iter().map(|target| self.location(target.address)).collect();
        targets.dedup_by_key(|target| target.address);
        let note = targets.is_empty().then(|| {
            let similar = self.symbols.complete_function(name.rsplit("::").next().unwrap_or(name), 3);
            let hint = if similar.is_empty() {
                String::new()
            } else {
                format!(" (there is `{}`)", similar.join("`, `"))
            };
            format!(
                "no loaded symbols name a function `{}`{hint}; it binds when a library with it is loaded",
                cut(name)
            )
        });
        Resolved { targets, note: note.or(said).map(Reason::from), is_impossible: false }
    }

    /// A bare name means the program's own functions, if it has some of that name; says how many others there are.
    fn prefer_own(&self, found: &mut Vec<FunctionTarget>) -> Option<String> {
        let is_own = |target: &FunctionTarget| {
            let file = target.file.as_deref();
            file.is_some() && !self.image.whose(target.address, self.main, file).1
        };
        let all = found.len();
        if found.iter().any(is_own) {
            found.retain(is_own);
        }
        let others = all - found.len();
        (others > 0)
            .then(|| format!("{others} more in libraries; to stop there, write the name with its `::`"))
    }

    /// Leaves those functions whose parameters are the ones in `name`, where it has any; says so if there are
    /// none.
    fn choose_overload(&self, found: &mut Vec<FunctionTarget>, name: &str) -> Option<String> {
        let wanted =
            parameter_words(in_last_parentheses(name.trim()).filter(|_| name.trim().ends_with(')'))?);
        let told: Vec<_> = found.iter().map(|target| self.symbols.parameters_at(target.address)).collect();
        let fits: Vec<_> = std::iter::zip(&*found, &told)
            // What is inlined has no symbol of its own.
            .map(|(target, told)| {
                target.inlined || told.as_deref().map(parameter_words).as_ref() == Some(&wanted)
            })
            .collect();
        if fits.iter().any(|&fits| fits) {
            let mut fits = fits.into_iter();
            found.retain(|_| fits.next().unwrap_or(true));
            return None;
        }
        let known: Vec<_> = told.iter().flatten().map(|parameters| format!("({parameters})")).collect();
        (!known.is_empty())
            .then(|| format!("none has these parameters, so all are meant: {}", known.join(", ")))
    }

    /// The statement in the file of that name: in the program's own, where libraries have one too that says the same.
    fn resolve_statement(&self, file: &str, text: &str) -> Resolved {
        let modules = self.symbols.sources_ending_in(file);
        if modules.is_empty() {
            return self.resolve_line(file, 1).without_targets();
        }
        let wanted = squeezed(text);
        let (mut read, mut unreadable) = (None, None);
        for files in &modules {
            let mut resolved = Resolved::default();
            for path in files.iter().take(MOST_SOURCES) {
                match read_plain(path.as_ref().as_ref(), LARGEST_SOURCE) {
                    Ok(source) => {
                        resolved.add(self.resolve_in_text(path, &String::from_utf8_lossy(&source), &wanted));
                        read = read.or(Some(path));
                    }
                    Err(_) => unreadable = unreadable.or(Some(path)),
                }
            }
            if !resolved.targets.is_empty() || resolved.note.is_some() {
                return resolved;
            }
        }
        Resolved::nothing(match (read, unreadable) {
            (Some(path), _) => format!("no line of `{path}` contains `{text}`").into(),
            (None, path) => {
                let path = path.map_or(file, |path| path);
                Reason::new(format!("cannot read `{path}` to look for the statement"))
                    .advise("use `line` instead")
            }
        })
    }

    fn resolve_in_text(&self, path: &str, source: &str, wanted: &str) -> Resolved {
        let lines = (1..).zip(source.lines()).filter(|(_, line)| squeezed(line).contains(wanted));
        let found: Vec<_> = lines.take(20).map(|(line, _)| (line, self.resolve_line(path, line))).collect();
        // A line that only speaks of it, as a comment does, counts where no other has it.
        let is_code = |(line, at_line): &(u32, Resolved)| {
            at_line.targets.iter().any(|target| target.line == Some(*line))
        };
        let has_code = found.iter().any(is_code);
        let mut resolved = Resolved::default();
        for at_line in found.into_iter().filter(|at_line| !has_code || is_code(at_line)) {
            resolved.add(at_line.1);
        }
        resolved
    }

    /// All that is known of an address of code.
    pub(super) fn location(&self, address: u64) -> Location {
        self.scribe().location(address)
    }
}

/// So many files of one name are looked into for a statement.
const MOST_SOURCES: usize = 100;

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// What is said of a line that has code in several places, where only the first is taken.
fn in_pieces(target: &LineTarget) -> String {
    let (line, count) = (target.line, target.further.len() + 1);
    let place = target.function.as_deref().map(|name| format!(" in `{}`", cut(name))).unwrap_or_default();
    format!("line {line} has {count} pieces of code{place}; it stops at the first only")
}

/// Parameters without what can be written in several ways: blanks, and where `const` stands.
fn parameter_words(parameters: &str) -> String {
    let marked = ['*', '&', ',', '<', '>', '(', ')']
        .iter()
        .fold(parameters.to_owned(), |text, &mark| text.replace(mark, &format!(" {mark} ")));
    let words = marked.split_whitespace().filter(|&word| word != "const");
    words.collect::<Vec<_>>().join(" ")
}

/// Whether code of a file is found in whatever includes it: also in what is loaded later.
fn is_header(file: &str) -> bool {
    let extension = std::path::Path::new(file).extension().and_then(|extension| extension.to_str());
    !matches!(
        extension,
        Some("c" | "cc" | "cp" | "cpp" | "cxx" | "c++" | "C" | "rs" | "s" | "S" | "f90" | "f")
    )
}

impl Resolved {
    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> + '_ {
        self.targets.iter().filter_map(|target| Some(target.address?.0))
    }

    fn add(&mut self, other: Self) {
        self.targets.extend(other.targets);
        self.note = self.note.take().or(other.note);
        self.targets.sort_by_key(|target| target.address);
        self.targets.dedup_by_key(|target| target.address);
    }

    fn nothing(why: Reason) -> Self {
        Self { note: Some(why), ..Self::default() }
    }

    fn without_targets(self) -> Self {
        Self { targets: Vec::new(), ..self }
    }
}

/// The executable's `main`: that of the source where there is one, not the start-up code's.
pub(super) fn main_function(symbols: &Symbols) -> Option<u64> {
    let found = symbols.functions_named(&FunctionPattern::Exact("main".into()), 20);
    let with_source = found.iter().find(|target| target.line.is_some() && !target.inlined);
    with_source.or(found.first()).map(|target| target.address)
}
