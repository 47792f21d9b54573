//! Real programs, recorded to a file and gone into again when nothing else is left of them: what is seen then is held
//! against what was seen live.

use std::{
    collections::HashMap,
    fs::File,
    io::{Seek as _, SeekFrom},
    path::Path,
    time::Duration,
};

use hindcast_core::debug::{
    Engine, HowBegun, Recording, Target, Trace, TraceError as BadTrace, TraceFormat, TraceHead, TraceWriter,
};
use hindcast_fixtures::Fixture;

use super::{
    ArchiveError, LONGEST_TALE, NAME, Opened, Part, Tale,
    files::Files,
    machine::Machine,
    stream::{Sink, Source},
};
use crate::{
    process::{Halt, Process},
    record::{Call, Event, Leaves, Log, Replay},
    replay::{
        Position,
        tests::{Recorded, wrong_visits},
    },
    sys::Tid,
};

/// More stops than are needed: each costs a checkpoint.
const VISITS: usize = 40;

fn head() -> TraceHead {
    TraceHead {
        made_by: "a test".into(),
        made_at: jiff::Timestamp::UNIX_EPOCH,
        machine: super::machine_name(),
        target: Target {
            engine: Engine::Native,
            pid: Some(1),
            name: String::new(),
            executable: String::new(),
            args: Vec::new(),
            cwd: String::new(),
            how: HowBegun::Launch,
            since: jiff::Timestamp::UNIX_EPOCH,
            runtime: None,
            followed: None,
        },
        recording: Recording {
            active: false,
            reason: None,
            start: None,
            end: None,
            events: 0,
            checkpoints: 0,
            checkpoints_at: Vec::new(),
            bytes: 0,
            turns: 0,
            capabilities: Vec::new(),
        },
        start_snapshot: None,
        end_snapshot: None,
    }
}

/// Writes a recording whose program has ended to a file; nothing else of it is left then.
fn put_away(recorded: Recorded) -> tempfile::NamedTempFile {
    write(recorded, &Part::default())
}

fn write(mut recorded: Recorded, part: &Part) -> tempfile::NamedTempFile {
    let mut tale = Tale::default();
    tale.end(recorded.process.ended().expect("it has ended"));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::begin(TraceFormat::Binary, &mut file, &head(), &[]).unwrap();
    let recorder = recorded.process.recorder_mut().unwrap();
    super::write(recorder, part, tale, &mut writer, &mut |_, _| Ok(())).unwrap();
    writer.finish().unwrap();
    file
}

/// As an older version wrote it.
fn put_away_as(name: &'static str, mut recorded: Recorded) -> tempfile::NamedTempFile {
    let mut tale = Tale { traps: true, ..Tale::default() };
    tale.end(recorded.process.ended().expect("it has ended"));
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::begin(TraceFormat::Binary, &mut file, &head(), &[]).unwrap();
    let recorder = recorded.process.recorder_mut().unwrap();
    let sink = Sink::new(name, &mut writer);
    let events = super::old_events::writing::write;
    super::write_parts(recorder, &Part::default(), &tale, sink, events, &mut |_, _| Ok(())).unwrap();
    writer.finish().unwrap();
    file
}

#[test]
fn recordings_of_older_versions_are_visited_as_they_were() {
    for (name, arguments) in [("native/1", ["alarms", "100"]), ("native/2", ["alarms", "200"])] {
        let mut recorded = Recorded::fixture("-O1", &arguments);
        let (halt, seen) = recorded.run_with_stops(Duration::from_millis(2), 10);
        assert!(matches!(halt, Halt::Ended(_)) && !seen.is_empty(), "{name}: {halt:?}");
        let mut again = open(put_away_as(name, recorded).path());
        assert_eq!(wrong_visits(&mut again, &seen), 0, "{name}");
        again.replay_whole().unwrap();
    }
    let threads = Fixture::c("threads").flags(["-pthread"]).build().path;
    let mut recorded = Recorded::start(&threads, &[]);
    assert!(matches!(recorded.run(), Halt::Ended(_)));
    assert!(recorded.process.recorder().unwrap().log.turns() > 0);
    open(put_away_as("native/2", recorded).path()).replay_whole().unwrap();
}

