//! What few programs do: strings of many megabytes, code that never returns at an exception, becoming another program.

use std::time::{Duration, Instant};

use hindcast_core::debug::{DebugError, Ending, ExceptionBreakpoint, Movement, StopReason, Trigger};
use hindcast_fixtures::dotnet::{self, Runtime};

use crate::{
    attaching::{Server, stopped},
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{called, check, read, set},
};

/// How many characters the long strings of the fixture have, before the last one: 200 MB.
const LONG: &str = "100000000";
/// How much memory of ours a string may take that is looked at.
const MOST_MEMORY: u64 = 64 << 20;

/// How long what ends a session may take, however busy the machine is. A library that waits takes longer.
const SOON: Duration = Duration::from_secs(8);

/// The most memory that this process ever had.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

on_both! {
    fn long_strings_are_read_only_as_far_as_they_are_shown(runtime: &Runtime) {
        let mut debuggee = Plan::of("Extremes").args(&["long", LONG]).launch(runtime);
        debuggee.break_at("long");
        assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
        let before = peak_memory();
        let shown = format!("\"{}\"… (100000001 chars)", "q".repeat(200));
        let locals = debuggee.locals();
        let value = |name: &str| locals.iter().find(|local| local.name == name).unwrap().value.clone();
        assert_eq!((value("text"), value("held")), (shown.clone(), shown.clone()));
        assert_eq!(value("part"), "\"qqz\"");
        let too_long = "error: a text of 100000001 characters is too long to compute with; the longest has 1048576";
        check(&mut debuggee, &[
            ("text", &shown),
            ("text.Length", "100000001"),
            ("list[1].Length + page.Length", "100005002"),
            ("((string)held).Length", "100000001"),
            ("text[99999999]", "'q'"),
            ("text[^1]", "'z'"),
            ("text[100000001]", "error: outside of the 100000001 items"),
            ("text + text", too_long),
            ("$\"{text}{text}\"", too_long),
            ("text == other", too_long),
            ("text != page", "true"),
            ("text == \"q\"", "false"),
            ("text == list[0]", "true"),
            ("text == null", "false"),
            ("held == (object)text", "true"),
            ("held == (object)other", "false"),
            ("held is string", "true"),
            ("page[5000]", "'!'"),
            ("page == list[2]", "true"),
            ("(page + page).Length", "10002"),
            ("(page + \"a\") == (page + \"b\")", "false"),
            ("text ?? page", &shown),
        ], read);
        check(&mut debuggee, &[
            ("text == other", "true"),
            ("text.IndexOf('z')", "100000000"),
            ("text.EndsWith(\"qz\")", "true"),
            ("text + text", too_long),
            ("page.IndexOf(\"!\")", "5000"),
            ("page.Replace(\"p\", \"\")", "\"!\""),
            ("string.Concat(page, page).Length", "10002"),
        ], called);
        let taken = peak_memory() - before;
        assert!(taken < MOST_MEMORY, "it took {taken} bytes");
        check(&mut debuggee, &[("other = page", &format!("\"{}\"… (5001 chars)", "p".repeat(200)))], set);
        check(&mut debuggee, &[("other.Length", "5001"), ("other == page", "true")], read);
        assert_eq!(debuggee.go_on().exit_code, Some(0));
    }

    fn a_program_that_becomes_another_one_has_ended(runtime: &Runtime) {
        let mut debuggee = Plan::of("Extremes").args(&["/bin/cat"]).launch(runtime);
        debuggee.break_at("become");
        assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
        debuggee.backend.write_input(b"go\n", false).unwrap();
        let started = Instant::now();
        let stop = debuggee.go_on();
        assert_eq!((stop.reason, stop.exit_code), (StopReason::Exit, None));
        let detail = stop.detail.unwrap();
        assert!(detail.starts_with("the process has become another program"), "{detail}");
        assert!(debuggee.backend.threads().is_err_and(|error| matches!(error, DebugError::Ended)));
        drop(debuggee);
        assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    }

    fn a_program_that_becomes_another_one_while_attached_lives_on(runtime: &Runtime) {
        let mut command = runtime.command(&dotnet::program("Extremes"));
        command.arg("/bin/cat");
        let mut server = Server::of(command);
        let mut session = server.attach().unwrap();
        stopped(session.run(Movement::Begin).unwrap());
        server.ask("go");
        let started = Instant::now();
        let stop = stopped(session.run(Movement::Continue).unwrap());
        assert_eq!(stop.reason, StopReason::Exit);
        assert!(stop.detail.unwrap().ends_with("/cat`, which is not debugged"));
        assert!(session.pause().is_err_and(|error| matches!(error, DebugError::Ended)));
        session.end(Ending::Detach).unwrap();
        drop(session);
        assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
        server.ask("said to cat");
        assert_eq!(server.line(), "said to cat");
        // The runtime that is gone cannot remove its pipes and its socket.
        let mark = format!("-{}-", server.child.id());
        let is_its = |name: &str| {
            ["clr-debug-pipe", "dotnet-diagnostic"].iter().any(|kind| name.starts_with(&format!("{kind}{mark}")))
        };
        let left = std::fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().path());
        for path in left.filter(|path| path.file_name().is_some_and(|name| is_its(&name.to_string_lossy()))) {
            std::fs::remove_file(path).unwrap();
        }
    }

    fn code_that_never_returns_at_an_exception_is_told_of(runtime: &Runtime) {
        let mut debuggee = at_exception(runtime);
        let mut evaluation = debuggee.evaluation("$exception.Sleep()");
        evaluation.allow_calls = Some(Duration::from_millis(50));
        let error = debuggee.backend.evaluate(&evaluation).unwrap_err().to_string();
        if runtime.version.starts_with("3.") {
            // This one can end it.
            assert!(error.contains("it was abandoned"), "{error}");
            assert_eq!(called(&mut debuggee, "$exception.Four()").unwrap().value, "4");
            assert_eq!(debuggee.go_on().exit_code, Some(0));
            return;
        }
        let why = "the runtime ends no code while it handles an exception";
        assert!(error.contains(why), "{error}");
        check(&mut debuggee, &[("$exception.Four()", &format!("error: {why}"))], called);
        check(&mut debuggee, &[("$exception.HResult", "-2146233088")], read);
        let started = Instant::now();
        let stop = debuggee.backend.pause().unwrap();
        assert_eq!(stop.detail.as_deref(), Some("this thread still runs the call that an evaluation began"));
        debuggee.backend.end(Ending::Terminate).unwrap();
        assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    }
}

fn at_exception(runtime: &Runtime) -> Debuggee {
    let mut debuggee = Plan::of("Extremes").args(&["throw"]).launch(runtime);
    let exceptions = ExceptionBreakpoint {
        exception_type: "*".into(),
        first_chance: true,
        second_chance: true,
        include_subtypes: false,
        enabled: true,
    };
    debuggee.backend.add_breakpoint(Trigger::Exception(exceptions)).unwrap();
    assert_eq!(debuggee.go_on().reason, StopReason::Exception);
    debuggee
}
