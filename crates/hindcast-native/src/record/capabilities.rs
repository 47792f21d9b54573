//! What this machine allows. Each thing is tried in a process of our own and judged by what it does there: systems accept
//! requests that they do not carry out.

use std::{sync::OnceLock, time::Instant};

use hindcast_core::debug::Capability;
use hindcast_symbols::Memory as _;

use crate::{
    replay::{self, Frozen},
    sys::{
        self, DebugRegisters, Event, MemoryPlan, PAGE, ProcessMemory, Resume, SYSCALL, TraceError, WatchKind,
    },
};

/// Tried once; then remembered.
pub(crate) fn capabilities() -> Vec<Capability> {
    static KNOWN: OnceLock<Vec<Capability>> = OnceLock::new();
    // On a thread of its own, which has no other processes to wait for.
    KNOWN.get_or_init(|| std::thread::spawn(probe).join().unwrap_or_default()).clone()
}

/// Begins to try, for somebody who will ask: a program takes as long to start.
pub(crate) fn try_capabilities() {
    // Where it cannot begin, it is tried when asked for.
    let _ = std::thread::Builder::new().name("capabilities".into()).spawn(capabilities);
}

const CONTAINER: &str =
    "in a container, start it with `--cap-add SYS_PTRACE --security-opt seccomp=unconfined`";
const PROCESSOR: &str = "use another kind of machine: this one's processor or hypervisor does not do it";

/// Whether something does what it should; what was measured, where that tells something.
type Verdict = Result<(bool, Option<String>), TraceError>;

/// Something that is tried: its name, how, what is lost without it, and what to do.
struct Trial {
    name: &'static str,
    run: fn(&mut Subject) -> Verdict,
    lost: &'static str,
    remedy: &'static str,
}

const TRIALS: [Trial; 10] = [
    Trial {
        name: "code can be changed for breakpoints",
        run: changes_code,
        lost: "there are no breakpoints",
        remedy: "boot without `proc_mem.force_override`",
    },
    Trial {
        name: "single steps are one instruction",
        run: steps_once,
        lost: "there are no steps, and nothing can be replayed",
        remedy: PROCESSOR,
    },
    Trial {
        name: "watched memory stops the program",
        run: watches,
        lost: "there are no watchpoints, and `debugger/last_write` finds nothing",
        remedy: PROCESSOR,
    },
    Trial {
        name: "system calls can be emulated",
        run: emulates,
        lost: "nothing can be replayed",
        remedy: CONTAINER,
    },
    Trial {
        name: "a process can be copied",
        run: copies,
        lost: "nothing is recorded",
        remedy: "allow more processes (`ulimit -u`, the container's limit) and more memory",
    },
    Trial {
        name: "code can be put beside the program's",
        run: places_code,
        lost: "hot places are counted by breakpoints, which makes going back thousands of times slower",
        remedy: "allow memory that is written and executed (SELinux: `execmem`)",
    },
    Trial {
        name: "written pages can be told from others",
        run: tells_pages,
        lost: "recordings cannot be written to files",
        remedy: "use a kernel with CONFIG_PROC_PAGE_MONITOR",
    },
    Trial {
        name: "the end of a heap can be set",
        run: sets_heap,
        lost: "recordings in files cannot be opened",
        remedy: "use a kernel with CONFIG_CHECKPOINT_RESTORE",
    },
    Trial {
        name: "system calls can be told by where they are made",
        run: tells_calls,
        lost: "each system call stops a recorded program, which makes it many times slower",
        remedy: "use a kernel from 5.11 on",
    },
    Trial {
        name: "the time stamp counter can be made to trap",
        run: traps_counter,
        lost: "programs that read it cannot be replayed exactly",
        remedy: CONTAINER,
    },
];

/// Tried last: where it traps, our own page is of no more use.
const PROCESSOR_FEATURES: Trial = Trial {
    name: "the processor's description can be made to trap",
    run: traps_features,
    lost: "programs that use random numbers of the processor cannot be replayed exactly",
    remedy: PROCESSOR,
};

fn probe() -> Vec<Capability> {
    let traced = |problem: Option<String>| Capability {
        name: "programs can be traced".into(),
        works: problem.is_none(),
        remedy: problem.is_some().then(|| CONTAINER.into()),
        note: problem.map(|problem| format!("nothing can be launched, attached to or recorded ({problem})")),
    };
    let mut subject = match Subject::start() {
        Ok(subject) => subject,
        Err(problem) => return vec![traced(Some(problem))],
    };
    let mut known = vec![traced(None)];
    for trial in TRIALS.iter().chain([&PROCESSOR_FEATURES]) {
        known.push(trial.of(&mut subject));
        // A failed one may have left the process in the middle of something.
        if known.last().is_some_and(|last| !last.works)
            && let Ok(fresh) = Subject::start()
        {
            subject = fresh;
        }
    }
    known
}

