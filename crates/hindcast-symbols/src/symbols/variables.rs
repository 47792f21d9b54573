//! Variables: those of a frame, and those that are always there.

use std::borrow::Cow;

use super::{InlineFrame, Symbols, Viewpoint, code::Scope, type_reader::children_of};
use crate::{
    dwarf::{DieRef, Entry, View, die::contains, die::flag},
    module::{LoadedModule, is_static, unit_language},
    types::{Language, ModuleId, TypeRef},
};

/// More variables in one frame or unit are damage.
pub(super) const MOST: usize = 1 << 16;
const DEEPEST: isize = 512;

/// A variable or argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableInfo {
    /// Its name; qualified for one that is not in a frame.
    pub name: String,
    /// What it is.
    pub type_ref: TypeRef,
    /// Whether it is an argument of the function.
    pub is_argument: bool,
    /// Where it was declared.
    pub line: Option<u32>,
    /// How many blocks of the function it is in: an inner one hides outer ones of the same name.
    pub depth: u32,
    /// Whether execution is still before its declaration: it may not have its value yet.
    pub declared_later: bool,
    /// Whether the compiler made it, such as `this`.
    pub artificial: bool,
    /// To find its place.
    pub handle: VariableHandle,
}

/// Finds a variable's place again, with [`Symbols::locate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VariableHandle {
    pub(super) module: ModuleId,
    pub(super) die: DieRef,
    /// The physical function whose frame it is in.
    pub(super) function: Option<DieRef>,
}

impl Symbols {
    /// The variables that are in scope in a frame, those of inner blocks first.
    pub fn variables(&self, frame: &InlineFrame) -> Vec<VariableInfo> {
        let found = || -> Option<Vec<VariableInfo>> {
            let module = self.module(frame.module?)?;
            let scope = frame.scope?;
            let view = module.debug()?.view_of(scope.die)?;
            let line_begins =
                module.line_begins_at(module.to_file(frame.start), module.to_file(frame.address));
            let in_prologue = !frame.inlined && module.is_in_prologue(module.to_file(frame.address));
            let (found, origins) = (Vec::new(), Vec::new());
            let mut collected = Collected { module, frame, scope, line_begins, in_prologue, found, origins };
            collected.add_from_instance(&view);
            collected.add_from_origin(&view);
            let mut found = collected.found;
            found.sort_by_key(|variable| std::cmp::Reverse(variable.depth));
            Some(found)
        };
        found().unwrap_or_default()
    }

    /// The variables outside of functions of the source file that code at `from` was made from.
    pub fn globals(&self, from: impl Into<Viewpoint>) -> Vec<VariableInfo> {
        let from = from.into();
        let found = || -> Option<Vec<VariableInfo>> {
            let module = self.loaded_at(from.address)?;
            let debug = module.debug()?;
            let code = debug.code_view(debug.unit_at(module.to_file(from.address))?)?;
            let mut found = Vec::new();
            let home =
                from.home(module).and_then(|home| debug.view_of(home)).filter(|home| !home.is_partial());
            match home.filter(|home| (home.file, home.index) != (code.file, code.index)) {
                None => drop(collect_globals(module, &code, |_| true, &mut found)),
                // Link-time optimisation puts the variables of a file into any of its own units.
                Some(home) => {
                    for unit in 0..debug.units().len() {
                        let Some(view) = debug.view(0, unit) else { continue };
                        let is_of_file = |named_at| home.offset_of(named_at).is_some();
                        let _ = collect_globals(module, &view, is_of_file, &mut found);
                        debug.passed(&view);
                    }
                }
            }
            Some(found)
        };
        found().unwrap_or_default()
    }
}

