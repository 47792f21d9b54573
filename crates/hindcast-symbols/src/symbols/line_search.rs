//! Where the code of a line is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::Symbols;
use crate::{
    dwarf::{DieRef, View, lines::Row, paths},
    module::LoadedModule,
};

/// Where a line's code is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineMatches {
    /// One for each function, inlined copy and template instance that has code of the line.
    pub targets: Vec<LineTarget>,
    /// The line that has the code, where the one asked for has none and the next one was taken.
    pub moved_to: Option<u32>,
    /// Without targets: the last line of the file that has code, where one has.
    pub last: Option<u32>,
    /// The files that the name fits.
    pub files: Vec<Arc<str>>,
}

/// Where execution reaches a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTarget {
    /// The first instruction of the line there; at the beginning of a function, behind its prologue.
    pub address: u64,
    /// Where else code of the line begins in that part of the function, at higher addresses.
    pub further: Vec<u64>,
    /// The file.
    pub file: Arc<str>,
    /// The line.
    pub line: u32,
    /// The function it is in, innermost.
    pub function: Option<String>,
}

impl Symbols {
    /// Where the code of a line is. `file` is a path or its last components. If the line has no code,
    /// the next one that has is taken.
    pub fn addresses_of_line(&self, file: &str, line: u32) -> LineMatches {
        let wanted = paths::normalised(file);
        let mut lines = Lines::default();
        for (at, module) in self.loaded().iter().enumerate() {
            lines.collect(at, module, &wanted);
        }
        let mut matches =
            LineMatches { files: lines.files.iter().cloned().collect(), ..LineMatches::default() };
        let next = lines.by_line.range(line..).next().map(|(&next, _)| next);
        if let Some(taken) = next {
            matches.targets = self.targets_of(&lines, taken);
            matches.moved_to = (taken != line).then_some(taken);
        } else {
            matches.last = lines.by_line.keys().next_back().copied();
        }
        matches
    }

    fn targets_of(&self, lines: &Lines, taken: u32) -> Vec<LineTarget> {
        // One target for each part of a function's instance, which may have rarely run code elsewhere: the lowest
        // address of the line in it.
        let mut beginnings: BTreeMap<(usize, Option<Instance>), BTreeMap<u64, Arc<str>>> = BTreeMap::new();
        for (module, address, file) in lines.by_line.get(&taken).into_iter().flatten() {
            let instance = instance_at(&self.loaded()[*module], *address);
            beginnings.entry((*module, instance)).or_default().insert(*address, Arc::clone(file));
        }
        let mut targets: Vec<LineTarget> = beginnings
            .into_iter()
            .filter_map(|((module, _), mut addresses)| {
                let module = &self.loaded()[module];
                let (lowest, file) = addresses.pop_first()?;
                let address = module.to_runtime(breakpoint_address(module, lowest));
                let further = addresses.into_iter().filter(|(_, whose)| *whose == file);
                let further = further
                    .map(|(further, _)| module.to_runtime(further))
                    .filter(|&further| further > address)
                    .filter(|&further| self.line_at(further).is_some_and(|row| row.line == taken))
                    .collect();
                let function = self.place(address).function;
                Some(LineTarget { address, further, file, line: taken, function })
            })
            .collect();
        targets.sort_by_key(|target| target.address);
        targets.dedup_by_key(|target| target.address);
        targets
    }
}

/// The innermost function or inlined copy, and which part of the function around it.
type Instance = (DieRef, usize);

fn instance_at(module: &LoadedModule, address: u64) -> Option<Instance> {
    let function = module.function_die_at(address)?;
    let part = function.ranges.iter().position(|range| range.contains(&address)).unwrap_or(0);
    module.levels_at(&function, address).last().map(|level| (level.die, part))
}

/// The address itself, or where the prologue ends that it begins.
fn breakpoint_address(module: &LoadedModule, address: u64) -> u64 {
    match module.function_die_at(address) {
        Some(function) if function.ranges.first().is_some_and(|range| range.start == address) => {
            module.after_prologue(&function)
        }
        _ => address,
    }
}

/// What line tables say of the files that fit.
#[derive(Default)]
struct Lines {
    /// Module, file address and file of each statement's beginning.
    by_line: BTreeMap<u32, Vec<(usize, u64, Arc<str>)>>,
    files: BTreeSet<Arc<str>>,
}

impl Lines {
    fn collect(&mut self, at: usize, module: &LoadedModule, wanted: &str) {
        let Some(debug) = module.debug() else { return };
        for unit in 0..debug.units().len() {
            if debug.units()[unit].is_type_unit {
                continue;
            }
            let Some(view) = debug.view(0, unit) else { continue };
            let files = fitting_files(&view, wanted);
            if !files.is_empty() {
                self.run(at, module, &view, &files);
            }
            debug.passed_root(&view);
        }
    }

    /// Runs a unit's line program, and keeps only what is of the files.
    fn run(&mut self, at: usize, module: &LoadedModule, view: &View<'_>, files: &[(u32, Arc<str>)]) {
        let Some(program) = view.line_program() else { return };
        let mut rows = program.rows();
        let mut sequence: Vec<Row> = Vec::new();
        let mut start = None;
        // File and line of the statement that is under way.
        let mut statement: Option<(u32, u32)> = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.end_sequence() {
                // What the linker dropped is at 0, or nowhere.
                if start.is_some_and(|start| start != 0 && module.is_code(start)) {
                    self.keep(at, &sequence, files);
                }
                (sequence, start, statement) = (Vec::new(), None, None);
                continue;
            }
            let row = Row::new(row);
            start = start.or(Some(row.address));
            let is_ours = files.iter().any(|&(file, _)| file == row.file);
            // A row that continues a statement of its line begins nothing.
            let place = Some((row.file, row.line));
            if is_ours && row.is_stmt && row.line > 0 && statement != place {
                sequence.push(row);
            }
            if row.is_stmt {
                statement = place;
            } else if statement != place {
                statement = None;
            }
        }
    }

    fn keep(&mut self, at: usize, rows: &[Row], files: &[(u32, Arc<str>)]) {
        for row in rows {
            let Some((_, file)) = files.iter().find(|(file, _)| *file == row.file) else { continue };
            if !self.files.contains(file) {
                self.files.insert(Arc::clone(file));
            }
            self.by_line.entry(row.line).or_default().push((at, row.address, Arc::clone(file)));
        }
    }
}

/// The numbers of the files of a unit's table that the path fits.
fn fitting_files(view: &View<'_>, wanted: &str) -> Vec<(u32, Arc<str>)> {
    let Some(program) = view.line_program() else { return Vec::new() };
    let header = program.header();
    let last = paths::file_name(wanted).as_bytes();
    let first = u64::from(header.version() < 5);
    let mut found: Vec<(u32, Arc<str>)> = Vec::new();
    for index in first..first + header.file_names().len() as u64 {
        // The last component decides for nearly all files, without making their path.
        let Some(file) = header.file(index) else { continue };
        let Ok(name) = view.dwarf.attr_string(&view.unit, file.path_name()) else { continue };
        if !name.slice().ends_with(last) {
            continue;
        }
        if let Some(path) = view.path_of(header, index)
            && paths::ends_with(&path, wanted)
        {
            found.push((index as u32, Arc::from(path)));
        }
    }
    found
}