impl Trial {
    fn of(&self, subject: &mut Subject) -> Capability {
        let (works, note) = match (self.run)(subject) {
            Ok((true, measured)) => (true, measured),
            Ok((false, _)) => (false, Some(self.lost.to_owned())),
            Err(error) => (false, Some(format!("{} ({error})", self.lost))),
        };
        let remedy = (!works).then(|| self.remedy.to_owned());
        Capability { name: self.name.into(), works, note, remedy }
    }
}

/// A process of this very program that has not begun to run, with two pages of ours.
struct Subject {
    frozen: Frozen,
    memory: ProcessMemory,
    code: u64,
    data: u64,
}

impl Subject {
    fn start() -> Result<Self, String> {
        let frozen = replay::begin(c"/proc/self/exe".into()).map_err(|error| error.to_string())?;
        Self::with_pages(frozen).map_err(|error| error.to_string())
    }

    fn with_pages(mut frozen: Frozen) -> Result<Self, TraceError> {
        let memory = ProcessMemory::open(frozen.tid()).map_err(|_| TraceError::Gone)?;
        let mut page = |protection: i32| {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            frozen.call(libc::SYS_mmap, [0, PAGE, protection as u64, flags as u64, u64::MAX, 0])
        };
        let code = page(libc::PROT_READ | libc::PROT_EXEC)? as u64;
        let data = page(libc::PROT_READ | libc::PROT_WRITE)? as u64;
        Ok(Self { frozen, memory, code, data })
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), TraceError> {
        self.memory.write(address, bytes).map_err(|_| TraceError::Gone)
    }

    fn word(&self, address: u64) -> u64 {
        self.memory.read_pointer(address).unwrap_or(u64::MAX)
    }

    /// Runs code until it stops by a signal, or, where `how` is to emulate calls, at a call.
    fn run(&mut self, at: u64, code: &[u8], how: Resume) -> Result<Stop, TraceError> {
        self.write(at, code)?;
        let mut registers = self.frozen.registers()?;
        for (name, value) in [("rip", at), ("rax", 0), ("rdi", self.data), ("orig_rax", u64::MAX)] {
            registers.set(name, value);
        }
        self.frozen.set_registers(&registers)?;
        self.go_on(how)
    }

    fn go_on(&mut self, how: Resume) -> Result<Stop, TraceError> {
        self.frozen.take()?.resume(how, 0)?;
        let (thread, signal) = match sys::wait_for(self.frozen.tid())? {
            Event::Signal(thread, signal) => (thread, signal),
            Event::Call(thread) => (thread, 0),
            _ => return Err(TraceError::Gone),
        };
        let pc = thread.registers()?.pc();
        self.frozen.put(thread);
        Ok(Stop { pc, signal })
    }
}

/// Where code came to a stop.
#[derive(Debug, PartialEq, Eq)]
struct Stop {
    pc: u64,
    /// 0 at a system call.
    signal: i32,
}

const BREAKPOINT: u8 = 0xcc;
const NOTHING: u8 = 0x90;

fn changes_code(subject: &mut Subject) -> Verdict {
    let stop = subject.run(subject.code, &[NOTHING, BREAKPOINT], Resume::Continue)?;
    Ok((stop == Stop { pc: subject.code + 2, signal: libc::SIGTRAP }, None))
}

fn steps_once(subject: &mut Subject) -> Verdict {
    let code = [NOTHING, NOTHING, NOTHING, BREAKPOINT];
    let first = subject.run(subject.code, &code, Resume::Step)?;
    let second = subject.go_on(Resume::Step)?;
    Ok(((first.pc, second.pc) == (subject.code + 1, subject.code + 2), None))
}

fn watches(subject: &mut Subject) -> Verdict {
    // mov [rdi], rax
    const STORE: [u8; 5] = [0x48, 0x89, 0x07, NOTHING, BREAKPOINT];
    let mut watched = DebugRegisters::default();
    let slots = watched.watch(subject.data, 8, WatchKind::Write).unwrap_or_default();
    watched.apply(subject.frozen.thread()?)?;
    let stop = subject.run(subject.code, &STORE, Resume::Continue)?;
    let hits = DebugRegisters::hits(subject.frozen.thread()?)?;
    DebugRegisters::default().apply(subject.frozen.thread()?)?;
    Ok((stop.pc == subject.code + 3 && hits == slots, None))
}

