//! What a launched program's standard streams are, and that nothing is lost on them.

use hindcast_core::debug::{OutputStream, Remedy, Stdin, StopAtEntry, Streams};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn launched(streams: Streams, fixture: &str, args: &[&str], stdin: Stdin) -> Debuggee {
    Debuggee::launch_on(streams, &Fixture::c(fixture), args, StopAtEntry::Main, stdin)
}

#[test]
fn a_program_has_pipes_or_terminals_as_asked() {
    for (streams, seen) in [(Streams::Pipes, "000\n"), (Streams::Terminal, "111\n")] {
        let mut debuggee = launched(streams, "streams", &["terminals"], Stdin::Written);
        debuggee.expect_exit(0);
        assert_eq!(debuggee.printed(), seen, "{streams:?}");
    }
}

#[test]
fn a_flood_is_read_to_its_last_byte_before_the_exit_is_told() {
    for streams in [Streams::Pipes, Streams::Terminal] {
        for _ in 0..8 {
            let mut debuggee = launched(streams, "misbehave", &["print", "20"], Stdin::Written);
            debuggee.expect_exit(0);
            assert_eq!(debuggee.output.end(), 20 << 20, "{streams:?}");
        }
    }
}

#[test]
fn what_a_child_printed_before_the_exit_is_there_and_its_hold_on_the_pipe_keeps_nobody() {
    for streams in [Streams::Pipes, Streams::Terminal] {
        let mut debuggee = launched(streams, "streams", &["child"], Stdin::Written);
        debuggee.expect_exit(0);
        assert_eq!(debuggee.printed(), "from the child\nfrom the parent\n", "{streams:?}");
    }
}

#[test]
fn output_and_errors_are_told_apart_on_pipes_and_terminals() {
    use OutputStream::{Stderr, Stdout};
    for streams in [Streams::Pipes, Streams::Terminal] {
        let mut debuggee = launched(streams, "misbehave", &["both"], Stdin::Written);
        debuggee.expect_exit(0);
        for (stream, text) in [(Stdout, "to stdout\n"), (Stderr, "to stderr\n")] {
            let chunk = debuggee.output.read(0, 1000, Some(stream));
            assert_eq!(chunk.pieces, [(stream, text.as_bytes().to_vec())], "{streams:?}");
        }
    }
}

#[test]
fn a_program_prints_at_once_to_a_terminal_and_at_its_exit_to_a_pipe() {
    for (streams, at_the_stop) in [(Streams::Pipes, ""), (Streams::Terminal, "printed\n")] {
        let mut debuggee = launched(streams, "streams", &["print"], Stdin::Written);
        debuggee.run_to("printed");
        assert_eq!(debuggee.printed(), at_the_stop, "{streams:?}");
        debuggee.expect_exit(0);
        assert_eq!(debuggee.printed(), "printed\n", "{streams:?}");
    }
}

#[test]
fn input_is_read_up_to_its_end_on_pipes_and_terminals() {
    for streams in [Streams::Pipes, Streams::Terminal] {
        let mut debuggee = launched(streams, "misbehave", &["echo"], Stdin::Written);
        debuggee.backend().write_input(b"one\n", false).unwrap();
        debuggee.backend().write_input(b"two", true).unwrap();
        debuggee.expect_exit(0);
        assert_eq!(debuggee.printed(), "read: one\nread: twoend of input\n", "{streams:?}");
    }
    // More than a pipe holds.
    let text = "a line\n".repeat(40_000);
    let mut debuggee = launched(Streams::Pipes, "misbehave", &["echo"], Stdin::Text(text));
    debuggee.expect_exit(0);
    assert_eq!(debuggee.printed().matches("read: a line\n").count(), 40_000);
}

#[test]
fn input_that_nobody_reads_is_refused() {
    let mut debuggee = launched(Streams::Pipes, "misbehave", &["echo"], Stdin::Text("all".into()));
    let refused = debuggee.backend().write_input(b"more\n", false).unwrap_err();
    assert!(refused.to_string().contains("input has ended"), "{refused}");
    assert_eq!(*refused.remedies(), [Remedy::advice("launch it again without `stdin`")]);

    let mut debuggee = launched(Streams::Pipes, "streams", &["close"], Stdin::Written);
    debuggee.run_to("closed");
    // The first is only noticed when it is written.
    let refused = std::iter::repeat_with(|| debuggee.backend().write_input(b"x\n", false))
        .find_map(Result::err)
        .unwrap()
        .to_string();
    assert!(refused.contains("the program closed it"), "{refused}");
}
