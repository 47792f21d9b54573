//! Signals: which ones stop the program, and how they are told.

use hindcast_core::debug::{RaisedSignal, RuntimeAddr};
use libc::c_int;

use crate::sys::{self, SignalDetails, Tid};

/// Signals that tell of a fault; they always stop.
const FAULTS: [c_int; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT, libc::SIGSYS, libc::SIGTRAP];

/// The cause of a fault whose address the processor does not tell.
pub(crate) const PROTECTION_FAULT: &str =
    "general protection fault (non-canonical address or privileged instruction)";

/// The cause of a bus error at an address that is not aligned.
pub(crate) const MISALIGNED: &str = "invalid address alignment";
/// The cause of a bus error behind the end of a mapped file.
pub(crate) const BEYOND_FILE: &str = "the mapped file ends before this address";

/// Signals that do nothing unless they are caught.
const HARMLESS: [c_int; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];

/// Whether the user wants to hear of a signal before the program does: of faults, and of what would
/// end or stop the program.
pub(super) fn stops_by_default(process: Tid, signal: c_int) -> bool {
    if FAULTS.contains(&signal) {
        return true;
    }
    !HARMLESS.contains(&signal) && !sys::is_handled(process, signal)
}

/// As the user hears of it.
pub(crate) fn describe(details: SignalDetails) -> RaisedSignal {
    RaisedSignal {
        name: sys::signal_name(details.signal),
        number: details.signal,
        cause: cause(details),
        fault_address: details.address.filter(|_| details.signal != libc::SIGTRAP).map(RuntimeAddr),
        fault: None,
        handled: false,
    }
}

/// The number of a signal by its name, with or without `SIG`.
pub(super) fn by_name(name: &str) -> Option<c_int> {
    let upper = name.to_ascii_uppercase();
    if let Ok(number) = upper.parse() {
        return (1..=64).contains(&number).then_some(number);
    }
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    if let Some(beyond) = full.strip_prefix("SIGRTMIN") {
        let offset: c_int = if beyond.is_empty() { 0 } else { beyond.strip_prefix('+')?.parse().ok()? };
        return Some(libc::SIGRTMIN() + offset);
    }
    full.parse::<nix::sys::signal::Signal>().ok().map(|signal| signal as c_int)
}

fn cause(details: SignalDetails) -> Option<String> {
    let known = match (details.signal, details.code) {
        (libc::SIGSEGV, 1) => "address not mapped",
        (libc::SIGSEGV, 2) => "no permission for this access",
        (libc::SIGSEGV, libc::SI_KERNEL) => PROTECTION_FAULT,
        (libc::SIGBUS, 1) => MISALIGNED,
        (libc::SIGBUS, 2) => BEYOND_FILE,
        (libc::SIGFPE, 1) => "integer division by zero",
        (libc::SIGFPE, 2) => "integer overflow",
        (libc::SIGFPE, 3) => "floating-point division by zero",
        (libc::SIGILL, 2) => "illegal instruction operand",
        (libc::SIGILL, _) => "illegal instruction",
        _ => {
            let sender = details.sender.filter(|&pid| pid > 0)?;
            return Some(format!("sent by process {sender}"));
        }
    };
    Some(known.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_of_signals_belong_together() {
        for signal in (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX()) {
            assert_eq!(by_name(&sys::signal_name(signal)), Some(signal), "{}", sys::signal_name(signal));
        }
        assert_eq!(by_name("segv"), Some(libc::SIGSEGV));
        assert_eq!(by_name("11"), Some(libc::SIGSEGV));
        assert_eq!(by_name("SIGNOSUCH"), None);
    }
}
