//! What `/proc` tells of a process.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use super::Tid;

/// A mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Such as `r-xp`.
    pub(crate) permissions: String,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// A path, `[heap]` and its like, or nothing.
    pub(crate) name: String,
    /// The number of the file, where one is mapped and that is known.
    pub(crate) inode: u64,
}

/// Where the heap of a process begins that it makes larger with `brk`, whether or not it has.
pub(crate) fn heap_start(process: Tid) -> Option<u64> {
    /// The number of the field, from the one on that follows the name in parentheses.
    const START: usize = 47 - 3;
    let status = text_of(format!("/proc/{}/stat", process.0)).ok()?;
    let (_, fields) = status.rsplit_once(") ")?;
    fields.split_whitespace().nth(START)?.parse().ok().filter(|start| *start != 0)
}

/// In the order of their addresses.
pub(crate) fn mappings(process: Tid) -> io::Result<Vec<Mapping>> {
    let text = text_of(format!("/proc/{}/maps", process.0))?;
    Ok(text.lines().filter_map(mapping).collect())
}

/// What is in a file of the system. Names in it need not be text, and are shown as well as they can be.
fn text_of(file: impl AsRef<Path>) -> io::Result<String> {
    // The system writes as much at once as there is room for.
    let mut bytes = Vec::with_capacity(16 << 10);
    File::open(file)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn mapping(line: &str) -> Option<Mapping> {
    // address permissions offset device inode, then the name, which may contain blanks.
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let permissions = fields.next()?.to_owned();
    let offset = u64::from_str_radix(fields.next()?, 16).ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    let name = fields.next().unwrap_or("").trim_start();
    Some(Mapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions,
        offset,
        name: name.strip_suffix(" (deleted)").unwrap_or(name).to_owned(),
        inode,
    })
}

/// Private memory that is not in a copy made by `fork`, or is empty there.
pub(crate) fn kept_from_forks(process: Tid) -> io::Result<Vec<Mapping>> {
    let is_kept = |mapping: &Mapping, flags: &[&str]| {
        mapping.permissions.ends_with('p')
            && mapping.inode == 0
            && !mapping.name.starts_with("[v")
            && ["dc", "wf"].iter().any(|flag| flags.contains(flag))
    };
    flagged(process, is_kept)
}

/// Whether the process shares memory that it or others may write to: all but files that nobody has open for writing.
pub(crate) fn has_writable_shares(process: Tid) -> io::Result<bool> {
    const IN_MEMORY: [&str; 4] = ["/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"];
    let shares = |mapping: &Mapping, flags: &[&str]| {
        mapping.permissions.ends_with('s')
            && (flags.contains(&"mw")
                || !mapping.name.starts_with('/')
                || IN_MEMORY.iter().any(|place| mapping.name.starts_with(place))
                || File::open(&mapping.name)
                    .is_ok_and(|file| super::has_no(super::Users::Writers, &file) == Some(false)))
    };
    Ok(!flagged(process, shares)?.is_empty())
}

/// Mappings, chosen by what the system keeps of each beside its permissions.
fn flagged(process: Tid, choose: impl Fn(&Mapping, &[&str]) -> bool) -> io::Result<Vec<Mapping>> {
    let text = text_of(format!("/proc/{}/smaps", process.0))?;
    let mut chosen = Vec::new();
    let mut last = None;
    for line in text.lines() {
        match line.strip_prefix("VmFlags:") {
            Some(flags) => {
                let flags: Vec<_> = flags.split_ascii_whitespace().collect();
                chosen.extend(last.take().filter(|last| choose(last, &flags)));
            }
            // Figures have a name and a colon.
            None if !line.split(' ').next().is_some_and(|word| word.ends_with(':')) => last = mapping(line),
            None => {}
        }
    }
    Ok(chosen)
}

/// A segment of System V's shared memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SharedSegment {
    pub(crate) creator: Tid,
    /// Who attached or detached it last.
    pub(crate) last_user: Tid,
    /// How many processes have it mapped, counted by mapping.
    pub(crate) attached: u64,
}

/// The segment of this number, which stands in the place of an inode where it is mapped.
pub(crate) fn shared_segment(number: u64) -> Option<SharedSegment> {
    let text = text_of("/proc/sysvipc/shm").ok()?;
    text.lines().find_map(|line| {
        // key shmid perms size cpid lpid nattch …
        let mut fields = line.split_ascii_whitespace().skip(1);
        if fields.next()?.parse() != Ok(number) {
            return None;
        }
        let creator = Tid(fields.nth(2)?.parse().ok()?);
        let last_user = Tid(fields.next()?.parse().ok()?);
        let attached = fields.next()?.parse().ok()?;
        Some(SharedSegment { creator, last_user, attached })
    })
}