fn open(path: &Path) -> Recorded {
    let Opened { tale, mut recorder, .. } = super::open(path).unwrap();
    let last = recorder.timeline.last().cloned().unwrap();
    let last = recorder.timeline.get_mut(&last).unwrap().frozen.fork().unwrap();
    let ended = tale.ended().expect("it has ended");
    Recorded::before(Process::recorded_to_its_end(last, recorder, ended).unwrap())
}

/// Records a program with stops, puts it away, and visits all of them in the file.
fn check_program(mut recorded: Recorded, every: Duration, what: &str) {
    let (halt, seen) = recorded.run_with_stops(every, VISITS);
    assert!(matches!(halt, Halt::Ended(_)), "{what}: {halt:?}");
    assert!(seen.len() >= 3, "{what}: {} stops", seen.len());
    check_visits(recorded, &seen, what);
}

fn check_visits(mut recorded: Recorded, seen: &HashMap<Position, u64>, what: &str) {
    let events = recorded.process.recorder().unwrap().log.len();
    let anchors = recorded.replay_whole().unwrap();
    let file = put_away(recorded);
    eprintln!(
        "{what}: {anchors} checkpoints, {events} events, {} bytes",
        file.path().metadata().unwrap().len()
    );
    let mut again = open(file.path());
    assert_eq!(again.process.recorder().unwrap().log.len(), events, "{what}");
    assert_eq!(wrong_visits(&mut again, seen), 0, "{what}");
    again.replay_whole().unwrap_or_else(|error| panic!("{what}: {error}"));
}

#[test]
fn moments_among_signals_and_mappings_are_in_the_file_as_they_were() {
    check_program(Recorded::fixture("-O1", &["alarms", "600"]), Duration::from_millis(10), "alarms");
}

#[test]
fn moments_in_a_loop_are_in_the_file_as_they_were() {
    check_program(Recorded::fixture("-O0", &["memory", "60000000"]), Duration::from_millis(10), "memory");
}

#[test]
fn moments_of_tools_and_interpreters_are_in_the_file_as_they_were() {
    let program = |command: &[&str]| Recorded::start(Path::new(command[0]), &command[1..]);
    let every = Duration::from_millis(3);
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("lines");
    let lines: Vec<_> =
        (0..30_000_u64).map(|line| format!("{:x}\n", line.wrapping_mul(0x9e37_79b9_7f4a))).collect();
    std::fs::write(&input, lines.concat()).unwrap();
    let mut recorded = program(&["/usr/bin/sort", "--parallel=1", input.to_str().unwrap()]);
    let (_, seen) = recorded.run_with_stops(every, VISITS);
    assert!(!seen.is_empty());
    drop(folder);
    check_visits(recorded, &seen, "sort");
    let script = "import json, re\n\
        words = {f'{n:x}': str(n * n) for n in range(20000)}\n\
        print(len(re.findall('1+2', json.dumps(words))), sorted(words)[:3])";
    check_program(program(&["/usr/bin/python3", "-c", script]), every, "python3");
    // It becomes another program on its way.
    check_program(program(&["/usr/bin/env", "ls", "-lR", "/usr/include/linux"]), every, "env");
}

/// Steps of the live program, none of which is a checkpoint: in the file they are only to be had by replay.
#[test]
fn steps_of_the_live_program_are_replayed_from_the_file() {
    let program = Fixture::c("inputs").build().path;
    let mut recorded = Recorded::start(&program, &["/etc/services"]);
    let (mut seen, mut steps) = (HashMap::new(), 0_u64);
    let interrupt = recorded.process.interrupt();
    while steps < 400 {
        use hindcast_core::debug::Interrupt as _;
        let tid = recorded.process.pid();
        if steps % 40 == 0 {
            interrupt.interrupt();
            if recorded.run() != Halt::Interrupted(tid) {
                break;
            }
            recorded.process.anchor().unwrap();
        }
        if !matches!(recorded.process.step(tid).unwrap(), Halt::Stepped(_)) {
            break;
        }
        steps += 1;
        let digest = recorded.process.digest();
        let timeline = &mut recorded.process.recorder_mut().unwrap().timeline;
        if let Some(position) = timeline.frontier().cloned() {
            let anchor = timeline.get_mut(&position.anchor).unwrap();
            anchor.walked = anchor.walked.max(position.steps);
            seen.insert(position, digest);
        }
    }
    while !matches!(recorded.run(), Halt::Ended(_)) {}
    assert!(seen.keys().filter(|position| position.steps > 0).count() > 100, "{} steps", seen.len());
    check_visits(recorded, &seen, "inputs");
}

