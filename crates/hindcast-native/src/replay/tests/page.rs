//! Frequent system calls, which are made and noted at a page of ours without stopping.

use std::{collections::BTreeMap, time::Duration};

use hindcast_fixtures::Fixture;
use object::{Object as _, ObjectSymbol as _};

use super::{Recorded, check_program, wrong_visits};
use crate::{
    process::{Ended, Halt},
    record::{
        Event, Replay, SELF_CHECK,
        page::{self, Page, Stand, WITHOUT_PAGE},
    },
    sys::{self, GeneralRegisters, Resume},
};

fn program() -> std::path::PathBuf {
    Fixture::c("frequent").flags(["-O1"]).build().path
}

fn noted(recorded: &Recorded) -> u64 {
    recorded.process.recorder().and_then(|recorder| recorder.page()).map_or(0, |page| page.noted)
}

/// The calls of a recording, with how many bytes each wrote.
fn calls(recorded: &Recorded) -> Vec<(i64, usize)> {
    let log = &recorded.process.recorder().unwrap().log;
    let call = |event: &Event| match event {
        Event::Call(call) => {
            let written = match &call.replay {
                Replay::Emulate(writes) => writes.iter().map(|write| write.bytes.len()).sum(),
                _ => 0,
            };
            Some((call.number, if call.result < 0 { 0 } else { written }))
        }
        _ => None,
    };
    log.range(0, log.len()).filter_map(|(_, event)| call(&event)).collect()
}

#[test]
fn calls_at_the_page_are_replayed_to_the_same_states() {
    check_program(&[program().to_str().unwrap(), "300"]);
}

/// Signals come to the first thread, which waits, while another one makes calls at the page.
#[test]
fn signals_to_a_thread_that_waits_lose_no_calls_of_another_one() {
    let program = Fixture::c("ticking").flags(["-O1", "-pthread"]).build().path;
    check_program(&[program.to_str().unwrap(), "200000"]);
}

#[test]
fn programs_with_special_wishes_behave_as_without_a_recorder() {
    for wish in ["blocked", "handled", "processes", "pipe"] {
        check_program(&[program().to_str().unwrap(), "60", wish]);
    }
}

#[test]
fn calls_are_in_the_log_as_if_each_had_been_seen() {
    let mut logs = [true, false].map(|without| {
        WITHOUT_PAGE.set(without);
        let mut recorded = Recorded::start(&program(), &["30"]);
        assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)));
        assert_eq!(recorded.process.recorder().unwrap().why_ended(), None);
        (calls(&recorded), noted(&recorded))
    });
    // Random numbers decide how large some other answers are.
    let [(seen, none), (at_page, some)] = &mut logs;
    assert_eq!(*none, 0);
    assert!(*some > 400, "only {some} calls were noted");
    assert_eq!(seen, at_page);
}

#[test]
fn a_program_that_is_stopped_at_the_page_again_and_again_is_replayed_to_the_same_states() {
    SELF_CHECK.set(true);
    let mut recorded = Recorded::start(&program(), &["1000"]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(2), 50);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert_eq!(recorded.process.recorder().unwrap().why_ended(), None);
    assert!(noted(&recorded) > 1000, "only {} calls were noted", noted(&recorded));
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
}

/// An older system, or a container, does not offer what the page needs.
#[test]
fn a_program_that_has_its_calls_told_to_it_goes_on_and_its_history_says_why_it_ends() {
    let mut recorded = Recorded::start(&Fixture::c("dispatch").build().path, &[]);
    assert_eq!(recorded.run(), Halt::Ended(Ended::Exited(0)));
    let reason = recorded.process.recorder().unwrap().why_ended().unwrap();
    assert!(reason.contains("system calls told to it"), "{reason}");
}

#[test]
fn without_a_page_programs_are_recorded_as_well() {
    let refused = sys::Filter {
        call: libc::SYS_prctl,
        argument: Some(sys::call_page::PR_SET_SYSCALL_USER_DISPATCH as u32),
        answer: libc::EINVAL,
    };
    refused.install();
    let mut recorded = Recorded::start(&program(), &["30"]);
    assert!(recorded.process.recorder().unwrap().page().is_none());
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(2), 10);
    assert_eq!(halt, Halt::Ended(Ended::Exited(0)));
    assert_eq!(wrong_visits(&mut recorded, &seen), 0);
}

/// Registers without what single steps leave in the flags.
fn words(registers: &GeneralRegisters) -> [u64; 27] {
    const STEP: u64 = 1 << 8;
    let mut registers = *registers;
    for name in ["eflags", "r11"] {
        registers.set(name, registers.get(name).unwrap_or(0) & !STEP);
    }
    registers.set("orig_rax", u64::MAX);
    registers.words()
}

/// What a thread stood behind at the page, instruction by instruction, from one call site on.
struct Passage {
    before: [u64; 27],
    seen: Vec<(u64, Stand)>,
}

