//! The machine code of a sieve: it judges a condition, counts where it holds, and leaves everything else as it was.

use std::ops::Range;

use hindcast_symbols::{
    FixedPlace,
    expression::{Check, Number, Relation},
};

use super::super::trampoline::{Code, RCX, RDX, Site, mapped_around};

/// The code, and where it stops.
#[derive(Debug)]
pub(super) struct Built {
    /// From the entry on.
    pub(super) bytes: Vec<u8>,
    /// Where it stops because it has counted to the end; everything is as it was at the site.
    pub(super) stop: u64,
    /// Where it stops because it could not read what it compares; everything is as it was at the site.
    pub(super) doubt: u64,
    /// Where it goes on from both.
    pub(super) resume: u64,
    /// Addresses of the instructions that gave way, and of what follows them: here, and in the program.
    pub(super) moved: Vec<(u64, u64)>,
    /// The code that reads the program's memory, and where it goes on where there is none.
    pub(super) escape: (Range<u64>, u64),
}

pub(super) const RAX: u8 = 0;

/// What a sieve keeps at the end of its room, in words from there.
#[derive(Clone, Copy)]
pub(super) enum Slot {
    Rcx = 1,
    Rdx,
    Counter,
    Rax,
    Flags,
    Number,
    Summand,
    Passes,
    /// Of a live program: whether this pass was counted.
    Counted,
    /// The value that is counted by.
    Value,
}

/// Where the counter of a sieve is.
pub(super) fn counter_of(entry: u64) -> u64 {
    address(entry, Slot::Counter)
}

/// Where it counts how often it was passed, hit or not.
pub(super) fn passes_of(counter: u64) -> u64 {
    counter + 8 * Slot::Counter as u64 - 8 * Slot::Passes as u64
}

pub(super) fn address(entry: u64, slot: Slot) -> u64 {
    mapped_around(entry).end - 8 * slot as u64
}

/// Whether the processor can keep its flags in a register.
pub(super) fn keeps_flags() -> bool {
    const EXTENDED: u32 = 0x8000_0001;
    core::arch::x86_64::__cpuid(EXTENDED).ecx & 1 == 1
}

/// The code that begins at `entry`. It counts down at `counter`; with a condition, also how often that was judged.
pub(super) fn build(site: &Site, entry: u64, check: Option<&Check>, counter: u64) -> Option<Built> {
    if check.is_some() && !keeps_flags() {
        return None;
    }
    let mut writer = Writer { code: Code::at(entry), entry };
    writer.save(check.is_some());
    if check.is_some() {
        writer.code.constant(RDX, passes_of(counter));
        // mov rcx, [rdx]; lea rcx, [rcx + 1]; mov [rdx], rcx
        writer.code.push(&[0x48, 0x8b, 0x0a, 0x48, 0x8d, 0x49, 0x01, 0x48, 0x89, 0x0a]);
    }
    let begun = writer.code.here();
    let mut passes = Vec::new();
    if let Some(check) = check {
        passes = writer.jumps_where(check, false)?;
    }
    let judged = writer.code.here();
    let code = &mut writer.code;
    code.constant(RDX, counter);
    // mov rcx, [rdx]; lea rcx, [rcx - 1]; mov [rdx], rcx
    code.push(&[0x48, 0x8b, 0x0a, 0x48, 0x8d, 0x49, 0xff, 0x48, 0x89, 0x0a]);
    let stops = code.jump_if_zero();
    let out = code.here();
    for place in passes {
        code.patch(place, out);
    }
    writer.restore(check.is_some());
    let resume = writer.code.here();
    let moved = writer.code.move_from(site)?;
    let stop_block = writer.code.here();
    writer.code.patch(stops, stop_block);
    let stop = writer.trap(check.is_some());
    let doubt_block = writer.code.here();
    let doubt = writer.trap(check.is_some());
    (writer.code.here() <= address(entry, Slot::Passes)).then_some(Built {
        bytes: writer.code.bytes,
        stop,
        doubt,
        resume,
        moved,
        escape: (begun..judged, doubt_block),
    })
}

pub(super) struct Writer {
    pub(super) code: Code,
    pub(super) entry: u64,
}