fn emulates(subject: &mut Subject) -> Verdict {
    const OURS: u64 = 12345;
    // mov eax, the number of getpid; syscall
    let number = libc::SYS_getpid as u8;
    let code = [&[0xb8, number, 0, 0, 0], &SYSCALL[..], &[NOTHING, BREAKPOINT]].concat();
    let stop = subject.run(subject.code, &code, Resume::Emulate)?;
    let told = stop == Stop { pc: subject.code + 7, signal: 0 };
    let mut registers = subject.frozen.registers()?;
    registers.set("rax", OURS);
    subject.frozen.set_registers(&registers)?;
    let stop = subject.go_on(Resume::Emulate)?;
    let kept = subject.frozen.registers()?.get("rax") == Some(OURS);
    Ok((told && kept && stop.pc == subject.code + 9, None))
}

fn copies(subject: &mut Subject) -> Verdict {
    const BEFORE: u64 = 0x1122_3344_5566_7788;
    subject.write(subject.data, &BEFORE.to_le_bytes())?;
    let mut begun = Instant::now();
    let mut copy = subject.frozen.fork()?;
    let mut time = begun.elapsed();
    // The first is slower than those that follow.
    for _ in 0..3 {
        begun = Instant::now();
        copy = subject.frozen.fork()?;
        time = time.min(begun.elapsed());
    }
    subject.write(subject.data, &[0; 8])?;
    let memory = ProcessMemory::open(copy.tid()).map_err(|_| TraceError::Gone)?;
    let kept = memory.read_pointer(subject.data).ok() == Some(BEFORE) && subject.word(subject.data) == 0;
    let measured = format!("{:.2} ms for a small one", time.as_secs_f64() * 1000.0);
    Ok((kept, Some(measured)))
}

fn places_code(subject: &mut Subject) -> Verdict {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let mappings = sys::mappings(subject.frozen.tid()).map_err(|_| TraceError::Gone)?;
    // As far below the program as landmarks would be.
    let Some(page) = mappings.first().and_then(|first| first.start.checked_sub(16 * PAGE)) else {
        return Ok((false, None));
    };
    let arguments = [page, PAGE, protection as u64, flags as u64, u64::MAX, 0];
    if subject.frozen.call(libc::SYS_mmap, arguments)? as u64 != page {
        return Ok((false, None));
    }
    let stop = subject.run(page, &[NOTHING, BREAKPOINT], Resume::Continue)?;
    subject.frozen.call(libc::SYS_munmap, [page, PAGE, 0, 0, 0, 0])?;
    Ok((stop == Stop { pc: page + 2, signal: libc::SIGTRAP }, None))
}

fn tells_pages(subject: &mut Subject) -> Verdict {
    let (flags, protection) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
    let arguments = [0, 8 * PAGE, protection as u64, flags as u64, u64::MAX, 0];
    let start = subject.frozen.call(libc::SYS_mmap, arguments)? as u64;
    subject.write(start + 3 * PAGE, &[1])?;
    let told = sys::touched(subject.frozen.tid(), start..start + 8 * PAGE, false).unwrap_or_default();
    subject.frozen.call(libc::SYS_munmap, [start, 8 * PAGE, 0, 0, 0, 0])?;
    let written = start + 3 * PAGE..start + 4 * PAGE;
    Ok((told == std::slice::from_ref(&written), None))
}

fn sets_heap(subject: &mut Subject) -> Verdict {
    let process = subject.frozen.tid();
    let plan = MemoryPlan::of(process).map_err(|_| TraceError::Gone)?;
    let auxiliary = std::fs::read(format!("/proc/{}/auxv", process.0)).map_err(|_| TraceError::Gone)?;
    let end = subject.frozen.call(libc::SYS_brk, [0; 6])? as u64 + 16 * PAGE;
    let request = plan.request(end, (subject.data + 512, auxiliary.len() as u32));
    subject.write(subject.data + 512, &auxiliary)?;
    subject.write(subject.data, &request)?;
    let [what, how] = [libc::PR_SET_MM as u64, libc::PR_SET_MM_MAP as u64];
    let arguments = [what, how, subject.data, request.len() as u64, 0, 0];
    subject.frozen.call(libc::SYS_prctl, arguments)?;
    Ok((subject.frozen.call(libc::SYS_brk, [0; 6])? as u64 == end, None))
}