/// Adds the variables of a unit that `is_meant` by where their name stands.
fn collect_globals(
    module: &LoadedModule,
    view: &View<'_>,
    is_meant: impl Fn(DieRef) -> bool,
    found: &mut Vec<VariableInfo>,
) -> gimli::Result<()> {
    let mut entries = view.unit.entries_raw(None)?;
    let mut entry = Entry::null();
    let mut outside = None;
    while !entries.is_empty() && found.len() < MOST {
        let depth = entries.next_depth();
        if outside.is_some_and(|outside| depth <= outside) {
            outside = None;
        }
        if outside.is_some() {
            if let Some(abbreviation) = entries.read_abbreviation()? {
                entries.skip_attributes(abbreviation.attributes())?;
            }
            continue;
        }
        if !entries.read_entry(&mut entry)? {
            continue;
        }
        match entry.tag() {
            gimli::DW_TAG_variable if is_always_there(&entry) => {
                let named = outside_of_frames(module, view, &entry);
                found.extend(named.filter(|(_, named_at)| is_meant(*named_at)).map(|(variable, _)| variable));
            }
            gimli::DW_TAG_subprogram => outside = Some(depth),
            _ => {}
        }
    }
    Ok(())
}

/// A variable that is not in a frame.
pub(super) fn global<'a>(module: &LoadedModule, view: &View<'a>, entry: &Entry<'a>) -> Option<VariableInfo> {
    is_always_there(entry).then(|| outside_of_frames(module, view, entry))?.map(|(variable, _)| variable)
}

/// A variable outside of functions that the optimiser left no place for.
pub(super) fn vanished<'a>(
    module: &LoadedModule,
    view: &View<'a>,
    entry: &Entry<'a>,
) -> Option<VariableInfo> {
    outside_of_frames(module, view, entry).map(|(variable, _)| variable)
}

fn is_always_there(entry: &Entry<'_>) -> bool {
    entry.has_attr(gimli::DW_AT_const_value) || !flag(entry, gimli::DW_AT_declaration) && is_static(entry)
}

/// The variable, and the entry that names it.
fn outside_of_frames<'a>(
    module: &LoadedModule,
    view: &View<'a>,
    entry: &Entry<'a>,
) -> Option<(VariableInfo, DieRef)> {
    let die = view.die_ref(entry.offset());
    let about = About::new(module, die)?;
    let named_at = about.named_at;
    let name =
        if about.language == Language::C { about.name } else { module.qualified(named_at, &about.name) };
    let variable = VariableInfo {
        name,
        type_ref: about.type_ref?,
        is_argument: false,
        line: about.line,
        depth: 0,
        declared_later: false,
        artificial: false,
        handle: VariableHandle { module: module.id, die, function: None },
    };
    Some((variable, named_at))
}

/// The type of the variable with this entry.
pub(super) fn type_of(module: &LoadedModule, die: DieRef) -> Option<TypeRef> {
    About::new(module, die)?.type_ref
}

/// What an entry, its origin and its declaration say together.
struct About {
    name: String,
    named_at: DieRef,
    /// The language that it was declared in: one unit may have code of several.
    language: Language,
    type_ref: Option<TypeRef>,
    line: Option<u32>,
    file: Option<String>,
    artificial: bool,
}

impl About {
    fn new(module: &LoadedModule, die: DieRef) -> Option<Self> {
        let debug = module.debug()?;
        let (mut name, mut type_ref, mut line, mut file, mut artificial) = (None, None, None, None, false);
        let (mut at, mut language) = (die, Language::C);
        let mut next = Some(die);
        for _ in 0..6 {
            let Some(here) = next else { break };
            let view = debug.view_of(here)?;
            let entry = view.entry(here)?;
            (at, language) = (here, unit_language(&view));
            name = name.or_else(|| view.name(&entry).map(Cow::into_owned));
            let of = debug.attribute_reference(&view, &entry, gimli::DW_AT_type);
            type_ref = type_ref.or(of.map(|of| TypeRef { module: module.id, entry: of.encode() }));
            line = line.or_else(|| view.line_number(&entry, gimli::DW_AT_decl_line));
            artificial |= flag(&entry, gimli::DW_AT_artificial);
            if file.is_none()
                && let Some(gimli::AttributeValue::FileIndex(index)) =
                    entry.attr_value(gimli::DW_AT_decl_file)
            {
                file = view.file_path(index);
            }
            next = debug
                .attribute_reference(&view, &entry, gimli::DW_AT_abstract_origin)
                .or_else(|| debug.attribute_reference(&view, &entry, gimli::DW_AT_specification));
        }
        Some(Self { name: name?, named_at: at, language, type_ref, line, file, artificial })
    }
}

