//! Looking at a program that stands still: stacks, variables, registers, code. The same for a live
//! process and for the remains of one.

mod blocks;
mod code;
mod elements;
mod fault;
mod fixed;
mod frames;
mod pointers;
mod raised;
mod registers;
mod scope;
mod variables;
mod waits;

use std::path::PathBuf;

use hindcast_core::debug::{
    CompletionKind, DebugError, Location, Module, Place, Reason, Region, RuntimeAddr,
};
use hindcast_symbols::{
    FunctionPattern, Memory, Symbols,
    names::{LONGEST_NAME, cut},
    types::ModuleId,
};

pub(crate) use self::{
    code::{decode, disassemble, register_value},
    elements::find,
    fixed::{FixedFrame, ReadSet},
    frames::{PhysicalFrame, Walk, walk},
    pointers::{Ground, pointed_to, pointers},
    raised::{FRAMES_OF_GIVING_UP, Thrown, is_unhandled_panic},
    registers::registers,
    scope::FrameScope,
    variables::{Write, evaluate, variables},
    waits::{Stage, Standing, Waits, put_into_words},
};
use crate::{
    image::Image,
    sys::{GeneralRegisters, Mapping, VectorRegisters},
};

/// A program that stands still.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) symbols: &'a Symbols,
    pub(crate) image: &'a Image,
    pub(crate) memory: &'a dyn Memory,
    /// The executable.
    pub(crate) main: Option<ModuleId>,
}

/// A thread of it.
pub(crate) struct ThreadScene {
    pub(crate) registers: GeneralRegisters,
    /// Absent where they could not be read.
    pub(crate) vectors: Option<VectorRegisters>,
    /// How many inlined calls begin right where it stands, without its having stepped into them.
    pub(crate) hidden: usize,
}

/// The mapping that contains `address`, or its neighbours on both sides.
pub(crate) fn regions_around(mappings: &[Mapping], address: u64) -> Vec<Region> {
    let after = mappings.partition_point(|mapping| mapping.end <= address);
    let around = match mappings.get(after) {
        Some(mapping) if mapping.start <= address => &mappings[after..=after],
        _ => &mappings[after.saturating_sub(1)..mappings.len().min(after + 1)],
    };
    let tell = |mapping: &Mapping| Region {
        start: RuntimeAddr(mapping.start),
        end: RuntimeAddr(mapping.end),
        permissions: mapping.permissions.clone(),
        name: mapping.name.clone(),
    };
    around.iter().map(tell).collect()
}

/// Where a thread is: the innermost frame whose source is on this machine, which tells more than the
/// library function that it waits in.
pub(crate) fn known_location(scene: &Scene<'_>, registers: &GeneralRegisters) -> Option<Location> {
    let frames = walk(scene, registers, 0, 16).frames(scene);
    let is_here = |file: &String| std::path::Path::new(file).exists();
    let known =
        frames.iter().position(|frame| frame.location.file.as_ref().is_some_and(is_here)).unwrap_or(0);
    frames.into_iter().nth(known).map(|frame| frame.location)
}

/// What is loaded, in the order of addresses.
pub(crate) fn modules(image: &Image, symbols: &Symbols) -> Vec<Module> {
    let known: Vec<_> = symbols.modules().collect();
    let tell = |loaded: &crate::image::Loaded| {
        let module = known.iter().find(|module| module.id == loaded.module);
        Module {
            name: file_name(&loaded.path),
            path: loaded.path.clone(),
            base: Some(RuntimeAddr(loaded.range.start)),
            size: Some(loaded.range.end - loaded.range.start),
            symbols: module.map_or_else(|| "none".into(), describe_symbols),
            build_id: module.and_then(|module| module.build_id.as_deref()).map(hexadecimal),
        }
    };
    image.iter().map(tell).collect()
}

fn describe_symbols(module: &hindcast_symbols::Module) -> String {
    let kind = match module.symbols {
        hindcast_symbols::SymbolKind::Dwarf => "dwarf",
        hindcast_symbols::SymbolKind::SymtabOnly => "symtab",
        hindcast_symbols::SymbolKind::None => "none",
    };
    match &module.symbol_file {
        Some(file) => format!("{kind} ({})", file.display()),
        None => kind.to_owned(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A source file under exactly the path that the symbols name.
pub(crate) fn source_file(symbols: &Symbols, path: &str) -> Option<PathBuf> {
    symbols.find_source(path).filter(|found| **found == *path).map(|found| PathBuf::from(&*found))
}

/// Names of files or functions.
pub(crate) fn complete(symbols: &Symbols, kind: CompletionKind, prefix: &str, limit: usize) -> Vec<String> {
    match kind {
        CompletionKind::File => {
            symbols.source_files(prefix, limit).iter().map(|file| file.to_string()).collect()
        }
        CompletionKind::Function => symbols.complete_function(prefix, limit),
        CompletionKind::Variable => Vec::new(),
    }
}

/// Why a place is refused at once: no program has such a long name, and to look for it takes seconds.
pub(crate) fn too_long(place: &Place) -> Option<Reason> {
    let (what, name) = match place {
        Place::Address(_) => return None,
        Place::Function(name) => ("function", name),
        Place::Line { file, .. } => ("file", file),
        Place::Statement { text, .. } if text.len() > LONGEST_NAME => ("statement", text),
        Place::Statement { file, .. } => ("file", file),
    };
    (name.len() > LONGEST_NAME).then(|| {
        let (length, beginning) = (name.len(), cut(name));
        Reason::new(format!("the {what} `{beginning}` has {length} bytes; no program has such a long one"))
            .advise(format!("give at most {LONGEST_NAME} bytes"))
    })
}

/// Where to begin to disassemble: a function from its very beginning, not from behind the prologue.
pub(crate) fn code_start(symbols: &Symbols, place: &Place) -> Result<u64, DebugError> {
    if let Some(reason) = too_long(place) {
        return Err(DebugError::Expression(reason));
    }
    let nothing =
        || DebugError::Expression(format!("there is no code at `{}`", cut(&place.to_string())).into());
    match place {
        Place::Address(address) => Ok(address.0),
        Place::Function(name) => {
            let found = symbols.functions_named(&FunctionPattern::Exact(name.clone()), 1);
            let target = found.into_iter().next().ok_or_else(nothing)?;
            Ok(symbols.function_at(target.address).map_or(target.address, |function| function.start))
        }
        Place::Line { file, line } => {
            let found = symbols.addresses_of_line(file, *line);
            found.targets.first().map(|target| target.address).ok_or_else(nothing)
        }
        Place::Statement { .. } => Err(nothing()),
    }
}

pub(crate) fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}
