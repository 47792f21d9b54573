//! Who points to something: all registers and all memory are looked through.

use std::ops::Range;

use hindcast_core::debug::{
    DebugError, FoundPointer, PointerKind, PointerPage, PointerSearch, Reason, RuntimeAddr, ThreadId,
};
use hindcast_symbols::{
    types::{TypeKind, TypeRef, Types},
    value::{Storage, owned_by},
};

use super::{FrameScope, Scene, ThreadScene, blocks::Blocks, scope::GENERAL, walk};
use crate::{record::is_scratch, sys::Mapping};

/// What is looked through.
pub(crate) struct Ground<'a> {
    pub(crate) scene: &'a Scene<'a>,
    pub(crate) mappings: &'a [Mapping],
    pub(crate) threads: &'a [(ThreadId, &'a ThreadScene)],
    /// Reads as much as there is.
    pub(crate) read: &'a dyn Fn(u64, &mut [u8]) -> usize,
}

/// More pointers than this are counted, but not told.
const MOST_KEPT: usize = 100_000;
const PIECE: usize = 4 << 20;
const MOST_FRAMES: usize = 64;
/// What a function may use below its stack pointer.
const RED_ZONE: u64 = 128;

/// What an expression is about: the object, or what a pointer points to.
pub(crate) fn pointed_to(scope: &FrameScope<'_>, text: &str) -> Result<Range<u64>, DebugError> {
    let named = |address: u64, size: Option<u64>| {
        let end = address.saturating_add(size.unwrap_or(1).max(1));
        match address {
            0 => Err(DebugError::Expression(
                Reason::new(format!("`{text}` is null")).advise("name something that is there"),
            )),
            _ => Ok(address..end),
        }
    };
    if let Ok(address) = text.parse::<RuntimeAddr>() {
        return named(address.0, None);
    }
    // What an owner owns is meant, as what a pointer points to is.
    let owner = text.trim().strip_prefix('*').unwrap_or(text);
    if let Some(owned) =
        scope.place_of(owner).ok().and_then(|owner| owned_by(&scope.types, scope.scene.memory, &owner))
    {
        return Ok(owned);
    }
    let placed = scope.place_of(text).map_err(|error| DebugError::Expression(error.into()))?;
    let without_aliases = unaliased(&scope.types, placed.type_ref);
    let known = without_aliases.and_then(|type_ref| scope.types.get(type_ref));
    let size_of = |type_ref: TypeRef| scope.types.get(type_ref).and_then(|known| known.size);
    if let Some(TypeKind::Pointer { target, .. }) = known.as_ref().map(|known| &known.kind) {
        let pointer = match &placed.storage {
            Storage::Memory(address) => scope.scene.memory.read_pointer(*address).ok(),
            Storage::Bytes(bytes) => {
                bytes.get(..8).and_then(|word| word.try_into().ok()).map(u64::from_le_bytes)
            }
            _ => None,
        };
        let pointer =
            pointer.ok_or_else(|| DebugError::Expression(format!("`{text}` is not known here").into()))?;
        return named(pointer, target.and_then(size_of));
    }
    match placed.address() {
        Some(address) => named(address, size_of(placed.type_ref)),
        None => Err(DebugError::Expression(
            Reason::new(format!("`{text}` has no address")).advise("name an object, a pointer or an address"),
        )),
    }
}

/// What an allocator gives beyond what was asked for, at most.
const SLACK: u64 = 24;

/// Whether a block was allocated for what is looked for, or for something around an address of which no more is known.
fn is_for(block: &Range<u64>, target: &Range<u64>) -> bool {
    let is_address = target.end - target.start == 1;
    let is_whole = target.start == block.start && block.end.saturating_sub(target.end) <= SLACK;
    target.end <= block.end && (is_address || is_whole)
}

