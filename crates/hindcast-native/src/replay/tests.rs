//! Recording and replay on real programs: what is replayed is held against what was seen live.

use std::{
    collections::HashMap, ffi::CString, fs::File, ops::Range, os::fd::OwnedFd, path::Path,
    sync::atomic::AtomicBool,
};

use hindcast_core::debug::Interrupt as _;
use hindcast_fixtures::Fixture;

use super::{Bound, Context, Position, Replica, digest};
use crate::{
    process::{Ended, Halt, Process},
    sys::{self, SpawnPlan},
};

/// A program that is recorded from its first instruction on.
struct Recorded {
    process: Process,
    functions: Vec<Range<u64>>,
    output: tempfile::NamedTempFile,
}

impl Recorded {
    fn start(program: &Path, arguments: &[&str]) -> Self {
        let text = |text: &str| CString::new(text).unwrap();
        let null = || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").unwrap());
        let output = tempfile::NamedTempFile::new().unwrap();
        let name = program.to_str().unwrap();
        let plan = SpawnPlan {
            program: text(name),
            arguments: std::iter::once(name).chain(arguments.iter().copied()).map(text).collect(),
            environment: vec![text("PATH=/usr/bin:/bin"), text("LC_ALL=C.UTF-8")],
            folder: None,
            stdin: null(),
            stdout: OwnedFd::from(output.reopen().unwrap()),
            stderr: null(),
        };
        let mut process = Process::launched(sys::spawn(&plan).unwrap()).unwrap();
        process.record().unwrap();
        Self { process, functions: functions(program), output }
    }

    fn fixture(name: &str, arguments: &[&str]) -> Self {
        let program = Fixture::c(name).flags(["-O1", "-no-pie"]).build().path;
        Self::start(&program, arguments)
    }

    fn run(&mut self) -> Halt {
        loop {
            match self.process.run().unwrap() {
                Halt::Signal(tid, details) => self.process.deliver(tid, details.signal),
                Halt::Exec(_) => {}
                halt => return halt,
            }
        }
    }