struct Collected<'m> {
    module: &'m LoadedModule,
    frame: &'m InlineFrame,
    scope: Scope,
    found: Vec<VariableInfo>,
    /// Whether execution is before the first instruction of its line.
    line_begins: bool,
    /// Whether the function is still making its frame.
    in_prologue: bool,
    /// The origins of what was found: these are not listed again.
    origins: Vec<DieRef>,
}

impl Collected<'_> {
    fn add_from_instance(&mut self, view: &View<'_>) -> Option<()> {
        let address = self.module.to_file(self.frame.address);
        let mut entries = view.unit.entries_raw(Some(view.offset_of(self.scope.die)?)).ok()?;
        let mut entry = Entry::null();
        entries.read_entry(&mut entry).ok()?;
        if !entry.has_children() {
            return None;
        }
        // Entries deeper than this are in blocks that execution is not in.
        let mut within = 1;
        while !entries.is_empty() && entries.next_depth() > 0 && self.found.len() < MOST {
            let depth = entries.next_depth();
            if depth > within {
                if let Some(abbreviation) = entries.read_abbreviation().ok()? {
                    entries.skip_attributes(abbreviation.attributes()).ok()?;
                }
                continue;
            }
            within = within.min(depth);
            if !entries.read_entry(&mut entry).ok()? {
                continue;
            }
            match entry.tag() {
                gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable => self.add(view, &entry, depth - 1),
                gimli::DW_TAG_lexical_block if depth < DEEPEST && contains(&view.ranges(&entry), address) => {
                    within = depth + 1;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// What the optimiser removed altogether is told only where the function was declared.
    fn add_from_origin(&mut self, view: &View<'_>) -> Option<()> {
        let debug = self.module.debug()?;
        let entry = view.entry(self.scope.die)?;
        let origin = debug.attribute_reference(view, &entry, gimli::DW_AT_abstract_origin)?;
        let origin_view = debug.view_of(origin)?;
        let offset = origin_view.offset_of(origin)?;
        let seen = std::mem::take(&mut self.origins);
        let _ = children_of(&origin_view, offset, &mut |child| {
            let is_variable = matches!(child.tag(), gimli::DW_TAG_formal_parameter | gimli::DW_TAG_variable);
            if is_variable && !seen.contains(&origin_view.die_ref(child.offset())) {
                self.add(&origin_view, child, 0);
            }
            self.found.len() < MOST
        });
        Some(())
    }

    fn add<'a>(&mut self, view: &View<'a>, entry: &Entry<'a>, depth: isize) {
        let Some(debug) = self.module.debug() else { return };
        self.origins.extend(debug.attribute_reference(view, entry, gimli::DW_AT_abstract_origin));
        if flag(entry, gimli::DW_AT_declaration) {
            return;
        }
        let die = view.die_ref(entry.offset());
        let Some(about) = About::new(self.module, die) else { return };
        let Some(type_ref) = about.type_ref else { return };
        let is_argument = entry.tag() == gimli::DW_TAG_formal_parameter;
        let same_file = about.file.as_deref().is_none_or(|file| self.frame.file.as_deref() == Some(file));
        let ahead = match (about.line, self.frame.line) {
            (Some(declared), Some(line)) => declared > line || declared == line && self.line_begins,
            _ => false,
        };
        self.found.push(VariableInfo {
            name: about.name,
            type_ref,
            is_argument,
            line: about.line,
            depth: u32::try_from(depth).unwrap_or(0),
            declared_later: match is_argument {
                true => self.in_prologue && is_stored_by_prologue(view, entry),
                false => same_file && ahead,
            },
            artificial: about.artificial,
            handle: VariableHandle { module: self.module.id, die, function: Some(self.scope.function) },
        });
    }
}

/// Whether an argument has a place in the frame of its function, where the function puts it before anything else. What the
/// caller puts on the stack is there from the beginning.
fn is_stored_by_prologue<'a>(view: &View<'a>, entry: &Entry<'a>) -> bool {
    let Some(gimli::AttributeValue::Exprloc(place)) = entry.attr_value(gimli::DW_AT_location) else {
        return false;
    };
    let first = place.operations(view.unit.encoding()).next();
    matches!(first, Ok(Some(gimli::Operation::FrameOffset { offset: ..0 })))
}
