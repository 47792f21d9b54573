//! Checkpoints, as they are made again: a process of the same program whose memory is taken apart and put together as it
//! was then. It never runs an instruction of its own.

use std::{ffi::CString, fs::File, os::fd::AsRawFd as _, time::Duration};

use hindcast_symbols::Memory as _;

use super::{
    ArchiveError, cast,
    files::Files,
    image::{ANOTHER, HAS_CAST, NO_MORE},
    machine::Machine,
    memory::{self, Area},
    stream::Source,
};
use crate::{
    record,
    replay::{self, Anchor, Cast, Frozen, Label, Position, Timeline},
    sys::{self, GeneralRegisters, MemoryPlan, PAGE, ProcessMemory, SYSCALL, VectorRegisters},
};

const LONGEST_LABEL: u64 = 256;
const LONGEST_AUXILIARY: u64 = 2048;
const LONGEST_VECTORS: u64 = 64 << 10;
/// More than a recording keeps.
const MOST_CHECKPOINTS: usize = 4000;
/// Where in our own page the data of a call is.
const DATA: u64 = 64;

/// What a checkpoint is, beside its memory.
struct Head {
    label: Label,
    event: u64,
    flags: u64,
    walked: u64,
    number: u64,
    time: u64,
    gate: u64,
    program: u64,
    has_base: bool,
    plan: MemoryPlan,
    heap_end: u64,
    auxiliary: Vec<u8>,
}

impl Head {
    fn read(source: &mut Source) -> Result<Self, ArchiveError> {
        let position: Option<Position> = source.text(LONGEST_LABEL)?.parse().ok();
        let label = position.ok_or(ArchiveError::Malformed("a checkpoint has no name"))?.anchor;
        let [event, flags, walked, number, time] = source.numbers()?;
        let [gate, program, has_base] = source.numbers()?;
        let plan = MemoryPlan { marks: source.numbers()? };
        let heap_end = source.number()?;
        let auxiliary = source.block(LONGEST_AUXILIARY)?;
        Ok(Self {
            label,
            event,
            flags,
            walked,
            number,
            time,
            gate,
            program,
            has_base: has_base != 0,
            plan,
            heap_end,
            auxiliary,
        })
    }

    fn anchor(&self, frozen: Frozen) -> Anchor {
        Anchor {
            frozen,
            event: self.event,
            aligned: self.flags & 1 != 0,
            walked: u32::try_from(self.walked).unwrap_or(u32::MAX),
            pinned: self.flags & 2 != 0,
            number: self.number,
            time: (self.time != u64::MAX).then(|| Duration::from_micros(self.time)),
        }
    }
}

/// Makes all checkpoints again.
pub(super) fn read(
    source: &mut Source,
    files: &Files,
    machine: &Machine,
    traps: bool,
    timeline: &mut Timeline,
) -> Result<(), ArchiveError> {
    let mut before: Option<(Label, Vec<Area>)> = None;
    loop {
        match source.number()? {
            NO_MORE => return Ok(()),
            ANOTHER if timeline.len() < MOST_CHECKPOINTS => {}
            _ => return Err(ArchiveError::Malformed("there is no end to its checkpoints")),
        }
        let head = Head::read(source)?;
        let areas = memory::read(source)?;
        let (frozen, old) = match (head.has_base, before.take()) {
            (true, Some((label, old))) => {
                let base = timeline.get_mut(&label).ok_or(ArchiveError::Malformed("a checkpoint is gone"))?;
                (base.frozen.fork()?, old)
            }
            (true, None) => return Err(ArchiveError::Malformed("its first checkpoint has none before it")),
            (false, _) => (begin(files.program(head.program)?, machine)?, Vec::new()),
        };
        let mut building = Building::new(frozen, &areas)?;
        building.lay_out(&old, &areas, head.has_base, files)?;
        building.fill(source)?;
        let mut frozen = building.finish(&head, source, machine, traps && !head.has_base)?;
        if head.flags & HAS_CAST == 0 {
            // All copies show themselves under the number of the first.
            let first = timeline.iter().next().map_or(frozen.tid(), |(_, anchor)| anchor.frozen.tid());
            frozen.set_cast(Cast::alone(first));
        }
        if !timeline.restore(head.label.clone(), head.anchor(frozen)) {
            return Err(ArchiveError::Malformed("its checkpoints are not in the order of time"));
        }
        before = Some((head.label, areas));
    }
}