/// The places that hold a pointer into a range, or into the block of the heap that it is all of.
pub(crate) fn pointers(ground: &Ground<'_>, target: Range<u64>, search: &PointerSearch) -> PointerPage {
    let blocks = Blocks::of(ground.mappings, ground.read);
    let block = blocks.around(target.start);
    let wanted = block.clone().filter(|block| is_for(block, &target)).unwrap_or(target);
    let mut found = in_registers(ground, &wanted);
    let memory = Scan::of(ground, &wanted);
    let stacks: Vec<_> = ground.threads.iter().map(|thread| Stack::of(ground, thread)).collect();
    let told = memory.hits.iter().filter_map(|&(address, to)| {
        let mapping =
            ground.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        let in_memory = FoundPointer {
            kind: PointerKind::Memory,
            address: Some(RuntimeAddr(address)),
            name: None,
            thread: None,
            frame: None,
            block: None,
            block_size: None,
            to: RuntimeAddr(to),
        };
        if let Some(stack) = stacks.iter().find(|stack| mapping.start == stack.start) {
            // What is below belongs to calls that have returned.
            return (address >= stack.end_of_use)
                .then(|| stack.name(ground.scene.symbols, address, in_memory));
        }
        if ground.scene.image.at(address).is_some() || !mapping.name.is_empty() && mapping.inode != 0 {
            let name = global_at(ground, address);
            return Some(FoundPointer { kind: PointerKind::Global, name, ..in_memory });
        }
        let holder = blocks.around(address);
        let is_heap = holder.is_some() || mapping.name == "[heap]";
        Some(FoundPointer {
            kind: if is_heap { PointerKind::Heap } else { PointerKind::Memory },
            block: holder.as_ref().map(|holder| RuntimeAddr(holder.start)),
            block_size: holder.map(|holder| holder.end - holder.start),
            ..in_memory
        })
    });
    found.extend(told);
    let order = |pointer: &FoundPointer| {
        (pointer.kind, pointer.thread, pointer.name.is_none(), pointer.frame, pointer.address)
    };
    found.sort_by_key(order);
    let count = found.len() as u64 + memory.left_out;
    let page = found.into_iter().skip(usize::try_from(search.offset).unwrap_or(usize::MAX));
    PointerPage {
        address: RuntimeAddr(wanted.start),
        size: wanted.end - wanted.start,
        is_block: block.is_some_and(|block| block == wanted),
        pointers: page.take(search.limit as usize).collect(),
        found: count,
        searched: memory.searched,
    }
}

fn in_registers(ground: &Ground<'_>, wanted: &Range<u64>) -> Vec<FoundPointer> {
    let mut found = Vec::new();
    for (id, thread) in ground.threads {
        for name in GENERAL {
            if let Some(to) = thread.registers.get(name).filter(|value| wanted.contains(value)) {
                found.push(FoundPointer {
                    kind: PointerKind::Register,
                    address: None,
                    name: Some(format!("${name}")),
                    thread: Some(*id),
                    frame: None,
                    block: None,
                    block_size: None,
                    to: RuntimeAddr(to),
                });
            }
        }
    }
    found
}

/// All memory, looked through.
struct Scan {
    /// Where, and the pointer there.
    hits: Vec<(u64, u64)>,
    left_out: u64,
    searched: u64,
}

impl Scan {
    fn of(ground: &Ground<'_>, wanted: &Range<u64>) -> Self {
        let mut scan = Self { hits: Vec::new(), left_out: 0, searched: 0 };
        let mut piece = vec![0; PIECE];
        let size = wanted.end - wanted.start;
        for mapping in ground.mappings.iter().filter(|mapping| holds_pointers(mapping)) {
            let mut at = mapping.start;
            while at < mapping.end {
                let length = PIECE.min(usize::try_from(mapping.end - at).unwrap_or(PIECE));
                let count = (ground.read)(at, &mut piece[..length]);
                if count == 0 {
                    break;
                }
                scan.searched += count as u64;
                let (words, _) = piece[..count].as_chunks::<8>();
                for (index, word) in words.iter().enumerate() {
                    let word = u64::from_le_bytes(*word);
                    if word.wrapping_sub(wanted.start) < size {
                        scan.add(at + 8 * index as u64, word);
                    }
                }
                at += count as u64;
            }
        }
        scan
    }

    fn add(&mut self, address: u64, to: u64) {
        match self.hits.len() < MOST_KEPT {
            true => self.hits.push((address, to)),
            false => self.left_out += 1,
        }
    }
}

/// Whether a program keeps its data there: not code, what the system shows, or memory of ours.
fn holds_pointers(mapping: &Mapping) -> bool {
    mapping.permissions.starts_with('r')
        && !mapping.permissions.contains('x')
        && !mapping.name.starts_with("[v")
        && !is_scratch(mapping.start)
}

/// The stack of a thread, and the variables on it.
struct Stack {
    thread: ThreadId,
    /// Of its mapping.
    start: u64,
    end_of_use: u64,
    variables: Vec<(Range<u64>, u32, String, TypeRef)>,
}