    /// Runs to its end and stops it now and then; what it was like there, by the moment.
    fn run_with_stops(&mut self, every: std::time::Duration) -> (Halt, HashMap<Position, u64>) {
        let interrupt = self.process.interrupt();
        let over = std::sync::Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let clock = std::thread::spawn(move || {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(every);
                interrupt.interrupt();
            }
        });
        let mut seen = HashMap::new();
        let halt = loop {
            match self.run() {
                Halt::Interrupted(_) => {
                    let live = self.process.digest();
                    self.process.anchor().unwrap();
                    let recorder = self.process.recorder_mut().unwrap();
                    if let Some(position) = recorder.timeline.frontier().cloned() {
                        recorder.timeline.get_mut(&position.anchor).unwrap().pinned = true;
                        seen.insert(position, live);
                    }
                }
                halt => break halt,
            }
        };
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        clock.join().unwrap();
        (halt, seen)
    }

    fn with_context<T>(&mut self, work: impl FnOnce(&mut Context<'_>) -> T) -> T {
        let functions = self.functions.clone();
        let asked = AtomicBool::new(false);
        let recorder = self.process.recorder_mut().unwrap();
        work(&mut Context {
            log: &recorder.log,
            timeline: &mut recorder.timeline,
            functions: &|address| functions.iter().find(|range| range.contains(&address)).cloned(),
            asked: &asked,
        })
    }

    /// Replays every stretch from one anchor to the next.
    fn replays_whole(&mut self) -> usize {
        self.with_context(|context| {
            let labels: Vec<_> = context.timeline.iter().map(|(label, _)| label.clone()).collect();
            for label in &labels {
                let mut replica = context.replica_at(label).unwrap();
                let bound = context.bound_after(label);
                context.run(&mut replica, &bound, &mut |_, _| Ok(false)).unwrap_or_else(|error| {
                    let mut at = replica_event(&error);
                    if let Bound::Anchor(next) = &bound {
                        let anchor = context.timeline.get(next).unwrap();
                        at = anchor.event;
                        let from = context.timeline.get(label).unwrap().event;
                        let mut again = Replica::new(
                            context.timeline.get_mut(label).unwrap().frozen.fork().unwrap(),
                            from,
                        )
                        .unwrap();
                        while again.event() < at {
                            again.advance(context.log, super::Advance::Run, at).unwrap();
                        }
                        let anchor = context.timeline.get(next).unwrap();
                        let state = super::state::State::of(&anchor.frozen).unwrap();
                        eprintln!(
                            "event 0 {:x?}\n{:x?}",
                            state.compare(&again),
                            again.registers().unwrap().words()
                        );
                        let r = anchor.frozen.registers().unwrap();
                        let m = sys::ProcessMemory::open(anchor.frozen.tid()).unwrap();
                        let mut code = [0u8; 16];
                        m.read_some(r.pc() - 4, &mut code);
                        eprintln!(
                            "event {} aligned {} code {code:x?}\n{:x?}",
                            anchor.event,
                            anchor.aligned,
                            r.words()
                        );
                    }
                    for (index, event) in context.log.range(at.saturating_sub(8), at + 2) {
                        let text = format!("{event:x?}");
                        eprintln!("{index}: {}", &text[..text.len().min(220)]);
                    }
                    panic!("from {label:?} to {bound:?}: {error}");
                });
                if let Bound::Anchor(next) = bound {
                    let state =
                        super::state::State::of(&context.timeline.get(&next).unwrap().frozen).unwrap();
                    let likeness = state.compare(&replica).unwrap();
                    if likeness != super::state::Likeness::Same {
                        let other = &context.timeline.get(&next).unwrap();
                        eprintln!("{likeness:x?} event {} pc {:x}", other.event, state.pc());
                        eprintln!(
                            "{:x?}\n{:x?}",
                            other.frozen.registers().unwrap().words(),
                            replica.registers().unwrap().words()
                        );
                        let (a, b) = (
                            super::state::vectors(other.frozen.thread().unwrap()).unwrap(),
                            super::state::vectors(replica.frozen.thread().unwrap()).unwrap(),
                        );
                        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
                            if a != b {
                                eprintln!("xsave {i}: {a:x} {b:x}");
                            }
                        }
                        if let super::state::Likeness::Word(at, _) = likeness {
                            for m in sys::mappings(replica.frozen.tid()).unwrap() {
                                if (m.start..m.end).contains(&at) {
                                    eprintln!("{m:x?}");
                                }
                            }
                        }
                    }
                    let there = context.timeline.get(&next).unwrap().frozen.thread().unwrap();
                    let none = crate::process::Overlay::default();
                    let replayed = digest(replica.frozen.thread().unwrap(), &none).unwrap();
                    assert_eq!(digest(there, &none).unwrap(), replayed, "{label:?} to {next:?}");
                }
            }
            labels.len()
        })
    }
}

/// The functions of a program that is not position independent.
fn functions(program: &Path) -> Vec<Range<u64>> {
    use object::{Object as _, ObjectSymbol as _, SymbolKind};
    let bytes = std::fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let base = if file.kind() == object::ObjectKind::Dynamic { 0x5555_5555_4000 } else { 0 };
    file.symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0)
        .map(|symbol| base + symbol.address()..base + symbol.address() + symbol.size())
        .collect()
}

#[test]
fn every_stretch_of_real_programs_is_replayed_to_the_same_state() {
    for command in [
        &["/bin/ls", "-lR", "/usr/include/linux"][..],
        &["/usr/bin/sha256sum", "/bin/bash"],
        &["/usr/bin/sort", "/etc/services"],
        &["/usr/bin/env", "ls", "/"],
    ] {
        let begun = std::time::Instant::now();
        let mut recorded = Recorded::start(Path::new(command[0]), &command[1..]);
        let halt = recorded.run();
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{command:?}");
        let time = begun.elapsed();
        let printed = std::fs::read(recorded.output.path()).unwrap();
        let plain = std::process::Command::new(command[0])
            .args(&command[1..])
            .env_clear()
            .envs([("PATH", "/usr/bin:/bin"), ("LC_ALL", "C.UTF-8")])
            .output()
            .unwrap();
        assert_eq!(printed, plain.stdout, "{command:?}");
        let events = recorded.process.recorder().unwrap().log.len();
        let begun = std::time::Instant::now();
        let anchors = recorded.replays_whole();
        eprintln!(
            "{command:?}: {events} events in {time:?}, {anchors} anchors replayed in {:?}",
            begun.elapsed()
        );
    }
}