impl Writer {
    pub(super) fn store(&mut self, register: u8, slot: Slot) {
        self.code.store(register, address(self.entry, slot));
    }

    pub(super) fn load(&mut self, register: u8, slot: Slot) {
        self.code.load(register, address(self.entry, slot));
    }

    pub(super) fn save(&mut self, flags: bool) {
        self.store(RCX, Slot::Rcx);
        self.store(RDX, Slot::Rdx);
        if flags {
            self.store(RAX, Slot::Rax);
            // lahf; seto al
            self.code.push(&[0x9f, 0x0f, 0x90, 0xc0]);
            self.store(RAX, Slot::Flags);
        }
    }

    pub(super) fn restore(&mut self, flags: bool) {
        if flags {
            self.load(RAX, Slot::Flags);
            // add al, 0x7f, which overflows where it did; sahf
            self.code.push(&[0x04, 0x7f, 0x9e]);
            self.load(RAX, Slot::Rax);
        }
        self.load(RCX, Slot::Rcx);
        self.load(RDX, Slot::Rdx);
    }

    /// Stops with everything as it was; where.
    pub(super) fn trap(&mut self, flags: bool) -> u64 {
        self.restore(flags);
        let at = self.code.here();
        self.code.push(&[0xcc]);
        at
    }

    /// Jumps, to where is yet to be said, where the condition is as `wanted`; else it goes on behind.
    pub(super) fn jumps_where(&mut self, check: &Check, wanted: bool) -> Option<Vec<usize>> {
        match check {
            Check::Not(check) => self.jumps_where(check, !wanted),
            Check::And(left, right) if wanted => self.jumps_where_both(left, right, true),
            Check::Or(left, right) if !wanted => self.jumps_where_both(left, right, false),
            Check::And(left, right) | Check::Or(left, right) => {
                let mut jumps = self.jumps_where(left, wanted)?;
                jumps.extend(self.jumps_where(right, wanted)?);
                Some(jumps)
            }
            Check::Compare { relation, left, right, bits, signed } => {
                self.compare(left, right, *bits)?;
                // jcc
                self.code.push(&[0x0f, 0x80 | condition(*relation, *signed) ^ u8::from(!wanted), 0, 0, 0, 0]);
                Some(vec![self.code.bytes.len() - 4])
            }
        }
    }

    fn jumps_where_both(&mut self, left: &Check, right: &Check, are: bool) -> Option<Vec<usize>> {
        let others = self.jumps_where(left, !are)?;
        let jumps = self.jumps_where(right, are)?;
        let behind = self.code.here();
        for place in others {
            self.code.patch(place, behind);
        }
        Some(jumps)
    }

    fn compare(&mut self, left: &Number, right: &Number, bits: u8) -> Option<()> {
        match (left, right) {
            (_, Number::Constant(value)) => {
                self.number(left)?;
                self.code.constant(RCX, *value);
            }
            _ => {
                self.number(left)?;
                self.store(RAX, Slot::Number);
                self.number(right)?;
                // mov rcx, rax
                self.code.push(&[0x48, 0x89, 0xc1]);
                self.load(RAX, Slot::Number);
            }
        }
        match bits {
            // cmp rax, rcx
            64 => self.code.push(&[0x48, 0x39, 0xc8]),
            // cmp eax, ecx
            32 => self.code.push(&[0x39, 0xc8]),
            _ => return None,
        }
        Some(())
    }

