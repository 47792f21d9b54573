//! Which system call a thread is blocked in.

use super::{Stage, Standing};
use crate::{
    look::{Scene, Walk},
    sys::SYSCALL,
};

/// `mov eax, imm32`.
const LOADS_NUMBER: u8 = 0xb8;

/// A system call that has not returned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Blocking {
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

/// The call that a thread is in, or, where it runs in a recording, stands before.
pub(super) fn blocking_call(
    scene: &Scene<'_>,
    thread: &Standing,
    walk: impl FnOnce() -> Walk,
) -> Option<Blocking> {
    let registers = &thread.registers;
    let value = |name: &str| registers.get(name).unwrap_or_default();
    let arguments = ["rdi", "rsi", "rdx", "r10", "r8", "r9"].map(value);
    let (made, failed) = (value("orig_rax") as i64, value("rax") as i64);
    let is_cut_short = thread.stage == Stage::Dead && made >= 0 && failed == -i64::from(libc::EINTR);
    let number = match thread.stage {
        Stage::Live | Stage::Dead if registers.is_call_interrupted() || is_cut_short => match made {
            libc::SYS_restart_syscall => resumed(scene, registers.pc(), &arguments, walk)?,
            number => number,
        },
        Stage::Live | Stage::Dead => return None,
        Stage::Off | Stage::On => {
            let mut code = [0; 2];
            scene.memory.read(registers.pc(), &mut code).ok()?;
            (code == SYSCALL).then_some(failed)?
        }
    };
    Some(Blocking { number, arguments })
}

/// The call that the system goes on with, of which it does not tell the number: `pc` is behind its instruction.
fn resumed(scene: &Scene<'_>, pc: u64, arguments: &[u64; 6], walk: impl FnOnce() -> Walk) -> Option<i64> {
    let mut code = [0; 7];
    scene.memory.read(pc.wrapping_sub(7), &mut code).ok()?;
    if let [LOADS_NUMBER, number @ .., 0x0f, 0x05] = code {
        return Some(i64::from(u32::from_le_bytes(number)));
    }
    let walk = walk();
    let inner = walk.logical.iter().take(2).filter_map(|frame| frame.source.as_ref()?.function.as_deref());
    let named = inner.filter_map(|function| match function.trim_start_matches('_') {
        "clock_nanosleep" | "GI___clock_nanosleep" | "clock_nanosleep_time64" => {
            Some(libc::SYS_clock_nanosleep)
        }
        "nanosleep" | "GI___nanosleep" => Some(libc::SYS_nanosleep),
        "poll" | "GI___poll" => Some(libc::SYS_poll),
        _ => None,
    });
    named.into_iter().next().or_else(|| is_futex(scene, arguments).then_some(libc::SYS_futex))
}

/// Whether these are arguments with which a thread waits at a word of memory.
fn is_futex(scene: &Scene<'_>, &[word, operation, expected, ..]: &[u64; 6]) -> bool {
    let operation = operation as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    matches!(operation, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET)
        && word.is_multiple_of(4)
        && scene.memory.read_uint(word, 4).is_ok_and(|found| found == expected & u64::from(u32::MAX))
}
