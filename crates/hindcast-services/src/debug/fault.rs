//! What a failed memory access tells about the mistake behind it, in words.

use hindcast_core::debug::{Fault, FaultAccess, FaultKind, RaisedSignal, Region, RuntimeAddr};
use schemars::JsonSchema;
use serde::Serialize;

/// A memory access that failed, explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FaultyAccess {
    /// `null_dereference`, `null_call`, `stack_overflow`, `write_to_read_only`, `execute_non_executable`,
    /// `no_access`, `misaligned`, `non_canonical`, `not_allowed`, `beyond_file`, `out_of_bounds` or `unmapped`.
    pub kind: &'static str,
    /// What the instruction wanted, where that is sure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<FaultAccess>,
    /// The address that was accessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
    /// In a sentence, which is part of the autopsy's summary.
    #[serde(skip)]
    pub explanation: String,
}

/// Explains the signal; none when it is not about memory. `recursion` is a function that is on the stack very often.
pub(super) fn explain(
    signal: &RaisedSignal,
    instruction: &str,
    recursion: Option<(&str, usize)>,
) -> Option<FaultyAccess> {
    let fault = signal.fault.as_deref()?;
    let address = signal.fault_address;
    let explanation = match (fault.kind, address) {
        (FaultKind::BeyondFile, _) => {
            "the address is mapped, but nothing is behind it: the mapped file is shorter than its mapping"
                .into()
        }
        (FaultKind::NonCanonical, None) => {
            "jump to an address that no program can have: an overwritten return address or function pointer"
                .into()
        }
        (FaultKind::Misaligned, Some(address)) if !instruction.is_empty() => {
            format!(
                "`{instruction}` needs an address that is a multiple of its operand's size, not {address}"
            )
        }
        (FaultKind::Misaligned, _) => "the address is not a multiple of what the access needs".into(),
        (FaultKind::NotAllowed, _) => {
            format!("`{instruction}` is not allowed in programs, or not with these operands")
        }
        (FaultKind::StackOverflow, Some(address)) => stack_overflow(address, recursion),
        (_, Some(address)) => about(fault, address),
        (_, None) => return None,
    };
    Some(FaultyAccess { kind: name(fault.kind), access: fault.access, address, explanation })
}

/// What was wanted of the address, and why that cannot be.
fn about(fault: &Fault, address: RuntimeAddr) -> String {
    let wanted = match fault.access {
        Some(FaultAccess::Execute) => "jump to",
        Some(FaultAccess::Write) => "write to",
        Some(FaultAccess::Read) => "read of",
        None => "access to",
    };
    let pointer = fault.pointer.as_ref();
    let blame = pointer.map(|bad| format!(" in {} ({:#x})", bad.register, bad.value)).unwrap_or_default();
    let region = fault.region.as_ref();
    let inside = region.map_or_else(|| "memory".into(), described);
    let permissions = region.map_or("", |region| &region.permissions);
    let overwritten = "an overwritten return address or function pointer";
    match fault.kind {
        FaultKind::NonCanonical => {
            format!("{address} is no address that a program can have: the pointer{blame} was overwritten")
        }
        FaultKind::NullCall => format!("call of {address}: a null function pointer was called"),
        FaultKind::NullDereference => match address.0 {
            0 => format!("{wanted} address 0: a null pointer{blame} was dereferenced"),
            offset => format!(
                "{wanted} {address}: a null pointer{blame} was dereferenced, with offset {offset} ({offset:#x}) for a field or index"
            ),
        },
        FaultKind::WriteToReadOnly => {
            format!("write to {address}, which is in {inside} and read-only ({permissions})")
        }
        FaultKind::ExecuteNonExecutable => {
            format!(
                "jump to {address}, which is in {inside} and not executable ({permissions}): {overwritten}"
            )
        }
        FaultKind::NoAccess => format!(
            "{wanted} {address}, which is in {inside} and closed to the program ({permissions}): a guard page, or memory that was given back"
        ),
        FaultKind::OutOfBounds => {
            let past = region.map_or(0, |region| address.0.saturating_sub(region.end.0));
            format!(
                "{wanted} {address}, {past:#x} bytes behind the end of {inside}: an index or length that is too large"
            )
        }
        _ if fault.access == Some(FaultAccess::Execute) => {
            format!("jump to {address}, where nothing is mapped: {overwritten}")
        }
        _ => format!(
            "{wanted} {address}, where nothing is mapped: a pointer that was freed, overwritten or never set"
        ),
    }
}