/// A process of a program before its first instruction, on a machine like that of the recording.
fn begin(program: CString, machine: &Machine) -> Result<Frozen, ArchiveError> {
    let mut frozen = replay::begin(program).map_err(|error| ArchiveError::Start(error.to_string()))?;
    if frozen.thread()?.vector_registers()?.layout() != machine.vectors {
        return Err(machine.differs("its vector registers are others"));
    }
    frozen.call(libc::SYS_close_range, [0, u64::from(u32::MAX), 0, 0, 0, 0])?;
    Ok(frozen)
}

/// A process whose memory is being put together.
struct Building {
    frozen: Frozen,
    memory: ProcessMemory,
    /// Our own page, from which calls are made meanwhile.
    page: u64,
}

impl Building {
    fn new(mut frozen: Frozen, areas: &[Area]) -> Result<Self, ArchiveError> {
        let process = frozen.tid();
        let page = memory::gap(areas, &sys::mappings(process)?, 1);
        let page = page.ok_or(ArchiveError::Rebuild("there is no room beside what it had mapped"))?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let protection = libc::PROT_READ | libc::PROT_EXEC;
        let made = frozen.call(libc::SYS_mmap, [page, PAGE, protection as u64, flags as u64, u64::MAX, 0])?;
        if made as u64 != page {
            return Err(ArchiveError::Rebuild("no page can be mapped to work from"));
        }
        let memory = ProcessMemory::open(process)?;
        let mut building = Self { frozen, memory, page };
        building.put(0, &SYSCALL)?;
        building.frozen.set_gate(page);
        Ok(building)
    }