/// What a mapping's permissions are to `mmap`.
pub(crate) fn protection(permissions: &str) -> u64 {
    let bits = [('r', libc::PROT_READ), ('w', libc::PROT_WRITE), ('x', libc::PROT_EXEC)];
    bits.iter().filter(|(letter, _)| permissions.contains(*letter)).map(|&(_, bit)| bit as u64).sum()
}

/// The threads of a process, in the order of their numbers.
pub(crate) fn threads(process: Tid) -> io::Result<Vec<Tid>> {
    let mut threads: Vec<_> = fs::read_dir(format!("/proc/{}/task", process.0))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok().map(Tid))
        .collect();
    threads.sort_unstable();
    Ok(threads)
}

/// Whether a process is this one, or one that it was started by.
pub(crate) fn is_ancestor(process: Tid) -> bool {
    let own = i32::try_from(std::process::id()).ok().map(Tid);
    std::iter::successors(own, |&of| parent(of)).take(1000).any(|ancestor| ancestor == process)
}

/// The process that started it, or that it was given to.
pub(crate) fn parent(of: Tid) -> Option<Tid> {
    relative(of, "PPid:")
}

/// The process that a thread belongs to.
pub(crate) fn process_of(thread: Tid) -> Option<Tid> {
    relative(thread, "Tgid:")
}

fn relative(of: Tid, which: &str) -> Option<Tid> {
    let status = text_of(format!("/proc/{}/status", of.0)).ok()?;
    status.lines().find_map(|line| line.strip_prefix(which)?.trim().parse().ok().map(Tid))
}

/// Whether a process sees the same files as this one, and may open as much.
pub(crate) fn is_our_equal(process: Tid) -> bool {
    let same = |link: &str| {
        let of = |process: &str| fs::read_link(format!("/proc/{process}/{link}")).ok();
        of("self").is_some() && of("self") == of(&process.0.to_string())
    };
    let user = |process: &str| {
        let status = text_of(format!("/proc/{process}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("Uid:").map(str::to_owned))
    };
    same("root") && same("ns/mnt") && user("self").is_some() && user("self") == user(&process.0.to_string())
}

/// The name that a thread gave itself.
pub(crate) fn name(process: Tid, thread: Tid) -> Option<String> {
    let name = fs::read(format!("/proc/{}/task/{}/comm", process.0, thread.0)).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

/// What the system told the program at its start: pairs of kind and value.
pub(crate) fn auxiliary_vector(process: Tid) -> io::Result<Vec<(u64, u64)>> {
    let bytes = fs::read(format!("/proc/{}/auxv", process.0))?;
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (pairs, _) = words.as_chunks::<2>();
    Ok(pairs.iter().map(|&[kind, value]| (kind, value)).collect())
}

pub(crate) fn executable(process: Tid) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{}/exe", process.0))
}

/// The file that a process asked for when it became a program, as it was written.
pub(crate) fn executed_as(process: Tid) -> Option<Vec<u8>> {
    const LONGEST: usize = libc::PATH_MAX as usize;
    let auxiliary = auxiliary_vector(process).ok()?;
    let address =
        auxiliary.into_iter().find_map(|(kind, value)| (kind == libc::AT_EXECFN).then_some(value))?;
    let mut name = vec![0; LONGEST];
    let read = super::ProcessMemory::open(process).ok()?.read_some(address, &mut name);
    name.truncate(name[..read].iter().position(|&byte| byte == 0)?);
    Some(name)
}

pub(crate) fn current_folder(process: Tid) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/{}/cwd", process.0))
}

/// The arguments, beginning with the program's own name.
pub(crate) fn command_line(process: Tid) -> io::Result<Vec<String>> {
    let bytes = fs::read(format!("/proc/{}/cmdline", process.0))?;
    let text = bytes.strip_suffix(b"\0").unwrap_or(&bytes);
    Ok(text.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}

/// Where the system keeps parts of a process, beside its mappings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryPlan {
    /// Code from and to, data from and to, where the heap begins, the stack, arguments from and to, environment from and
    /// to: as the system calls them.
    pub(crate) marks: [u64; 10],
}

impl MemoryPlan {
    pub(crate) fn of(process: Tid) -> io::Result<Self> {
        // Counted behind the name.
        const FIELDS: [usize; 10] = [23, 24, 42, 43, 44, 25, 45, 46, 47, 48];
        let text = text_of(format!("/proc/{}/stat", process.0))?;
        let fields: Vec<_> = after_name(&text).split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field).and_then(|field| field.parse().ok());
        let marks = FIELDS.map(|field| number(field).unwrap_or(0));
        Ok(Self { marks })
    }

    /// As `PR_SET_MM_MAP` takes it, with the end of the heap, and what the system told the program at its start.
    pub(crate) fn request(&self, heap_end: u64, auxiliary: (u64, u32)) -> [u8; 104] {
        let [code, code_end, data, data_end, heap, stack, arguments, arguments_end, variables, variables_end] =
            self.marks;
        let words = [
            code,
            code_end,
            data,
            data_end,
            heap,
            heap_end,
            stack,
            arguments,
            arguments_end,
            variables,
            variables_end,
            auxiliary.0,
            // The executable stays.
            u64::from(auxiliary.1) | u64::from(u32::MAX) << 32,
        ];
        let mut bytes = [0; 104];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        bytes
    }
}