fn tells_calls(subject: &mut Subject) -> Verdict {
    let dispatch = sys::call_page::PR_SET_SYSCALL_USER_DISPATCH as u64;
    let gate = subject.frozen.gate() & !(PAGE - 1);
    let on = [dispatch, 1, gate, PAGE, 0, 0];
    if subject.frozen.call(libc::SYS_prctl, on)? != 0 {
        return Ok((false, None));
    }
    let code = [&[0xb8, libc::SYS_getpid as u8, 0, 0, 0], &SYSCALL[..], &[NOTHING, BREAKPOINT]].concat();
    let stop = subject.run(subject.code, &code, Resume::Continue)?;
    // From the place that is left out, it is made as ever.
    let is_made = subject.frozen.call(libc::SYS_getpid, [0; 6])? == i64::from(subject.frozen.tid().0);
    subject.frozen.call(libc::SYS_prctl, [dispatch, 0, 0, 0, 0, 0])?;
    Ok((is_made && stop == Stop { pc: subject.code + 7, signal: libc::SIGSYS }, None))
}

fn traps_counter(subject: &mut Subject) -> Verdict {
    traps(subject, &[0x0f, 0x31, NOTHING, BREAKPOINT])
}

fn traps_features(subject: &mut Subject) -> Verdict {
    traps(subject, &[0x0f, 0xa2, NOTHING, BREAKPOINT])
}

/// Whether an instruction stops where it is, once it is made to trap.
fn traps(subject: &mut Subject, code: &[u8]) -> Verdict {
    let gate = subject.frozen.gate();
    subject.frozen.put_through(|thread| super::trap_instructions(thread, gate, true))?;
    let stop = subject.run(subject.code, code, Resume::Continue)?;
    Ok((stop == Stop { pc: subject.code, signal: libc::SIGSEGV }, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::Filter;

    fn missing() -> Vec<(String, String)> {
        let failed = probe().into_iter().filter(|capability| !capability.works);
        failed.map(|capability| (capability.name, capability.note.unwrap_or_default())).collect()
    }

    /// The tests of time travel need all of it, and pass here.
    #[test]
    fn all_that_recording_relies_on_works_where_recordings_are_tested() {
        assert_eq!(missing(), []);
        let known = probe();
        assert_eq!(known.len(), TRIALS.len() + 2);
        let copied = known.iter().find(|capability| capability.name == "a process can be copied").unwrap();
        assert!(copied.note.as_ref().is_some_and(|note| note.ends_with(" ms for a small one")), "{copied:?}");
    }

    /// It says that it was done, and it was not: only trying finds that out.
    #[test]
    fn what_the_system_only_pretends_to_do_is_told_with_what_is_lost() {
        const ARCH_CPUID_SET: u32 = 0x1012;
        Filter { call: libc::SYS_arch_prctl, argument: Some(ARCH_CPUID_SET), answer: 0 }.install();
        let missing = missing();
        let [(name, note)] = &*missing else { panic!("{missing:?}") };
        assert_eq!(name, "the processor's description can be made to trap");
        assert!(note.starts_with("programs that use random numbers") && !note.contains("hint"), "{note}");
    }

    #[test]
    fn a_call_that_is_refused_is_told_with_what_is_lost() {
        let call =
            Filter { call: libc::SYS_prctl, argument: Some(libc::PR_SET_TSC as u32), answer: libc::EPERM };
        call.install();
        let call =
            Filter { call: libc::SYS_prctl, argument: Some(libc::PR_SET_MM as u32), answer: libc::EPERM };
        call.install();
        let names: Vec<_> = missing().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["the end of a heap can be set", "the time stamp counter can be made to trap"]);
    }

    #[test]
    fn where_tracing_is_forbidden_that_is_told_and_nothing_else() {
        Filter { call: libc::SYS_ptrace, argument: None, answer: libc::EPERM }.install();
        let known = probe();
        let [capability] = &*known else { panic!("{known:?}") };
        assert_eq!((capability.name.as_str(), capability.works), ("programs can be traced", false));
        let note = capability.note.as_deref().unwrap_or_default();
        assert!(note.contains("nothing can be launched"), "{note}");
        let remedy = capability.remedy.as_deref().unwrap_or_default();
        assert!(remedy.contains("SYS_PTRACE"), "{remedy}");
    }
}