    /// Writes to our own page.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<u64, ArchiveError> {
        let address = self.page + offset;
        self.memory.write(address, bytes).map_err(|_| ArchiveError::Rebuild("memory cannot be written"))?;
        Ok(address)
    }

    /// Maps what is to be mapped, and nothing else.
    fn lay_out(
        &mut self,
        old: &[Area],
        areas: &[Area],
        has_base: bool,
        files: &Files,
    ) -> Result<(), ArchiveError> {
        if has_base {
            for area in old {
                let same = areas.binary_search_by_key(&area.start, |area| area.start);
                let kept = same.map_or(area.start, |index| areas[index].kept(old));
                self.unmap(kept, area.end)?;
            }
        } else {
            for mapping in sys::mappings(self.frozen.tid())? {
                if mapping.start != self.page && mapping.start >> 63 == 0 {
                    self.unmap(mapping.start, mapping.end)?;
                }
            }
        }
        for area in areas {
            let kept = area.kept(old);
            if kept == area.start {
                self.map(area, files)?;
            } else if kept < area.end {
                let lengths = [kept - area.start, area.end - area.start];
                let arguments = [area.start, lengths[0], lengths[1], 0, 0, 0];
                if self.frozen.call(libc::SYS_mremap, arguments)? as u64 != area.start {
                    return Err(ArchiveError::Rebuild("a mapping cannot be made longer"));
                }
            }
        }
        Ok(())
    }

    fn unmap(&mut self, start: u64, end: u64) -> Result<(), ArchiveError> {
        if start < end && self.frozen.call(libc::SYS_munmap, [start, end - start, 0, 0, 0, 0])? != 0 {
            return Err(ArchiveError::Rebuild("a mapping of the system cannot be taken away"));
        }
        Ok(())
    }

    fn map(&mut self, area: &Area, files: &Files) -> Result<(), ArchiveError> {
        let mut flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let (mut descriptor, mut offset) = (None, 0);
        match area.file {
            None => flags |= libc::MAP_ANONYMOUS,
            Some((file, begin)) => {
                descriptor = Some(self.open(files.get(file)?.file())?);
                offset = begin;
            }
        }
        if area.grows {
            flags |= libc::MAP_GROWSDOWN;
        }
        let length = area.end - area.start;
        let file = descriptor.unwrap_or(u64::MAX);
        let mut made = 0;
        // What a program only reserved can be more than the system would promise.
        for flags in [flags, flags | libc::MAP_NORESERVE] {
            let arguments = [area.start, length, area.protection, flags as u64, file, offset];
            made = self.frozen.call(libc::SYS_mmap, arguments)? as u64;
            if made == area.start {
                break;
            }
        }
        if let Some(descriptor) = descriptor {
            self.frozen.call(libc::SYS_close, [descriptor, 0, 0, 0, 0, 0])?;
        }
        if made == area.start {
            Ok(())
        } else {
            Err(ArchiveError::Rebuild("memory cannot be mapped as it was"))
        }
    }

    /// Opens a file of ours in the process.
    fn open(&mut self, file: &File) -> Result<u64, ArchiveError> {
        let path = format!("/proc/{}/fd/{}\0", std::process::id(), file.as_raw_fd());
        let path = self.put(DATA, path.as_bytes())?;
        let descriptor = self.frozen.call(libc::SYS_open, [path, libc::O_RDONLY as u64, 0, 0, 0, 0])?;
        u64::try_from(descriptor).map_err(|_| ArchiveError::Rebuild("a mapped file cannot be opened again"))
    }

    /// Writes the pages that are not as in the files, or as before.
    fn fill(&mut self, source: &mut Source) -> Result<(), ArchiveError> {
        const MOST_AT_ONCE: u64 = 1024;
        let mut bytes = Vec::new();
        loop {
            let (address, count) = (source.number()?, source.count(MOST_AT_ONCE)?);
            if count == 0 {
                return Ok(());
            }
            bytes.resize((count * PAGE) as usize, 0);
            source.take(&mut bytes)?;
            self.memory
                .write(address, &bytes)
                .map_err(|_| ArchiveError::Malformed("it has memory where nothing was mapped"))?;
        }
    }

    /// The rest of what a process is; our own page goes.
    fn finish(
        mut self,
        head: &Head,
        source: &mut Source,
        machine: &Machine,
        traps: bool,
    ) -> Result<Frozen, ArchiveError> {
        let registers = GeneralRegisters::from_words(source.numbers()?);
        let vectors = VectorRegisters::new(source.block(LONGEST_VECTORS)?);
        if vectors.layout() != machine.vectors {
            return Err(ArchiveError::Malformed("its vector registers are not those of its processor"));
        }
        let request_length = 104;
        let auxiliary = self.put(DATA + request_length, &head.auxiliary)?;
        let request = head.plan.request(head.heap_end, (auxiliary, head.auxiliary.len() as u32));
        let request = self.put(DATA, &request)?;
        let arguments = [libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64, request, request_length, 0, 0];
        if self.frozen.call(libc::SYS_prctl, arguments)? != 0 {
            return Err(ArchiveError::Rebuild(
                "the system does not let the end of its heap be set, as a kernel with CONFIG_CHECKPOINT_RESTORE does",
            ));
        }
        let mut code = [0; 2];
        if self.memory.read(head.gate, &mut code).is_err() || code != SYSCALL {
            return Err(ArchiveError::Malformed("it has no place to make system calls from"));
        }
        self.frozen.set_gate(head.gate);
        let page = self.page;
        self.unmap(page, page + PAGE)?;
        let mut frozen = self.frozen;
        if traps {
            frozen.put_through(|thread| record::trap_instructions(thread, head.gate, true))?;
        }
        if head.flags & HAS_CAST != 0 {
            frozen.set_cast(cast::read(source, machine)?);
        }
        frozen.thread()?.set_vector_registers(&vectors)?;
        frozen.set_registers(&registers)?;
        Ok(frozen)
    }
}
