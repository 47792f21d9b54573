//! A program that gdb stopped: its registers, its stack and what gdb says of it.

use std::{collections::BTreeMap, path::Path, sync::OnceLock};

use hindcast_symbols::{FrameContext, Memory, Registers, Symbols, Unreadable, Unwound, types::ModuleId};

use crate::support::gdb;

const NAMES: [&str; 17] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "rip",
];

pub(crate) struct Snapshot {
    pub(crate) registers: Registers,
    /// Words of the stack and of the program's data by their address.
    memory: BTreeMap<u64, u64>,
    /// What gdb said.
    pub(crate) said: String,
}

impl Snapshot {
    /// Runs a program to a place, and has gdb answer `commands` there.
    pub(crate) fn take(path: &Path, place: &str, commands: &[&str]) -> Self {
        let stop = format!("break {place}");
        let mut all =
            vec!["handle SIGUSR1 nostop noprint pass", &stop, "run", "echo <registers>\\n", "info registers"];
        all.extend(["echo <stack>\\n", "x/1500gx $rsp-256", "echo <answers>\\n"]);
        all.extend(commands);
        all.push("kill");
        let said = gdb(path, &all);
        let part = |from: &str, to: &str| {
            let rest = said.split(from).nth(1).unwrap_or_else(|| panic!("gdb stopped nowhere:\n{said}"));
            rest.split(to).next().unwrap_or(rest).to_owned()
        };
        let mut registers = Registers::new();
        for line in part("<registers>", "<stack>").lines() {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|name| NAMES.iter().position(|known| *known == name));
            if let (Some(number), Some(value)) = (number, words.next()) {
                registers.set(number as u16, u64::from_str_radix(value.trim_start_matches("0x"), 16).ok());
            }
        }
        let mut memory = BTreeMap::new();
        for line in part("<stack>", "<answers>").lines() {
            let Some((address, words)) = line.split_once(':') else { continue };
            let address = address.split_whitespace().next().expect("an address");
            let address = crate::support::hexadecimal(address);
            for (at, word) in (0..).zip(words.split_whitespace()) {
                memory.insert(address + at * 8, crate::support::hexadecimal(word));
            }
        }
        Self { registers, memory, said: part("<answers>", "<never>") }
    }

    /// All frames, innermost first: registers, and how the next was found.
    pub(crate) fn frames(&self, symbols: &Symbols) -> Vec<StoppedFrame<'_>> {
        let mut frames: Vec<StoppedFrame<'_>> = Vec::new();
        let (mut registers, mut is_return) = (self.registers, false);
        for _ in 0..100 {
            let unwound = symbols.unwind(&registers, self, is_return).expect("the stack can be unwound");
            let pc = registers.pc().expect("a program counter");
            let address = if is_return { pc - 1 } else { pc };
            frames.push(StoppedFrame {
                registers,
                address,
                unwound,
                snapshot: self,
                caller: OnceLock::new(),
            });
            let Some(unwound) = unwound else { return with_callers(frames) };
            registers = unwound.registers;
            is_return = !unwound.signal_frame;
        }
        panic!("the stack does not end");
    }
}

/// Lets each frame know who called it.
fn with_callers(frames: Vec<StoppedFrame<'_>>) -> Vec<StoppedFrame<'_>> {
    for (frame, caller) in frames.iter().zip(&frames[1..]) {
        let StoppedFrame { registers, address, unwound, snapshot, .. } = *caller;
        let copy = StoppedFrame { registers, address, unwound, snapshot, caller: OnceLock::new() };
        let _ = frame.caller.set(Box::new(copy));
    }
    frames
}

impl Memory for Snapshot {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        for (at, byte) in (0..).zip(buffer) {
            let here = address.wrapping_add(at);
            let word = self.memory.get(&(here & !7)).ok_or(Unreadable(here))?;
            *byte = word.to_le_bytes()[(here & 7) as usize];
        }
        Ok(())
    }
}

pub(crate) struct StoppedFrame<'s> {
    pub(crate) registers: Registers,
    pub(crate) address: u64,
    pub(crate) unwound: Option<Unwound>,
    snapshot: &'s Snapshot,
    caller: OnceLock<Box<StoppedFrame<'s>>>,
}

impl FrameContext for StoppedFrame<'_> {
    fn register(&self, dwarf: u16) -> Option<Vec<u8>> {
        self.registers.get(dwarf).map(|value| value.to_le_bytes().to_vec())
    }

    fn memory(&self) -> &dyn Memory {
        self.snapshot
    }

    fn tls_address(&self, _: ModuleId, _: u64) -> Option<u64> {
        None
    }

    fn cfa(&self) -> Option<u64> {
        self.unwound.map(|unwound| unwound.cfa)
    }

    fn pc(&self) -> u64 {
        self.address
    }

    fn caller(&self) -> Option<&dyn FrameContext> {
        self.caller.get().map(|caller| &**caller as &dyn FrameContext)
    }
}
