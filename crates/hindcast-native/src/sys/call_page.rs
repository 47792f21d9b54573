//! Code of ours in a program, at which it makes frequent system calls without stopping. The call site jumps here; the call is
//! made, noted in a buffer together with what it wrote, and the program goes on behind its site. Whatever is not certain to
//! return at once, or does not fit, is made at [`SLOW_CALL`], where the system tells us first.
//!
//! One thread runs at a time, so there is one set of places to keep its registers. A thread that is stopped in here is put
//! before or behind its call by whoever stops it (`record::page`), so that nobody ever sees it here.

use std::ops::Range;

/// The request of `prctl` by which a thread's calls are told to it, from anywhere but one range of its code.
pub(crate) const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;

/// Where it is, in every process that is recorded. Programs have nothing there by themselves.
pub(crate) const PAGE: u64 = 0x6ffe_0000_0000;
/// Calls from here are not told: those of the code itself, and those that we have a thread make for us.
pub(crate) const ALLOWED: Range<u64> = PAGE..PAGE + 0x2000;
/// Code, then data.
pub(crate) const DATA: u64 = PAGE + 0x3000;
/// The buffer, to its end.
pub(crate) const BUFFER: Range<u64> = PAGE + 0x1_0000..PAGE + 0x11_0000;
/// All of it.
pub(crate) const ROOM: Range<u64> = PAGE..BUFFER.end;

/// Places in the data.
pub(crate) mod place {
    use super::DATA;

    /// A byte: 1 where calls from elsewhere are told.
    pub(crate) const SELECTOR: u64 = DATA;
    /// A byte: 1 where no call is to be made here.
    pub(crate) const OFF: u64 = DATA + 1;
    /// How much of the buffer is used.
    pub(crate) const CURSOR: u64 = DATA + 8;
    pub(crate) const LIMIT: u64 = DATA + 16;
    /// What is kept of a thread, in the order of [`super::Kept`].
    pub(crate) const KEPT: u64 = DATA + 24;
    /// The flags, on the code's own stack.
    pub(crate) const FLAGS: u64 = DATA + 0x3f8;
    /// The device of `/proc`.
    pub(crate) const PROC: u64 = DATA + 0xf8;
    /// A word for each call, by its number.
    pub(crate) const KINDS: u64 = DATA + 0x400;
}

/// What the code keeps of a thread, as it lies in memory.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Kept {
    /// Behind the call.
    pub(crate) pc: u64,
    pub(crate) number: u64,
    pub(crate) arguments: [u64; 6],
    pub(crate) rbx: u64,
    pub(crate) r11: u64,
    pub(crate) rcx: u64,
    pub(crate) rsp: u64,
    pub(crate) result: u64,
}

/// So many calls have a number that is looked up.
pub(crate) const KINDS: usize = 512;