/// Visits moments in an order that has nothing to do with time, twice.
fn visits_are_equal(recorded: &mut Recorded, seen: &HashMap<Position, u64>) -> usize {
    let mut positions: Vec<_> = seen.keys().cloned().collect();
    positions.sort();
    let mut seed = 12345u64;
    let mut wrong = 0;
    for _ in 0..2 {
        for last in (1..positions.len()).rev() {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            positions.swap(last, (seed >> 33) as usize % (last + 1));
        }
        for position in &positions {
            let replayed = recorded.with_context(|context| {
                let replica = context.replica_of(position, &mut None).unwrap();
                digest(replica.frozen.thread().unwrap(), &replica.overlay).unwrap()
            });
            wrong += usize::from(replayed != seen[position]);
        }
    }
    wrong
}

#[test]
fn a_step_back_and_a_step_forward_lead_to_the_same_state() {
    for (mode, rounds, flags) in [
        ("memory", "100000000", "-O0"),
        ("registers", "300000000", "-O1"),
        ("alarms", "300", "-O1"),
        ("memory", "100000000", "-O1"),
    ] {
        let program = Fixture::c("travel").flags([flags, "-no-pie"]).build().path;
        let mut recorded = Recorded::start(&program, &[mode, rounds]);
        let (halt, seen) = recorded.run_with_stops(std::time::Duration::from_millis(40));
        assert_eq!(halt, Halt::Ended(Ended::Exited(0)), "{mode}");
        assert_eq!(visits_are_equal(&mut recorded, &seen), 0, "{mode}");
        let mut positions: Vec<_> = seen.keys().cloned().collect();
        positions.sort();
        let mut times = Vec::new();
        for position in positions.iter().rev().take(6) {
            let mut window = None;
            // The step into a signal handler is none of the program's.
            if recorded
                .with_context(|context| context.timeline.follows_barrier(&position.anchor, context.log))
            {
                continue;
            }
            let begun = std::time::Instant::now();
            let before =
                recorded.with_context(|context| context.before(position, &mut window).unwrap().unwrap());
            times.push(begun.elapsed());
            recorded.with_context(|context| {
                let mut replica = context.replica_of(&before, &mut window).unwrap();
                context.run(&mut replica, &Bound::Steps(1), &mut |_, _| Ok(false)).unwrap();
                if replica.event() != context.timeline.get(&position.anchor).unwrap().event {
                    return;
                }
                if digest(replica.frozen.thread().unwrap(), &replica.overlay).unwrap() != seen[position] {
                    let anchor = context.timeline.get(&position.anchor).unwrap();
                    eprintln!(
                        "at {position} event {} aligned {}; before {before} replica event {}",
                        anchor.event,
                        anchor.aligned,
                        replica.event()
                    );
                    eprintln!(
                        "{:x?}\n{:x?}",
                        anchor.frozen.registers().unwrap().words(),
                        replica.registers().unwrap().words()
                    );
                    for (i, e) in context.log.range(anchor.event - 2, anchor.event + 2) {
                        let t = format!("{e:x?}");
                        eprintln!("event {i}: {}", &t[..t.len().min(150)]);
                    }
                    let state = super::state::State::of(&anchor.frozen).unwrap();
                    eprintln!("event 0 likeness {:x?}", state.compare(&replica));
                }
                assert_eq!(
                    digest(replica.frozen.thread().unwrap(), &replica.overlay).unwrap(),
                    seen[position],
                    "{mode} {position}"
                );
            });
        }
        eprintln!("{mode} {flags}: {} stops, back in {times:?}", seen.len());
        recorded.replays_whole();
    }
}

fn replica_event(error: &super::ReplayError) -> u64 {
    let text = error.to_string();
    text.split("event ")
        .nth(1)
        .and_then(|rest| rest.split(':').next())
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}