impl Passage {
    /// It has come out of the page with these registers.
    fn check(&self, after: &GeneralRegisters) {
        let mut is_made = false;
        for (pc, stand) in &self.seen {
            match stand {
                Stand::Elsewhere => panic!("{pc:#x} is not known to be at the page"),
                Stand::Before(registers) => {
                    assert!(!is_made, "at {pc:#x} a call that was made is said not to be");
                    assert_eq!(words(registers), self.before, "at {pc:#x}");
                }
                Stand::Made(registers, _) | Stand::Noted(registers) => {
                    is_made = true;
                    assert_eq!(words(registers), words(after), "at {pc:#x}");
                }
            }
        }
        assert!(is_made, "the call was made nowhere");
    }

    /// The call has to be made elsewhere.
    fn check_slow(&self) {
        for (pc, stand) in &self.seen {
            let Stand::Before(registers) = stand else { panic!("at {pc:#x} the call is said to be made") };
            assert_eq!(words(registers), self.before, "at {pc:#x}");
        }
    }
}

#[test]
fn wherever_a_thread_is_stopped_at_the_page_it_stands_before_its_call_or_behind_it() {
    let program = program();
    let bytes = std::fs::read(&program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let address = |name: &str| file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap().address();
    let mut recorded = Recorded::start(&program, &["10"]);
    let entry = sys::auxiliary_vector(recorded.process.pid()).unwrap();
    let entry = entry.into_iter().find(|(kind, _)| *kind == libc::AT_ENTRY).unwrap().1;
    let stepped = entry - address("_start") + address("stepped");
    recorded.process.insert_breakpoint(stepped).unwrap();
    assert!(matches!(recorded.run(), Halt::Breakpoint(..)));
    recorded.process.remove_breakpoint(stepped);
    let mut thread = recorded.process.take_thread();
    let (memory, tid) = (sys::ProcessMemory::open(thread.tid()).unwrap(), thread.tid());
    let process = &recorded.process;
    let page = process.recorder().unwrap().page().unwrap();
    let mut passage: Option<Passage> = None;
    let mut passed = BTreeMap::new();
    for _ in 0..60_000 {
        let registers = thread.registers().unwrap();
        match &mut passage {
            _ if page.is_at(registers.pc()) => {
                let stand = page.stand(&registers, &memory).unwrap();
                let begun = passage.get_or_insert_with(|| {
                    let Stand::Before(before) = &stand else { panic!("it begins behind a call") };
                    Passage { before: words(before), seen: Vec::new() }
                });
                begun.seen.push((registers.pc(), stand));
            }
            Some(over) => {
                over.check(&registers);
                let number = over.before[10];
                *passed.entry(number).or_insert(0) += 1;
                passage = None;
            }
            None => {}
        }
        thread.resume(Resume::Step, 0).unwrap();
        thread = match sys::wait_for(tid).unwrap() {
            sys::Event::Signal(thread, libc::SIGTRAP) => thread,
            sys::Event::Signal(thread, libc::SIGSYS) => {
                let registers = thread.registers().unwrap();
                let told = page.told_at(registers.pc(), &memory).unwrap();
                match (told, passage.take()) {
                    (page::Told::HandedOver, Some(over)) => {
                        let Stand::Made(after, _) = page.stand(&registers, &memory).unwrap() else {
                            panic!("it was not made");
                        };
                        over.check(&after);
                        *passed.entry(over.before[10]).or_insert(0) += 1;
                        thread.set_registers(&after).unwrap();
                        thread
                    }
                    (page::Told::HandedOver, None) => panic!("nothing was made"),
                    (page::Told::Call { pc, .. }, over) => {
                        over.iter().for_each(Passage::check_slow);
                        if registers.get("rax") == Some(libc::SYS_exit_group as u64) {
                            break;
                        }
                        make_call(thread, pc)
                    }
                }
            }
            event => panic!("{event:?}"),
        };
    }
    let made: Vec<_> = passed.keys().map(|number| *number as i64).collect();
    for wanted in [
        libc::SYS_read,
        libc::SYS_pread64,
        libc::SYS_openat,
        libc::SYS_epoll_wait,
        libc::SYS_sendto,
        libc::SYS_recvfrom,
        libc::SYS_clock_gettime,
    ] {
        assert!(made.contains(&wanted), "{wanted} was not made at the page: {passed:?}");
    }
}

/// Makes a call that was told, for the program.
fn make_call(thread: sys::Stopped, pc: u64) -> sys::Stopped {
    let tid = thread.tid();
    let mut registers = thread.registers().expect("it stands still");
    registers.set("rip", Page::GATE);
    registers.set("orig_rax", u64::MAX);
    thread.set_registers(&registers).expect("it stands still");
    thread.resume(Resume::Step, 0).expect("it stands still");
    let Ok(sys::Event::Signal(thread, libc::SIGTRAP)) = sys::wait_for(tid) else { panic!("it is lost") };
    let mut registers = thread.registers().expect("it stands still");
    registers.set("rip", pc);
    registers.set("rcx", pc);
    thread.set_registers(&registers).expect("it stands still");
    thread
}