core::arch::global_asm!(
    ".pushsection .text.hindcast_call_page,\"ax\",@progbits",
    // The code that uses these two names may be compiled to another object file.
    ".globl hindcast_page_places, hindcast_page",
    ".hidden hindcast_page_places, hindcast_page",
    ".balign 16",
    "hindcast_page_places:",
    ".quad hindcast_page_entry - hindcast_page + {page}",
    ".quad hindcast_page_on_own_stack - hindcast_page + {page}",
    ".quad hindcast_page_kept - hindcast_page + {page}",
    ".quad hindcast_page_call - hindcast_page + {page}",
    ".quad hindcast_page_result_kept - hindcast_page + {page}",
    ".quad hindcast_page_noted - hindcast_page + {page}",
    ".quad hindcast_page_left - hindcast_page + {page}",
    ".quad hindcast_page_to_hand_over - hindcast_page + {page}",
    ".quad hindcast_page_code_end - hindcast_page + {page}",
    ".quad hindcast_page_slow - hindcast_page + {page}",
    ".quad hindcast_page_hand_over - hindcast_page + {page}",
    ".quad hindcast_page_end - hindcast_page + {page}",
    ".balign 16",
    "hindcast_page:",
    ".set hc_data, hindcast_page + 0x3000",
    ".set hc_off, hc_data + 1",
    ".set hc_cursor, hc_data + 8",
    ".set hc_limit, hc_data + 16",
    ".set hc_pc, hc_data + 24",
    ".set hc_number, hc_data + 32",
    ".set hc_arguments, hc_data + 40",
    ".set hc_rbx, hc_data + 88",
    ".set hc_r11, hc_data + 96",
    ".set hc_rcx, hc_data + 104",
    ".set hc_rsp, hc_data + 112",
    ".set hc_result, hc_data + 120",
    ".set hc_proc, hc_data + 0xf8",
    ".set hc_stat, hc_data + 0x100",
    ".set hc_stack, hc_data + 0x400",
    ".set hc_flags, hc_data + 0x3f8",
    ".set hc_kinds, hc_data + 0x400",
    ".set hc_buffer, hindcast_page + 0x10000",
    // For calls that we have a thread make.
    "syscall",
    "int3",
    ".balign 16",
    // From here on rcx is where the site is described; nothing else has changed.
    "hindcast_page_entry:",
    "mov [rip + hc_r11], r11",
    "mov [rip + hc_rsp], rsp",
    "lea rsp, [rip + hc_stack]",
    "hindcast_page_on_own_stack:",
    "pushfq",
    "mov [rip + hc_number], rax",
    "mov [rip + hc_arguments], rdi",
    "mov [rip + hc_arguments + 8], rsi",
    "mov [rip + hc_arguments + 16], rdx",
    "mov [rip + hc_arguments + 24], r10",
    "mov [rip + hc_arguments + 32], r8",
    "mov [rip + hc_arguments + 40], r9",
    "mov [rip + hc_rbx], rbx",
    "mov r11, [rcx]",
    "mov [rip + hc_pc], r11",
    "mov r11, [rcx + 8]",
    "mov r11, [r11]",
    "mov [rip + hc_rcx], r11",
    // From here on all is kept.
    "hindcast_page_kept:",
    "cld",
    "cmp byte ptr [rip + hc_off], 0",
    "jne 90f",
    "cmp rax, 512",
    "jae 90f",
    "lea rbx, [rip + hc_kinds]",
    "mov rbx, [rbx + rax * 8]",
    "test rbx, rbx",
    "jz 90f",
    // Does what it may write fit?
    "movzx ecx, bh",
    "xor r11d, r11d",
    "test ecx, ecx",
    "jz 2f",
    "mov r11, rbx",
    "shr r11, 32",
    "cmp ecx, 2",
    "jne 2f",
    "mov rdx, rbx",
    "shr rdx, 24",
    "and edx, 0xff",
    "lea rsi, [rip + hc_arguments]",
    "mov rdx, [rsi + rdx * 8]",
    "cmp rdx, 65536",
    "ja 90f",
    "imul r11, rdx",
    "cmp r11, 65536",
    "ja 90f",
    "2:",
    "add r11, [rip + hc_cursor]",
    "add r11, 96",
    "cmp r11, [rip + hc_limit]",
    "ja 90f",
    // Is it sure to return at once, and to do nothing that has to be looked at?
    "movzx ecx, bl",
    "cmp ecx, 1",
    "je 50f",
    "cmp ecx, 2",
    "je 20f",
    "cmp ecx, 3",
    "je 21f",
    "cmp ecx, 4",
    "je 22f",
    "cmp ecx, 5",
    "je 23f",
    "cmp ecx, 6",
    "je 24f",
    "cmp ecx, 7",
    "je 25f",
    "cmp ecx, 8",
    "je 26f",
    "cmp ecx, 9",
    "jne 90f",
    "60:",
    "mov rax, [rip + hc_number]",
    "mov rdi, [rip + hc_arguments]",
    "mov rsi, [rip + hc_arguments + 8]",
    "mov rdx, [rip + hc_arguments + 16]",
    "mov r10, [rip + hc_arguments + 24]",
    "mov r8, [rip + hc_arguments + 32]",
    "mov r9, [rip + hc_arguments + 40]",
    // Waiting for no time first.
    "cmp bl, 4",
    "jne 61f",
    "xor r10d, r10d",
    "61:",
    "hindcast_page_call:",
    "syscall",
    "mov [rip + hc_result], rax",
    "hindcast_page_result_kept:",
    "cmp bl, 4",
    "jne 62f",
    "test rax, rax",
    "jnz 62f",
    "cmp dword ptr [rip + hc_arguments + 24], 0",
    "jne 90f",
    "62:",
    "cmp bl, 5",
    "jne 63f",
    "test rax, rax",
    "js 63f",
    "mov edi, eax",
    "lea rsi, [rip + hc_stat]",
    "mov eax, 5",
    "syscall",
    "test eax, eax",
    "jnz 91f",
    "mov rax, [rip + hc_stat]",
    "cmp rax, [rip + hc_proc]",
    "je 91f",
    "mov rax, [rip + hc_result]",
    "63:",
    // How much it wrote, and where.
    "xor ecx, ecx",
    "test rax, rax",
    "js 66f",
    "mov rsi, rbx",
    "shr rsi, 16",
    "and esi, 0xff",
    "lea rdx, [rip + hc_arguments]",
    "mov rsi, [rdx + rsi * 8]",
    "test rsi, rsi",
    "jz 70f",
    "movzx edx, bh",
    "test edx, edx",
    "jz 70f",
    "mov rcx, rbx",
    "shr rcx, 32",
    "cmp edx, 1",
    "je 70f",
    "cmp edx, 3",
    "je 65f",
    "imul rcx, rax",
    "mov rdx, rbx",
    "shr rdx, 24",
    "and edx, 0xff",
    "lea rdi, [rip + hc_arguments]",
    "mov rdx, [rdi + rdx * 8]",
    "mov rdi, rbx",
    "shr rdi, 32",
    "imul rdx, rdi",
    "cmp rcx, rdx",
    "cmova rcx, rdx",
    "jmp 70f",
    // What is printed: its beginning.
    "65:",
    "mov rdx, [rip + hc_arguments]",
    "xor ecx, ecx",
    "cmp edx, 1",
    "jb 70f",
    "cmp edx, 2",
    "ja 70f",
    "mov ecx, 64",
    "mov edi, 1024",
    "cmove ecx, edi",
    "cmp rcx, rax",
    "cmova rcx, rax",
    "jmp 70f",
    "66:",
    "cmp rax, -14",
    "jne 70f",
    "test bh, bh",
    "jnz 91f",
    "70:",
    "lea rdi, [rip + hc_buffer]",
    "add rdi, [rip + hc_cursor]",
    "lea rdx, [rcx + 95]",
    "and rdx, -8",
    "mov [rdi], rdx",
    "mov rax, [rip + hc_number]",
    "mov [rdi + 8], rax",
    "mov rax, [rip + hc_pc]",
    "mov [rdi + 16], rax",
    "mov rax, [rip + hc_arguments]",
    "mov [rdi + 24], rax",
    "mov rax, [rip + hc_arguments + 8]",
    "mov [rdi + 32], rax",
    "mov rax, [rip + hc_arguments + 16]",
    "mov [rdi + 40], rax",
    "mov rax, [rip + hc_arguments + 24]",
    "mov [rdi + 48], rax",
    "mov rax, [rip + hc_arguments + 32]",
    "mov [rdi + 56], rax",
    "mov rax, [rip + hc_arguments + 40]",
    "mov [rdi + 64], rax",
    "mov rax, [rip + hc_result]",
    "mov [rdi + 72], rax",
    "mov [rdi + 80], rcx",
    "add rdi, 88",
    "rep movsb",
    "add [rip + hc_cursor], rdx",
    "hindcast_page_noted:",
    "mov rdi, [rip + hc_arguments]",
    "mov rsi, [rip + hc_arguments + 8]",
    "mov rdx, [rip + hc_arguments + 16]",
    "mov r10, [rip + hc_arguments + 24]",
    "mov r8, [rip + hc_arguments + 32]",
    "mov r9, [rip + hc_arguments + 40]",
    "mov rbx, [rip + hc_rbx]",
    "mov r11, [rip + hc_flags]",
    "mov rcx, [rip + hc_pc]",
    "mov rax, [rip + hc_result]",
    "popfq",
    "mov rsp, [rip + hc_rsp]",
    "jmp qword ptr [rip + hc_pc]",
    "hindcast_page_left:",
    // Open: not what empties the file or goes around the page cache. The argument with the flags is that of the kind.
    "23:",
    "mov rdx, rbx",
    "shr rdx, 16",
    "and edx, 0xff",
    "lea rsi, [rip + hc_arguments]",
    "mov eax, [rsi + rdx * 8]",
    "test eax, 0x4200",
    "jnz 90f",
    // A folder, or nothing.
    "test eax, 0x10000",
    "jnz 60b",
    // Nor what one may have to wait for. It is looked at first.
    "mov rdi, [rip + hc_arguments]",
    "mov rsi, [rip + hc_arguments + 8]",
    "cmp dword ptr [rip + hc_number], 2",
    "jne 27f",
    "mov rsi, rdi",
    "mov rdi, -100",
    "27:",
    "lea rdx, [rip + hc_stat]",
    "xor r10d, r10d",
    "mov eax, 262",
    "syscall",
    "jmp 52f",
    // fcntl: copies of a descriptor, what its flags are, and whether it is closed at an exec.
    "20:",
    "mov esi, [rip + hc_arguments + 8]",
    "cmp esi, 3",
    "jbe 60b",
    "cmp esi, 1030",
    "je 60b",
    "jmp 90f",
    // futex: only to wake others.
    "21:",
    "mov esi, [rip + hc_arguments + 8]",
    "and esi, 0x7f",
    "cmp esi, 1",
    "je 60b",
    "jmp 90f",
    // epoll: without other signals.
    "22:",
    "cmp dword ptr [rip + hc_number], 232",
    "je 60b",
    "cmp qword ptr [rip + hc_arguments + 32], 0",
    "je 60b",
    "jmp 90f",
    // The second argument is not used.
    "24:",
    "cmp qword ptr [rip + hc_arguments + 8], 0",
    "je 60b",
    "jmp 90f",
    // Sockets: without an address, and without waiting.
    "25:",
    "cmp qword ptr [rip + hc_arguments + 32], 0",
    "jne 90f",
    "test dword ptr [rip + hc_arguments + 24], 0x40",
    "jnz 60b",
    "jmp 50f",
    // mprotect: not what makes code.
    "26:",
    "test dword ptr [rip + hc_arguments + 16], 4",
    "jz 60b",
    "jmp 90f",
    // A descriptor that nobody has to wait for: a file, a folder, some devices, or what the program does not want to wait for.
    "50:",
    "mov rdi, [rip + hc_arguments]",
    "lea rsi, [rip + hc_stat]",
    "mov eax, 5",
    "syscall",
    "52:",
    "test eax, eax",
    "jnz 60b",
    "mov eax, [rip + hc_stat + 24]",
    "and eax, 0xf000",
    "cmp eax, 0x8000",
    "je 60b",
    "cmp eax, 0x4000",
    "je 60b",
    "cmp eax, 0x2000",
    "jne 51f",
    "mov eax, [rip + hc_stat + 40]",
    "cmp eax, 0x103",
    "je 60b",
    "cmp eax, 0x105",
    "je 60b",
    "cmp eax, 0x109",
    "je 60b",
    "51:",
    "cmp bl, 5",
    "je 90f",
    "mov rdi, [rip + hc_arguments]",
    "mov esi, 3",
    "xor edx, edx",
    "mov eax, 72",
    "syscall",
    "test eax, 0x800",
    "jnz 60b",
    // Not here.
    "90:",
    "mov rax, [rip + hc_number]",
    "mov rdi, [rip + hc_arguments]",
    "mov rsi, [rip + hc_arguments + 8]",
    "mov rdx, [rip + hc_arguments + 16]",
    "mov r10, [rip + hc_arguments + 24]",
    "mov r8, [rip + hc_arguments + 32]",
    "mov r9, [rip + hc_arguments + 40]",
    "mov rbx, [rip + hc_rbx]",
    "mov r11, [rip + hc_r11]",
    "mov rcx, [rip + hc_rcx]",
    "popfq",
    "mov rsp, [rip + hc_rsp]",
    "jmp hindcast_page_slow",
    // The call is over, and somebody has to look at what it did.
    "91:",
    "hindcast_page_to_hand_over:",
    "mov eax, -1",
    "jmp hindcast_page_hand_over",
    "hindcast_page_code_end:",
    // Calls from here are told before they are made.
    ".org hindcast_page + 0x2000",
    "hindcast_page_slow:",
    "syscall",
    // Only a process that borrows this memory comes here.
    "jmp qword ptr [rip + hc_pc]",
    ".balign 16",
    "hindcast_page_hand_over:",
    "syscall",
    "int3",
    "hindcast_page_end:",
    ".popsection",
    page = const PAGE,
);