/// Checkpoints that are not needed are left out where they would take too much: what was between is replayed.
#[test]
fn what_changes_much_is_in_the_file_with_fewer_checkpoints() {
    let mut recorded = Recorded::fixture("-O1", &["repetitions", "4000"]);
    let (halt, seen) = recorded.run_with_stops(Duration::from_millis(150), 5);
    assert!(matches!(halt, Halt::Ended(_)) && !seen.is_empty(), "{halt:?}");
    let had = recorded.process.recorder().unwrap().timeline.len();
    let file = write(recorded, &Part { optional: 256 << 10, ..Part::default() });
    let mut again = open(file.path());
    let has = again.process.recorder().unwrap().timeline.len();
    eprintln!("repetitions: {has} of {had} checkpoints, {} bytes", file.path().metadata().unwrap().len());
    assert!(has < had, "{has} of {had}");
    assert_eq!(wrong_visits(&mut again, &seen), 0);
    again.replay_whole().unwrap();
}

fn small() -> tempfile::NamedTempFile {
    let mut recorded = Recorded::fixture("-O0", &["memory", "1000"]);
    assert!(matches!(recorded.run(), Halt::Ended(_)));
    put_away(recorded)
}

#[test]
fn a_file_that_is_cut_off_or_damaged_is_refused_as_such() {
    let file = small();
    let bytes = std::fs::read(file.path()).unwrap();
    drop(open(file.path()));
    let mut seed = 7_u64;
    for round in 0..60 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (seed >> 33) as usize % bytes.len();
        let mut changed = bytes.clone();
        if round % 2 == 0 {
            changed.truncate(at);
        } else {
            changed[at] ^= 1 << (seed >> 20 & 7);
        }
        std::fs::write(file.path(), &changed).unwrap();
        let Err(error) = super::open(file.path()) else {
            panic!("byte {at} of {} does not matter", bytes.len())
        };
        assert!(matches!(error, ArchiveError::Trace(_)), "{error}");
    }
    std::fs::write(file.path(), "not a recording").unwrap();
    assert!(matches!(super::open(file.path()), Err(ArchiveError::Trace(BadTrace::NotATrace))));
}

/// The engine's log, as it is before it is compressed.
fn unpacked(file: &Path) -> Vec<u8> {
    let trace = Trace::read(File::open(file).unwrap()).unwrap();
    let mut source = Source::new(File::open(file).unwrap(), &trace.engine_logs[0].pieces);
    let mut bytes = Vec::new();
    let mut byte = [0];
    while source.take(&mut byte).is_ok() {
        bytes.push(byte[0]);
    }
    bytes
}

