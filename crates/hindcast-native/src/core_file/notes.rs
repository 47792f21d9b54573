//! The notes of a core file: threads with their registers, the signal, the files that were mapped.

use object::{
    LittleEndian, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use crate::{
    look::ThreadScene,
    sys::{GeneralRegisters, Mapping, SignalDetails, VectorLayout, VectorRegisters},
};

/// What a core file says of a process, apart from its memory.
#[derive(Default)]
pub(super) struct Notes {
    /// The one that the signal was for comes first.
    pub(super) threads: Vec<(u32, ThreadScene)>,
    pub(super) signal: Option<SignalDetails>,
    pub(super) name: String,
    pub(super) arguments: String,
    /// In the order of their addresses.
    pub(super) mappings: Vec<Mapping>,
    /// Where the memory is in the core file.
    pub(super) segments: Vec<Segment>,
    /// Where the processor put the vector registers, where the system wrote that down.
    layout: Option<VectorLayout>,
}

/// A part of the memory that the core file has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) address: u64,
    /// How much of it is in the file.
    pub(super) length: u64,
    pub(super) offset: u64,
}

type Header = elf::FileHeader64<LittleEndian>;

const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_X86_XSTATE: u32 = 0x202;
const NT_X86_XSAVE_LAYOUT: u32 = 0x205;
/// Offsets in the system's records of x86-64.
const STATUS_SIGNAL: usize = 12;
const STATUS_PID: usize = 32;
const STATUS_REGISTERS: usize = 112;
const INFO_NAME: usize = 40;
const INFO_ARGUMENTS: usize = 56;

impl Notes {
    /// Reads the headers and notes of a core file; `data` is the file, which is read where asked.
    pub(super) fn read<'data, R: object::ReadRef<'data>>(data: R) -> Result<Self, String> {
        let endian = LittleEndian;
        let broken = |what: &str| format!("it is not a core file of this machine: {what}");
        let header = Header::parse(data).map_err(|error| broken(&error.to_string()))?;
        if header.e_type(endian) != elf::ET_CORE || header.e_machine(endian) != elf::EM_X86_64 {
            return Err(broken("it is another kind of ELF file"));
        }
        let headers = header.program_headers(endian, data).map_err(|error| broken(&error.to_string()))?;
        let mut notes = Self::default();
        // The memory first: the notes name its parts.
        for program in headers.iter().filter(|program| program.p_type(endian) == elf::PT_LOAD) {
            notes.add_segment(program);
        }
        for program in headers.iter().filter(|program| program.p_type(endian) == elf::PT_NOTE) {
            let Ok(Some(mut list)) = program.notes(endian, data) else { continue };
            while let Ok(Some(note)) = list.next() {
                notes.add(note.n_type(endian).0, note.desc());
            }
        }
        if notes.threads.is_empty() {
            return Err(broken("it has no threads"));
        }
        if let Some(layout) = notes.layout {
            for (_, scene) in &mut notes.threads {
                let saved = scene.vectors.take().map(VectorRegisters::into_bytes);
                scene.vectors = saved.map(|area| VectorRegisters::with_layout(area, layout));
            }
        }
        notes.mappings.sort_by_key(|mapping| mapping.start);
        Ok(notes)
    }

    fn add_segment(&mut self, program: &elf::ProgramHeader64<LittleEndian>) {
        let endian = LittleEndian;
        let (address, flags) = (program.p_vaddr(endian), program.p_flags(endian).0);
        let flag = |bit, letter| if flags & bit != 0 { letter } else { '-' };
        let permissions = [flag(elf::PF_R.0, 'r'), flag(elf::PF_W.0, 'w'), flag(elf::PF_X.0, 'x'), 'p'];
        self.segments.push(Segment {
            address,
            length: program.p_filesz(endian),
            offset: program.p_offset(endian),
        });
        self.mappings.push(Mapping {
            start: address,
            end: address.saturating_add(program.p_memsz(endian)),
            permissions: permissions.iter().collect(),
            offset: u64::MAX,
            name: String::new(),
            inode: 0,
        });
    }

