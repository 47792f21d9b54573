//! What a failed memory access tells about the mistake behind it.

use hindcast_core::debug::{FaultAccess, RaisedSignal, Region, RuntimeAddr};
use schemars::JsonSchema;
use serde::Serialize;

/// The first page is never mapped, and objects behind a null pointer are seldom larger than this.
const NULL_PAGES: u64 = 0x1_0000;
/// How far below its mapping a stack is still overrun rather than missed.
const BELOW_STACK: u64 = 0x10_0000;
/// How near to a mapping an address is just outside of it.
const JUST_OUTSIDE: u64 = 0x1_0000;

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

/// What was going on at a fault.
#[derive(Debug, Default)]
pub(super) struct Circumstances<'a> {
    pub(super) instruction: Option<&'a str>,
    pub(super) stack_pointer: Option<RuntimeAddr>,
    /// Registers by name.
    pub(super) registers: &'a [(String, u64)],
    /// The mapping of the address, or its neighbours.
    pub(super) regions: &'a [Region],
    /// A function that is on the stack very often.
    pub(super) recursion: Option<(&'a str, usize)>,
}

/// Explains the signal; none when it is not about memory.
pub(super) fn explain(signal: &RaisedSignal, around: &Circumstances<'_>) -> Option<FaultyAccess> {
    if !matches!(signal.name.as_str(), "SIGSEGV" | "SIGBUS") {
        return None;
    }
    let access = signal.access;
    let faulty = |kind, explanation: String| {
        Some(FaultyAccess { kind, access, address: signal.fault_address, explanation })
    };
    let cause = signal.cause.as_deref().unwrap_or_default().to_lowercase();
    if signal.name == "SIGBUS" {
        return if cause.contains("align") {
            faulty("misaligned", "the address is not a multiple of what the access needs".into())
        } else {
            let text = "the address is mapped, but nothing is behind it: the mapped file is shorter than its mapping";
            faulty("beyond_file", text.into())
        };
    }
    let instruction = around.instruction.unwrap_or_default();
    let Some(address) = signal.fault_address else {
        return if access == Some(FaultAccess::Execute) {
            let text = "jump to an address that no program can have: an overwritten return address or function pointer";
            faulty("non_canonical", text.into())
        } else {
            let text = format!("`{instruction}` is not allowed in programs, or not with these operands");
            faulty("not_allowed", text)
        };
    };
    if !is_canonical(address.0) {
        let blame = blame(around, |value| !is_canonical(value));
        let text =
            format!("{address} is no address that a program can have: the pointer{blame} was overwritten");
        return faulty("non_canonical", text);
    }
    if cause.contains("general protection") {
        let text = format!(
            "`{instruction}` needs an address that is a multiple of its operand's size, not {address}"
        );
        return faulty("misaligned", text);
    }
    let name = match access {
        Some(FaultAccess::Execute) => return explain_jump(address, around, faulty),
        Some(FaultAccess::Write) => "write to",
        Some(FaultAccess::Read) => "read of",
        None => "access to",
    };
    if address.0 < NULL_PAGES {
        let blame = blame(around, |value| value < NULL_PAGES);
        let text = match address.0 {
            0 => format!("{name} address 0: a null pointer{blame} was dereferenced"),
            offset => format!(
                "{name} {address}: a null pointer{blame} was dereferenced, with offset {offset} ({offset:#x}) for a field or index"
            ),
        };
        return faulty("null_dereference", text);
    }
    if let Some(text) = stack_overflow(address, around) {
        return faulty("stack_overflow", text);
    }
    let inside = around.regions.iter().find(|region| (region.start..region.end).contains(&address));
    if let Some(region) = inside {
        let what = described(region);
        let is_readable = region.permissions.starts_with("r-");
        return if access == Some(FaultAccess::Write) || is_readable && access.is_none() {
            faulty(
                "write_to_read_only",
                format!("write to {address}, which is in {what} and read-only ({})", region.permissions),
            )
        } else {
            faulty(
                "no_access",
                format!(
                    "{name} {address}, which is in {what} and closed to the program ({}): a guard page, or memory that was given back",
                    region.permissions
                ),
            )
        };
    }
    let below = around.regions.iter().filter(|region| region.end <= address).max_by_key(|region| region.end);
    if let Some(region) = below.filter(|region| address.0 - region.end.0 < JUST_OUTSIDE) {
        let past = address.0 - region.end.0;
        let text = format!(
            "{name} {address}, {past:#x} bytes behind the end of {}: an index or length that is too large",
            described(region)
        );
        return faulty("out_of_bounds", text);
    }
    let text = format!(
        "{name} {address}, where nothing is mapped: a pointer that was freed, overwritten or never set"
    );
    faulty("unmapped", text)
}