fn stack_overflow(address: RuntimeAddr, recursion: Option<(&str, usize)>) -> String {
    let why = recursion.map_or_else(
        || "endless recursion, or local variables that are too large".into(),
        |(function, times)| {
            format!("`{function}` is on it {times} times or more, so it calls itself without end")
        },
    );
    format!("access to {address} below the end of the stack: {why}")
}

fn name(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::NullDereference => "null_dereference",
        FaultKind::NullCall => "null_call",
        FaultKind::StackOverflow => "stack_overflow",
        FaultKind::WriteToReadOnly => "write_to_read_only",
        FaultKind::ExecuteNonExecutable => "execute_non_executable",
        FaultKind::NoAccess => "no_access",
        FaultKind::Misaligned => "misaligned",
        FaultKind::NonCanonical => "non_canonical",
        FaultKind::NotAllowed => "not_allowed",
        FaultKind::BeyondFile => "beyond_file",
        FaultKind::OutOfBounds => "out_of_bounds",
        FaultKind::Unmapped => "unmapped",
    }
}

fn described(region: &Region) -> String {
    match region.name.as_str() {
        "" => format!("the mapping {}-{}", region.start, region.end),
        name => format!("`{name}`"),
    }
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::BadPointer;

    use super::*;

    /// What is said about a fault at `address`.
    #[track_caller]
    fn check((kind, access): (FaultKind, FaultAccess), address: Option<u64>, words: &str) {
        let is_in_memory = !matches!(kind, FaultKind::Unmapped);
        let region = Region {
            start: RuntimeAddr(0x50_0000),
            end: RuntimeAddr(0x52_1000),
            permissions: "r--p".into(),
            name: "/bin/x".into(),
        };
        let fault = Fault {
            kind,
            access: Some(access),
            pointer: Some(BadPointer { register: "rax".into(), value: 0 }),
            region: is_in_memory.then_some(region),
        };
        let signal = RaisedSignal {
            name: "SIGSEGV".into(),
            number: 11,
            cause: None,
            fault_address: address.map(RuntimeAddr),
            fault: Some(Box::new(fault)),
            handled: false,
        };
        let explained = explain(&signal, "movaps xmm0, [rax]", Some(("fib", 30))).unwrap();
        assert_eq!((explained.kind, explained.access), (name(kind), Some(access)));
        assert!(explained.explanation.contains(words), "{}", explained.explanation);
    }

    #[test]
    fn each_mistake_is_worded() {
        use FaultAccess::{Execute, Read, Write};
        check((FaultKind::NullDereference, Read), Some(8), "a null pointer in rax (0x0) was dereferenced");
        check((FaultKind::NullDereference, Read), Some(8), "offset 8");
        check((FaultKind::NullDereference, Write), Some(0), "write to address 0");
        check((FaultKind::NullCall, Execute), Some(0), "null function pointer");
        check((FaultKind::StackOverflow, Write), Some(0x7ffe), "`fib` is on it 30 times");
        check((FaultKind::WriteToReadOnly, Write), Some(0x50_0008), "in `/bin/x` and read-only (r--p)");
        check((FaultKind::ExecuteNonExecutable, Execute), Some(0x50_0008), "not executable (r--p)");
        check((FaultKind::NoAccess, Read), Some(0x50_0008), "closed to the program");
        check((FaultKind::OutOfBounds, Read), Some(0x52_1010), "0x10 bytes behind the end of `/bin/x`");
        check((FaultKind::Unmapped, Read), Some(0x7777_0000), "never set");
        check((FaultKind::Unmapped, Execute), Some(0x7777_0000), "overwritten return address");
        check(
            (FaultKind::NonCanonical, Read),
            Some(0xdead_beef_dead_beef),
            "pointer in rax (0x0) was overwritten",
        );
        check((FaultKind::NonCanonical, Execute), None, "overwritten return address");
        check((FaultKind::Misaligned, Read), Some(0x1008), "`movaps xmm0, [rax]` needs");
        check((FaultKind::NotAllowed, Read), None, "is not allowed in programs");
        check((FaultKind::BeyondFile, Read), Some(0x5000), "shorter than its mapping");
    }
}