unsafe extern "C" {
    static hindcast_page: u8;
    static hindcast_page_places: Addresses;
}

/// Addresses of the code, where it is in a program, in the order in which the assembler writes them.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Addresses {
    /// Where sites jump to, with the address of their description in `rcx`.
    pub(crate) entry: u64,
    pub(crate) on_own_stack: u64,
    /// From here on all registers are kept.
    pub(crate) kept: u64,
    /// The call itself.
    pub(crate) call: u64,
    pub(crate) result_kept: u64,
    /// From here on the call is in the buffer.
    pub(crate) noted: u64,
    pub(crate) left: u64,
    pub(crate) to_hand_over: u64,
    pub(crate) code_end: u64,
    /// Where a call is made that is told.
    pub(crate) slow: u64,
    /// Where a call is told that was made.
    pub(crate) hand_over: u64,
    end: u64,
}

pub(crate) fn addresses() -> Addresses {
    // SAFETY: the assembler has written one number for each field, and they never change.
    unsafe { hindcast_page_places }
}

/// The code, as it is copied to [`PAGE`].
pub(crate) fn code() -> &'static [u8] {
    let length = (addresses().end - PAGE) as usize;
    // SAFETY: all of it is in one section, which never changes.
    unsafe { std::slice::from_raw_parts(&raw const hindcast_page, length) }
}