fn explain_jump(
    address: RuntimeAddr,
    around: &Circumstances<'_>,
    faulty: impl Fn(&'static str, String) -> Option<FaultyAccess>,
) -> Option<FaultyAccess> {
    if address.0 < NULL_PAGES {
        return faulty("null_call", format!("call of {address}: a null function pointer was called"));
    }
    let inside = around.regions.iter().find(|region| (region.start..region.end).contains(&address));
    match inside {
        Some(region) => {
            let what = described(region);
            let text = format!(
                "jump to {address}, which is in {what} and not executable ({}): an overwritten return address or function pointer",
                region.permissions
            );
            faulty("execute_non_executable", text)
        }
        None => {
            let text = format!(
                "jump to {address}, where nothing is mapped: an overwritten return address or function pointer"
            );
            faulty("unmapped", text)
        }
    }
}

fn stack_overflow(address: RuntimeAddr, around: &Circumstances<'_>) -> Option<String> {
    let near_pointer =
        around.stack_pointer.is_some_and(|pointer| address.0.abs_diff(pointer.0) < JUST_OUTSIDE);
    let writable = |region: &&Region| region.permissions.starts_with("rw");
    let inside = around
        .regions
        .iter()
        .any(|region| (region.start..region.end).contains(&address) && writable(&region));
    let above = around.regions.iter().filter(writable).find(|region| region.start > address);
    let below_stack = above.is_some_and(|region| {
        region.start.0 - address.0 < BELOW_STACK && (near_pointer || region.name.starts_with("[stack"))
    });
    let guard = around
        .regions
        .iter()
        .any(|region| (region.start..region.end).contains(&address) && region.permissions.starts_with("---"));
    if inside || !near_pointer || !(below_stack || guard) {
        return None;
    }
    let recursion = around.recursion.map(|(function, times)| {
        format!(": `{function}` is on it {times} times or more, so it calls itself without end")
    });
    let why =
        recursion.unwrap_or_else(|| ": endless recursion, or local variables that are too large".into());
    Some(format!("access to {address} below the end of the stack{why}"))
}

/// Whether it is an address that a program can have at all.
fn is_canonical(address: u64) -> bool {
    matches!(address >> 47, 0 | 0x1_ffff)
}

fn described(region: &Region) -> String {
    match region.name.as_str() {
        "" => format!("the mapping {}-{}", region.start, region.end),
        name => format!("`{name}`"),
    }
}

/// Which register holds the bad pointer: one that the instruction's memory operand names.
fn blame(around: &Circumstances<'_>, bad: impl Fn(u64) -> bool) -> String {
    let operand =
        around.instruction.and_then(|text| text.split_once('[')).and_then(|(_, rest)| rest.split_once(']'));
    let Some((operand, _)) = operand else { return String::new() };
    let named = operand.split(['+', '-', '*']).map(str::trim);
    for name in named {
        let value = around.registers.iter().find(|(register, _)| register == name).map(|(_, value)| *value);
        if let Some(value) = value.filter(|value| bad(*value)) {
            return format!(" in {name} ({value:#x})");
        }
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: u64, end: u64, permissions: &str, name: &str) -> Region {
        Region {
            start: RuntimeAddr(start),
            end: RuntimeAddr(end),
            permissions: permissions.into(),
            name: name.into(),
        }
    }

    /// What is said about an access to `address` by `instruction`.
    #[track_caller]
    fn check(
        (access, address): (FaultAccess, u64),
        instruction: &str,
        regions: &[Region],
        kind: &str,
        words: &str,
    ) {
        let signal = RaisedSignal {
            name: "SIGSEGV".into(),
            number: 11,
            cause: None,
            fault_address: Some(RuntimeAddr(address)),
            access: Some(access),
            handled: false,
        };
        let registers = [("rax".to_owned(), 0), ("rdi".to_owned(), address)];
        let around = Circumstances {
            instruction: Some(instruction),
            stack_pointer: Some(RuntimeAddr(0x7fff_0000_1000)),
            registers: &registers,
            regions,
            recursion: Some(("fib", 30)),
        };
        let explained = explain(&signal, &around).unwrap();
        assert_eq!(explained.kind, kind, "{}", explained.explanation);
        assert!(explained.explanation.contains(words), "{}", explained.explanation);
    }

    #[test]
    fn each_mistake_is_named() {
        use FaultAccess::{Read, Write};
        let heap = region(0x50_0000, 0x52_1000, "rw-p", "[heap]");
        let constants = region(0x40_2000, 0x40_3000, "r--p", "/bin/x");
        let stack = region(0x7fff_0000_1000, 0x7fff_0010_0000, "rw-p", "[stack]");
        check((Read, 8), "mov eax, dword ptr [rax+8]", &[], "null_dereference", "in rax (0x0)");
        check((Read, 8), "mov eax, dword ptr [rax+8]", &[], "null_dereference", "offset 8");
        check((Write, 0), "mov dword ptr [rax], 1", &[], "null_dereference", "write to address 0");
        check((Write, 0x40_2008), "mov byte ptr [rdi], 1", &[constants], "write_to_read_only", "`/bin/x`");
        check((Write, 0x7fff_0000_0ff8), "call fib", &[stack], "stack_overflow", "`fib` is on it 30 times");
        check(
            (Read, 0x52_1000),
            "mov al, byte ptr [rdi]",
            std::slice::from_ref(&heap),
            "out_of_bounds",
            "behind the end of `[heap]`",
        );
        check((Read, 0x7777_0000), "mov al, byte ptr [rdi]", &[heap], "unmapped", "nothing is mapped");
    }

    #[test]
    fn jumps_are_told_from_reads() {
        let heap = [region(0x50_0000, 0x52_1000, "rw-p", "[heap]")];
        for (address, kind) in
            [(0, "null_call"), (0x50_0010, "execute_non_executable"), (0x7777_0000, "unmapped")]
        {
            let address = RuntimeAddr(address);
            let signal = RaisedSignal {
                name: "SIGSEGV".into(),
                number: 11,
                cause: None,
                fault_address: Some(address),
                access: Some(FaultAccess::Execute),
                handled: false,
            };
            let around = Circumstances { regions: &heap, ..Circumstances::default() };
            let explained = explain(&signal, &around).unwrap();
            assert_eq!((explained.kind, explained.access), (kind, Some(FaultAccess::Execute)));
        }
    }

    #[test]
    fn faults_without_an_address_and_bus_errors_are_explained() {
        let signal = |name: &str, cause: &str| RaisedSignal {
            name: name.into(),
            number: 0,
            cause: Some(cause.into()),
            fault_address: None,
            access: None,
            handled: false,
        };
        let kind = |signal: &RaisedSignal, instruction| {
            let around = Circumstances { instruction: Some(instruction), ..Circumstances::default() };
            explain(signal, &around).map(|explained| explained.kind)
        };
        let protection = |access, address: Option<u64>| RaisedSignal {
            access,
            fault_address: address.map(RuntimeAddr),
            ..signal("SIGSEGV", "general protection fault (non-canonical address or privileged instruction)")
        };
        let unaligned = protection(Some(FaultAccess::Write), Some(0x7fff_0000_1008));
        assert_eq!(kind(&unaligned, "movaps xmmword ptr [rsp+8], xmm0"), Some("misaligned"));
        let overwritten = protection(Some(FaultAccess::Read), Some(0xdead_beef_dead_beef));
        assert_eq!(kind(&overwritten, "mov eax, dword ptr [rax]"), Some("non_canonical"));
        assert_eq!(kind(&protection(Some(FaultAccess::Execute), None), "ret"), Some("non_canonical"));
        assert_eq!(kind(&protection(None, None), "hlt"), Some("not_allowed"));
        assert_eq!(kind(&signal("SIGBUS", "invalid address alignment"), ""), Some("misaligned"));
        assert_eq!(kind(&signal("SIGBUS", "nonexistent physical address"), ""), Some("beyond_file"));
        assert_eq!(kind(&signal("SIGABRT", ""), ""), None);
    }
}