impl Stack {
    fn of(ground: &Ground<'_>, (id, thread): &(ThreadId, &ThreadScene)) -> Self {
        let sp = thread.registers.sp();
        let mapping = ground.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&sp));
        let frames = walk(ground.scene, &thread.registers, thread.hidden, MOST_FRAMES).logical.len();
        let mut stack = Self {
            thread: *id,
            start: mapping.map_or(0, |mapping| mapping.start),
            end_of_use: sp.saturating_sub(RED_ZONE),
            variables: Vec::new(),
        };
        for index in 0..u32::try_from(frames).unwrap_or(0) {
            let Ok(scope) = FrameScope::enter(ground.scene, thread, index) else { continue };
            for variable in scope.locals() {
                let placed = scope.place(&variable);
                let size =
                    scope.types.get(placed.type_ref).and_then(|known| known.size).filter(|size| *size >= 8);
                if let (Some(address), Some(size)) = (placed.address(), size) {
                    let range = address..address.saturating_add(size);
                    stack.variables.push((range, index, variable.name, placed.type_ref));
                }
            }
        }
        stack
    }

    fn name(&self, types: &dyn Types, address: u64, pointer: FoundPointer) -> FoundPointer {
        let variable = self.variables.iter().find(|(range, ..)| range.contains(&address));
        FoundPointer {
            kind: PointerKind::Stack,
            thread: Some(self.thread),
            frame: variable.map(|(_, frame, ..)| *frame),
            name: variable.map(|(range, _, name, type_ref)| {
                let offset = address - range.start;
                with_path(name.clone(), offset, path_to(types, *type_ref, offset))
            }),
            ..pointer
        }
    }
}

/// The global variable that an address is in, with the way to it.
fn global_at(ground: &Ground<'_>, address: u64) -> Option<String> {
    let symbols = ground.scene.symbols;
    let (name, offset) = symbols.variable_at(address)?;
    let pc = ground.threads.first().map_or(0, |(_, thread)| thread.registers.pc());
    let path = symbols.find_global(&name, pc).and_then(|global| path_to(symbols, global.type_ref, offset));
    Some(with_path(name, offset, path))
}

fn with_path(name: String, offset: u64, path: Option<String>) -> String {
    match (path, offset) {
        (Some(path), _) => format!("{name}{path}"),
        (None, 0) => name,
        (None, offset) => format!("{name}+{offset:#x}"),
    }
}

const LONGEST_CHAIN: usize = 64;

fn unaliased(types: &dyn Types, type_ref: TypeRef) -> Option<TypeRef> {
    let mut at = type_ref;
    for _ in 0..LONGEST_CHAIN {
        match types.get(at)?.kind {
            TypeKind::Alias { target, .. } => at = target?,
            _ => return Some(at),
        }
    }
    None
}

/// How the pointer so far in a value is written behind the value's name.
fn path_to(types: &dyn Types, type_ref: TypeRef, offset: u64) -> Option<String> {
    let (mut at, mut offset, mut path) = (type_ref, offset, String::new());
    for _ in 0..LONGEST_CHAIN {
        at = unaliased(types, at)?;
        let known = types.get(at)?;
        let size_of = |type_ref: TypeRef| types.get(type_ref).and_then(|known| known.size);
        match &known.kind {
            TypeKind::Pointer { .. } | TypeKind::Base(_) if offset == 0 => return Some(path),
            TypeKind::Struct(of) => {
                let is_in = |start: u64, part: TypeRef| {
                    size_of(part).is_some_and(|size| (start..start + size).contains(&offset))
                };
                let base = of.bases.iter().find_map(|base| {
                    let start = base.offset.filter(|start| is_in(*start, base.type_ref))?;
                    Some((start, base.type_ref, None))
                });
                let mut members = of.members.iter().filter(|member| is_in(member.offset, member.type_ref));
                let member =
                    members.next().map(|member| (member.offset, member.type_ref, member.name.as_ref()));
                let (start, part, name) = member.or(base)?;
                if let Some(name) = name {
                    path = format!("{path}.{name}");
                }
                (at, offset) = (part, offset - start);
            }
            TypeKind::Array { element, counts, .. } if counts.len() == 1 => {
                let size = size_of(*element).filter(|size| *size > 0)?;
                path = format!("{path}[{}]", offset / size);
                (at, offset) = (*element, offset % size);
            }
            _ => return None,
        }
    }
    None
}
