#![allow(clippy::unwrap_used, reason = "these are tests")]

use super::{
    super::{
        Engine, Happening, HappeningKind, HowBegun, Location, Moment, Recording, RuntimeAddr, TraceFormat,
    },
    *,
};

fn moment(number: u64) -> Moment {
    Moment(format!("{number:04}"))
}

fn head() -> TraceHead {
    TraceHead {
        made_by: "test 1".into(),
        made_at: "2026-02-05T10:30:00Z".parse().unwrap(),
        machine: "Linux 6.1, some processor".into(),
        target: Target {
            engine: Engine::Native,
            pid: Some(7),
            name: "prog".into(),
            executable: "/bin/prog".into(),
            args: vec!["-v".into()],
            cwd: "/".into(),
            how: HowBegun::Launch,
            since: "2026-02-05T10:29:00Z".parse().unwrap(),
            runtime: None,
            followed: None,
        },
        recording: Recording {
            active: true,
            reason: None,
            start: Some(moment(0)),
            end: Some(moment(9)),
            events: 2,
            checkpoints: 1,
            checkpoints_at: Vec::new(),
            bytes: 100,
            turns: 0,
            capabilities: Vec::new(),
        },
        start_snapshot: None,
        end_snapshot: None,
    }
}

fn happening() -> Happening {
    let location = Location {
        file: Some("/src/a.c".into()),
        line: Some(4),
        function: Some("main".into()),
        address: Some(RuntimeAddr(0x1000)),
        ..Location::default()
    };
    Happening {
        moment: moment(3),
        kind: HappeningKind::Breakpoint,
        what: "breakpoint 1".into(),
        location: Some(location),
        thread: Some(ThreadId(7)),
    }
}

fn event(number: u64) -> TraceEvent {
    let what = format!("read(0) = {number}");
    TraceEvent { moment: moment(number), thread: ThreadId(7), kind: "syscall".into(), what }
}

fn written(format: TraceFormat, events: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::begin(format, &mut bytes, &head(), &[happening()]).unwrap();
    for number in 0..events {
        writer.event(&event(number)).unwrap();
    }
    writer.engine_log("test", b"only the engine ").unwrap();
    writer.engine_log("test", b"knows").unwrap();
    assert_eq!(writer.finish().unwrap(), events);
    bytes
}

#[test]
fn a_binary_trace_is_read_as_it_was_written() {
    // More than fit into one chunk.
    let bytes = written(TraceFormat::Binary, 5000);
    let trace = Trace::read(&*bytes).unwrap();
    assert_eq!(trace.head, head());
    assert_eq!(trace.happenings, [happening()]);
    assert_eq!(trace.events, (0..5000).map(event).collect::<Vec<_>>());
    let [EngineLog { engine, bytes: 21, pieces }] = &*trace.engine_logs else {
        panic!("{:?}", trace.engine_logs)
    };
    assert_eq!(engine, "test");
    let log: Vec<u8> = pieces
        .iter()
        .flat_map(|piece| bytes[piece.start as usize..piece.end as usize].iter().copied())
        .collect();
    assert_eq!(log, b"only the engine knows");
    assert_eq!(TraceHead::read(&*bytes).unwrap(), head());
}

#[test]
fn every_damaged_byte_and_every_missing_one_is_noticed() {
    let whole = written(TraceFormat::Binary, 2);
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x20;
        assert!(Trace::read(&*bytes).is_err(), "byte {at} was changed");
        assert!(Trace::read(&whole[..at]).is_err(), "cut off at {at}");
    }
    assert!(matches!(Trace::read(&whole[..whole.len() - 1]), Err(TraceError::CutOff)));
    assert!(matches!(Trace::read(&b"{\"head\":1}"[..]), Err(TraceError::NotATrace)));
    let mut newer = whole.clone();
    newer[8] = 9;
    let error = Trace::read(&*newer).unwrap_err();
    assert!(matches!(error, TraceError::Newer(9)), "{error}");
}

#[test]
fn chunks_of_a_later_day_are_skipped() {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::begin(TraceFormat::Binary, &mut bytes, &head(), &[]).unwrap();
    writer.chunk(*b"LATE", b"whatever that is").unwrap();
    writer.event(&event(1)).unwrap();
    writer.finish().unwrap();
    assert_eq!(Trace::read(&*bytes).unwrap().events, [event(1)]);
}

/// A trace with this chunk, and a checksum that is right.
fn with_chunk(kind: [u8; 4], chunk: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = TraceWriter::begin(TraceFormat::Binary, &mut bytes, &head(), &[]).unwrap();
    writer.chunk(kind, chunk).unwrap();
    writer.finish().unwrap();
    bytes
}

#[test]
fn events_that_an_older_version_wrote_are_read() {
    let line = serde_json::to_vec(&event(3)).unwrap();
    assert_eq!(Trace::read(&*with_chunk(*b"EVNT", &line)).unwrap().events, [event(3)]);
}

#[test]
fn events_are_small_and_can_be_left_out() {
    let bytes = written(TraceFormat::Binary, 5000);
    assert!(bytes.len() < 5000 * 16, "{} bytes", bytes.len());
    let without = Trace::read_without_events(&*bytes).unwrap();
    assert!(without.events.is_empty());
    assert_eq!(Trace { events: Vec::new(), ..Trace::read(&*bytes).unwrap() }, without);
    assert!(Trace::read_without_events(&bytes[..bytes.len() - 1]).is_err());
}

#[test]
fn events_that_cannot_be_unpacked_are_refused() {
    let huge = [&u32::MAX.to_le_bytes()[..], &[0; 8]].concat();
    for chunk in [&b""[..], b"abc", &huge, b"\x40\0\0\0\xff\xff\xff", b"\x02\0\0\0\x20ab"] {
        let read = Trace::read(&*with_chunk(*b"EVNZ", chunk));
        assert!(matches!(read, Err(TraceError::BadChunk { .. })), "{chunk:?}");
    }
}

#[test]
fn a_trace_in_json_is_one_value_and_has_a_line_for_each_event() {
    for events in [0, 3] {
        let text = String::from_utf8(written(TraceFormat::Json, events)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["events"].as_array().unwrap().len() as u64, events);
        assert_eq!(value["head"]["target"]["name"], "prog");
        assert_eq!(value["happenings"][0]["kind"], "breakpoint");
        let lines = text.lines().filter(|line| line.contains("syscall")).count();
        assert_eq!(lines as u64, events);
    }
}

#[test]
fn a_trace_in_text_says_what_happened_when() {
    let text = String::from_utf8(written(TraceFormat::Text, 2)).unwrap();
    assert_eq!(
        text,
        "Recording of prog (process 7): /bin/prog -v\n\
         From moment 0000 to 0009, 2 events, 1 snapshots\n\
         Written 2026-02-05 10:30:00 UTC by test 1 on Linux 6.1, some processor\n\
         \n\
         Timeline:\n\
         0003  breakpoint breakpoint 1 in main at /src/a.c:4\n\
         \n\
         Events:\n\
         0000  [7] syscall: read(0) = 0\n\
         0001  [7] syscall: read(0) = 1\n"
    );
}