    fn add(&mut self, kind: u32, record: &[u8]) {
        match kind {
            NT_PRSTATUS => {
                let Some(pid) = number(record, STATUS_PID, 4) else { return };
                let Some(registers) = registers(record) else { return };
                let scene = ThreadScene { registers, vectors: None, hidden: 0 };
                self.threads.push((pid as u32, scene));
                if self.signal.is_none()
                    && let Some(signal) = number(record, STATUS_SIGNAL, 2).filter(|&signal| signal != 0)
                {
                    let signal = signal as i32;
                    self.signal =
                        Some(SignalDetails { signal, code: 0, address: None, sender: None, value: None });
                }
            }
            NT_PRPSINFO => {
                self.name = text(record, INFO_NAME, 16);
                self.arguments = text(record, INFO_ARGUMENTS, 80);
            }
            // Belongs to the thread whose status came before.
            NT_X86_XSTATE => {
                if let Some((_, scene)) = self.threads.last_mut() {
                    let layout = VectorLayout::of_length(record.len());
                    scene.vectors = Some(VectorRegisters::with_layout(record.to_vec(), layout));
                }
            }
            NT_X86_XSAVE_LAYOUT => self.layout = Some(VectorLayout::of_note(record)),
            // Of the first thread.
            NT_SIGINFO if self.threads.len() <= 1 => self.add_signal(record),
            NT_FILE => self.add_files(record),
            _ => {}
        }
    }

    fn add_signal(&mut self, record: &[u8]) {
        let (Some(signal), Some(code)) = (number(record, 0, 4), number(record, 8, 4)) else { return };
        let (signal, code) = (signal as i32, code as u32 as i32);
        let has_address = code > 0 && code != libc::SI_KERNEL;
        self.signal = Some(SignalDetails {
            signal,
            code,
            address: number(record, 16, 8).filter(|_| has_address),
            sender: number(record, 16, 4).filter(|_| code <= 0).map(|sender| sender as i32),
            value: None,
        });
    }

    /// Count and page size, then start, end and page of each, then their names.
    fn add_files(&mut self, record: &[u8]) {
        let (Some(count), Some(page)) = (number(record, 0, 8), number(record, 8, 8)) else { return };
        let Some(table) = usize::try_from(count).ok().and_then(|count| count.checked_mul(24)) else { return };
        let Some(names) = record.get(16..).and_then(|rest| rest.get(table..)) else { return };
        let names = names.split(|&byte| byte == 0);
        for (index, name) in (0..count as usize).zip(names) {
            let at = 16 + 24 * index;
            let (Some(start), Some(end), Some(offset)) =
                (number(record, at, 8), number(record, at + 8, 8), number(record, at + 16, 8))
            else {
                return;
            };
            let offset = offset.saturating_mul(page);
            let name = String::from_utf8_lossy(name).into_owned();
            match self.mappings.iter_mut().find(|mapping| mapping.start == start && mapping.end == end) {
                Some(mapping) => (mapping.offset, mapping.name) = (offset, name),
                // Left out, because the file has it: code and constants are.
                None => {
                    let permissions = "r-xp".into();
                    self.mappings.push(Mapping { start, end, permissions, offset, name, inode: 0 });
                }
            }
        }
    }
}

fn number(record: &[u8], at: usize, size: usize) -> Option<u64> {
    let mut wide = [0; 8];
    wide[..size].copy_from_slice(record.get(at..at + size)?);
    Some(u64::from_le_bytes(wide))
}

fn text(record: &[u8], at: usize, length: usize) -> String {
    let bytes = record.get(at..).unwrap_or_default();
    let bytes = &bytes[..bytes.len().min(length)];
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn registers(record: &[u8]) -> Option<GeneralRegisters> {
    let bytes = record.get(STATUS_REGISTERS..STATUS_REGISTERS + 27 * 8)?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    words.try_into().ok().map(GeneralRegisters::from_words)
}