/// A file with this log, and a checksum that is right.
fn with_log(name: &'static str, log: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = TraceWriter::begin(TraceFormat::Binary, &mut file, &head(), &[]).unwrap();
    let mut sink = Sink::new(name, &mut writer);
    sink.put(log).unwrap();
    sink.finish().unwrap();
    writer.finish().unwrap();
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

#[test]
fn a_recording_from_another_processor_or_version_is_refused_as_such() {
    let file = small();
    let log = unpacked(file.path());
    drop(open(with_log(NAME, &log).path()));
    let named = u64::from_le_bytes(log[..8].try_into().unwrap()) as usize;
    // Behind the name and the number of features.
    for feature in [4, 6] {
        let mut other = log.clone();
        other[8 + named + 8 + 8 * feature] ^= 4;
        let Err(error) = super::open(with_log(NAME, &other).path()) else { panic!("it was opened") };
        assert!(matches!(error, ArchiveError::OtherProcessor { .. }), "{error}");
        assert!(error.to_string().contains("another kind of processor"), "{error}");
    }
    assert!(matches!(super::open(with_log("native/4", &log).path()), Err(ArchiveError::OtherVersion(_))));
    assert!(matches!(super::open(with_log("other/1", &log).path()), Err(ArchiveError::NothingToReplay)));
}

/// Reads a log up to the end of its events.
fn read_events(log: &[u8]) -> Result<(Log, Source), ArchiveError> {
    let file = with_log(NAME, log);
    let trace = Trace::read(file.reopen().unwrap()).unwrap();
    let mut source = Source::new(file.reopen().unwrap(), &trace.engine_logs[0].pieces);
    let machine = Machine::read(&mut source)?;
    source.block(LONGEST_TALE)?;
    let files = Files::read(&mut source)?;
    Ok((super::events::read(&mut source, &files, &machine)?, source))
}

/// What is in front of the events, and behind them.
fn around_events(log: &[u8]) -> (usize, usize) {
    let rest = |mut source: Source| {
        let mut byte = [0];
        std::iter::from_fn(|| source.take(&mut byte).ok()).count()
    };
    let file = with_log(NAME, log);
    let trace = Trace::read(file.reopen().unwrap()).unwrap();
    let mut source = Source::new(file.reopen().unwrap(), &trace.engine_logs[0].pieces);
    Machine::read(&mut source).unwrap();
    source.block(LONGEST_TALE).unwrap();
    Files::read(&mut source).unwrap();
    (log.len() - rest(source), log.len() - rest(read_events(log).unwrap().1))
}

#[test]
fn events_that_make_no_sense_are_refused_or_take_no_more_than_others() {
    let mut recorded = Recorded::fixture("-O0", &["alarms", "20"]);
    assert!(matches!(recorded.run(), Halt::Ended(_)));
    let log = unpacked(put_away(recorded).path());
    let (start, end) = around_events(&log);
    let whole = read_events(&log).unwrap().0.bytes();
    assert!(end - start > 500, "{start} {end}");
    let (mut seed, mut read) = (5_u64, 0);
    for round in 0..600 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = start + (seed >> 33) as usize % (end - start);
        let mut other = log[..end].to_vec();
        match round % 5 {
            0 => other.truncate(at),
            1 => other[at..].iter_mut().take(9).for_each(|byte| *byte = 0xff),
            _ => other[at] ^= (seed >> 25) as u8 | 1,
        }
        match read_events(&other) {
            Ok((log, _)) => {
                assert!(round % 5 != 0, "it ends at byte {at}");
                assert!(log.bytes() < 20 * whole, "{} bytes, and {whole} before", log.bytes());
                read += 1;
            }
            Err(error) => assert!(matches!(error, ArchiveError::Malformed(_)), "{error}"),
        }
    }
    eprintln!("{read} of 600 are read as something else");
}

/// Whoever wrote the file, nothing is done for real but what a replay may do.
#[test]
fn calls_that_would_reach_out_of_a_replay_are_refused() {
    let real = |number| Call { number, arguments: [1; 6], pc: 0, result: 0, replay: Replay::Real };
    let mapped = |number| Call { replay: Replay::Map(None), ..real(number) };
    let events = [
        (Event::Call(real(libc::SYS_munmap)), true),
        (Event::Call(real(libc::SYS_kill)), false),
        (Event::Call(real(libc::SYS_execve)), false),
        (Event::Call(mapped(libc::SYS_mmap)), true),
        (Event::Call(mapped(libc::SYS_open)), false),
        (Event::Turn { to: Tid(-1), leaves: Leaves::BehindEvent }, false),
        (Event::Signal { number: 65, code: 0, address: None }, false),
        (Event::Unreadable, false),
    ];
    let file = small();
    let log = unpacked(file.path());
    let (start, _) = around_events(&log);
    for (event, is_right) in events {
        let what = format!("{event:?}");
        let mut only = Log::default();
        only.push(event);
        let bytes = only.packed(0, 1).next().unwrap().unwrap().bytes;
        let mut other = log[..start].to_vec();
        for number in [0, 1, bytes.len() as u64] {
            other.extend(number.to_le_bytes());
        }
        other.extend(&bytes);
        other.extend([0; 16]);
        assert_eq!(read_events(&other).is_ok(), is_right, "{what}");
    }
}

/// The checksum is right, and what it is over is not: nothing is begun that does not end, and no memory is taken that is
/// not there.
#[test]
fn a_log_that_makes_no_sense_does_no_harm() {
    let file = small();
    let log = unpacked(file.path());
    let mut seed = 3_u64;
    for round in 0..150 {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Mostly where numbers are: at the beginning of something.
        let at = (seed >> 33) as usize % if round % 3 == 0 { log.len() } else { log.len() / 8 };
        let mut other = log.clone();
        match round % 5 {
            0 => other.truncate(at),
            1 => other[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
            _ => other[at] ^= (seed >> 25) as u8 | 1,
        }
        let opened = super::open(with_log(NAME, &other).path());
        assert!(round % 5 != 0 || opened.is_err(), "it ends at byte {at} of {}", log.len());
    }
}