    /// A number in rax; rcx and rdx are lost.
    pub(super) fn number(&mut self, number: &Number) -> Option<()> {
        match number {
            Number::Constant(value) => self.code.constant(RAX, *value),
            Number::Value { place, pointers, size, signed } => {
                self.value(*place, pointers, *size, *signed)?;
            }
            Number::Truth(of) => {
                self.number(of)?;
                // test rax, rax; setne al; movzx eax, al
                self.code.push(&[0x48, 0x85, 0xc0, 0x0f, 0x95, 0xc0, 0x0f, 0xb6, 0xc0]);
            }
            Number::Remainder { of, by, signed } => {
                self.number(of)?;
                // mov ecx, by
                self.code.push(&[0xb9]);
                self.code.push(&by.to_le_bytes());
                match signed {
                    // cqo; idiv rcx
                    true => self.code.push(&[0x48, 0x99, 0x48, 0xf7, 0xf9]),
                    // xor edx, edx; div rcx
                    false => self.code.push(&[0x31, 0xd2, 0x48, 0xf7, 0xf1]),
                }
                // mov rax, rdx
                self.code.push(&[0x48, 0x89, 0xd0]);
            }
            Number::Sum(_, more) if matches!(**more, Number::Sum(..)) => return None,
            Number::Sum(of, more) => {
                self.number(of)?;
                self.store(RAX, Slot::Summand);
                self.number(more)?;
                self.load(RCX, Slot::Summand);
                // add rax, rcx
                self.code.push(&[0x48, 0x01, 0xc8]);
            }
            Number::Bits { of, mask } => {
                self.number(of)?;
                self.code.constant(RCX, *mask);
                // and rax, rcx
                self.code.push(&[0x48, 0x21, 0xc8]);
            }
        }
        Some(())
    }

    fn value(&mut self, place: FixedPlace, pointers: &[i64], size: u8, signed: bool) -> Option<()> {
        // mov rax, [rax]
        const FOLLOW: [u8; 3] = [0x48, 0x8b, 0x00];
        let mut offsets = pointers.iter();
        match place {
            FixedPlace::Register(register) => {
                self.register(register)?;
                match offsets.next() {
                    None => return self.widen(size, signed, 0xc0),
                    Some(offset) => self.add(*offset)?,
                }
            }
            FixedPlace::Near(register, offset) => {
                self.register(register)?;
                self.add(offset)?;
            }
            FixedPlace::Memory(address) => self.code.constant(RAX, address),
        }
        for offset in offsets {
            self.code.push(&FOLLOW);
            self.add(*offset)?;
        }
        self.widen(size, signed, 0x00)
    }

    /// The program's register, by its DWARF number, in rax.
    fn register(&mut self, dwarf: u16) -> Option<()> {
        const ENCODED: [u8; 16] = [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];
        match *ENCODED.get(usize::from(dwarf))? {
            RAX => self.load(RAX, Slot::Rax),
            RCX => self.load(RAX, Slot::Rcx),
            RDX => self.load(RAX, Slot::Rdx),
            // mov rax, register
            register => {
                let extended = u8::from(register >= 8) << 2;
                self.code.push(&[0x48 | extended, 0x89, 0xc0 | (register & 7) << 3]);
            }
        }
        Some(())
    }

    /// lea rax, [rax + offset]
    fn add(&mut self, offset: i64) -> Option<()> {
        let offset = i32::try_from(offset).ok()?;
        self.code.push(&[0x48, 0x8d, 0x80]);
        self.code.push(&offset.to_le_bytes());
        Some(())
    }

    /// The lowest bytes of rax, or those that it is the address of, as 64 bits in rax; `operand` says which of the two.
    fn widen(&mut self, size: u8, signed: bool, operand: u8) -> Option<()> {
        let opcode: &[u8] = match (size, signed) {
            (1, false) => &[0x0f, 0xb6],
            (1, true) => &[0x48, 0x0f, 0xbe],
            (2, false) => &[0x0f, 0xb7],
            (2, true) => &[0x48, 0x0f, 0xbf],
            (4, false) => &[0x8b],
            (4, true) => &[0x48, 0x63],
            (8, _) => &[0x48, 0x8b],
            _ => return None,
        };
        self.code.push(opcode);
        self.code.push(&[operand]);
        Some(())
    }
}

/// How conditional jumps name a relation; the lowest bit turns it round.
fn condition(relation: Relation, signed: bool) -> u8 {
    match (relation, signed) {
        (Relation::Equal, _) => 0x4,
        (Relation::NotEqual, _) => 0x5,
        (Relation::Less, false) => 0x2,
        (Relation::GreaterOrEqual, false) => 0x3,
        (Relation::LessOrEqual, false) => 0x6,
        (Relation::Greater, false) => 0x7,
        (Relation::Less, true) => 0xc,
        (Relation::GreaterOrEqual, true) => 0xd,
        (Relation::LessOrEqual, true) => 0xe,
        (Relation::Greater, true) => 0xf,
    }
}