/// The name before the fields can contain anything but is the last thing in parentheses.
fn after_name(text: &str) -> &str {
    text.rsplit_once(')').map_or("", |(_, fields)| fields)
}

/// How often the process had to be given a page that was in memory already, or nowhere yet.
pub(crate) fn minor_faults(process: Tid) -> io::Result<u64> {
    let text = text_of(format!("/proc/{}/stat", process.0))?;
    let count = after_name(&text).split_ascii_whitespace().nth(7).and_then(|field| field.parse().ok());
    count.ok_or_else(|| io::Error::other("no such field"))
}

/// Whether a signal would be caught or ignored.
pub(crate) fn is_handled(process: Tid, signal: i32) -> bool {
    is_in(process, signal, ["SigCgt:", "SigIgn:"])
}

/// Whether the program has a handler for a signal.
pub(crate) fn is_caught(process: Tid, signal: i32) -> bool {
    is_in(process, signal, ["SigCgt:", "SigCgt:"])
}

/// Whether the program has a handler for a signal that does not come from an instruction of its own. The C library's own
/// handlers do not count.
pub(crate) fn handles_signals(process: Tid) -> bool {
    const NOT_FROM_OUTSIDE: [i32; 7] = [
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        // Of threads that are cancelled, and of `setuid`.
        32,
        33,
    ];
    let others = NOT_FROM_OUTSIDE.iter().fold(u64::MAX, |others, signal| others & !(1 << (signal - 1)));
    signal_set(process, "SigCgt:").is_none_or(|caught| caught & others != 0)
}

fn is_in(process: Tid, signal: i32, sets: [&str; 2]) -> bool {
    sets.iter().any(|set| signal_set(process, set).is_some_and(|set| set >> (signal - 1) & 1 == 1))
}

fn signal_set(process: Tid, field: &str) -> Option<u64> {
    let status = text_of(format!("/proc/{}/status", process.0)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

/// Whether a thread waits in the kernel.
pub(crate) fn is_asleep(process: Tid, thread: Tid) -> bool {
    let stat = text_of(format!("/proc/{}/task/{}/stat", process.0, thread.0));
    stat.is_ok_and(|stat| matches!(after_name(&stat).trim_start().as_bytes().first(), Some(b'S' | b'D')))
}

/// Whether a thread has ended, but is still listed: the first one is, as long as there are others.
pub(crate) fn is_zombie(process: Tid, thread: Tid) -> bool {
    let stat = text_of(format!("/proc/{}/task/{}/stat", process.0, thread.0));
    stat.is_ok_and(|stat| matches!(after_name(&stat).trim_start().as_bytes().first(), Some(b'Z' | b'X')))
}

/// Whether less than an eighth of the machine's memory is left. Not known is taken for no.
pub(crate) fn memory_is_short() -> bool {
    const LEAST_SHARE: u64 = 8;
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kilobytes = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse().ok()
    };
    kilobytes("MemAvailable").zip(kilobytes("MemTotal")).is_some_and(|(left, all)| left < all / LEAST_SHARE)
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    use super::*;

    #[test]
    fn names_need_not_be_text() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join(OsStr::from_bytes(b"\xff) S 1"));
        fs::copy("/usr/bin/sleep", &program).unwrap();
        let mut sleeping = std::process::Command::new(&program).arg("60").spawn().unwrap();
        let process = Tid(sleeping.id() as i32);
        // For a moment a program that has just been executed has only a stack.
        let is_there =
            || mappings(process).unwrap().iter().any(|mapping| mapping.name.ends_with("\u{fffd}) S 1"));
        let started = std::time::Instant::now();
        while !is_there() {
            assert!(started.elapsed() < std::time::Duration::from_secs(30), "{:?}", mappings(process));
            std::thread::yield_now();
        }
        assert_eq!(name(process, process).as_deref(), Some("\u{fffd}) S 1"));
        assert!(minor_faults(process).is_ok());
        sleeping.kill().unwrap();
        sleeping.wait().unwrap();
    }

    #[test]
    fn our_own_mappings_can_be_read() {
        let ourselves = Tid(std::process::id() as i32);
        let here = our_own_mappings_can_be_read as *const () as u64;
        let mappings = mappings(ourselves).unwrap();
        let code = mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&here)).unwrap();
        assert_eq!(code.permissions, "r-xp");
        assert_eq!(code.name, executable(ourselves).unwrap().to_string_lossy());
        assert!(mappings.iter().any(|mapping| mapping.name == "[stack]"));
    }
}
