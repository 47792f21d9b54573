//! What would have happened, compared with a run of the program that makes the change itself.

use std::{os::unix::process::ExitStatusExt as _, process::Command};

use hindcast_core::debug::{
    DebugError, Destination, Finding, FrameRef, Moment, Movement, Place, Question, StopReason, TrialEnding,
    TrialRun, WhatIf, WhatIfQuestion,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

/// Asks with a change of what is asked.
fn ask(
    (debuggee, moment): (&mut Debuggee, &Moment),
    change: impl FnOnce(&mut WhatIfQuestion),
) -> Result<WhatIf, DebugError> {
    let mut asked = WhatIfQuestion {
        moment: Some(moment.clone()),
        frame: FrameRef::of(debuggee.thread(), 0),
        set: Vec::new(),
        skip_line: false,
        returns: None,
        until: None,
        show: Vec::new(),
        time_ms: 20_000,
    };
    change(&mut asked);
    match debuggee.backend().time_travel().expect("it travels").ask(&Question::WhatIf(asked))? {
        Finding::WhatIf(told) => Ok(*told),
        other => panic!("{other:?}"),
    }
}

/// What a run with an argument prints, and how it ends.
fn really(debuggee: &Debuggee, argument: &str) -> (String, TrialEnding, String) {
    let ran = Command::new(&debuggee.built.path).arg(argument).output().expect("it runs");
    let printed = String::from_utf8(ran.stdout).expect("it prints text");
    match (ran.status.code(), ran.status.signal()) {
        (Some(code), _) => (printed, TrialEnding::Exited, format!("exited with code {code}")),
        (None, signal) => {
            let name = match signal {
                Some(libc::SIGABRT) => "SIGABRT",
                Some(libc::SIGSEGV) => "SIGSEGV",
                other => panic!("{other:?}"),
            };
            (printed, TrialEnding::Signal, format!("ended by {name}"))
        }
    }
}

fn is_as(run: &TrialRun, (printed, end, detail): &(String, TrialEnding, String)) {
    assert_eq!(run.end, *end, "{run:?}");
    assert!(run.detail.starts_with(detail.as_str()), "{detail}: {run:?}");
    assert!(printed.ends_with(&run.output) && !run.output.is_empty(), "{printed:?}\n{run:?}");
}

/// A recorded program that has ended, and the moment at which it came to a mark for so many times.
fn ended(fixture: &Fixture, mark: &str, times: usize) -> (Debuggee, Moment) {
    let mut debuggee = Debuggee::record(fixture, &["plain"]);
    let breakpoint = debuggee.break_at(mark);
    for _ in 0..times {
        debuggee.go();
    }
    let when = debuggee.backend().time_travel().expect("it travels").now().expect("it can tell");
    debuggee.backend().remove_breakpoint(breakpoint.id).expect("it is there");
    assert_eq!(debuggee.go().reason, StopReason::Exit);
    (debuggee, when.expect("there is a moment").moment)
}

#[test]
fn a_change_does_what_it_would_have_done() {
    let (mut debuggee, moment) = ended(&Fixture::c("trials"), "change", 1);
    let plain = really(&debuggee, "plain");
    for (set, argument) in [("limit = 25", "set"), ("limit = -1", "abort"), ("where = (int *)8", "crash")] {
        let told = ask((&mut debuggee, &moment), |asked| asked.set = vec![set.into()]).unwrap();
        assert!(told.differs, "{told:?}");
        assert_eq!(told.location.line, Some(debuggee.built.line("change")));
        is_as(&told.changed, &really(&debuggee, argument));
        is_as(&told.unchanged, &plain);
    }
    // Nothing of that has happened.
    debuggee.movement(Movement::Goto(Destination::Moment(moment)));
    assert_eq!(debuggee.value_of("limit"), "10");
    debuggee.run_to("total");
    assert_eq!(debuggee.value_of("limit"), "10");
}

#[test]
fn a_line_is_left_out_and_a_function_returns_early() {
    let (mut debuggee, moment) = ended(&Fixture::c("trials"), "skip", 1);
    let told = ask((&mut debuggee, &moment), |asked| asked.skip_line = true).unwrap();
    is_as(&told.changed, &really(&debuggee, "skip"));
    is_as(&told.unchanged, &really(&debuggee, "plain"));
    let printed = told.printed.unwrap();
    assert!(printed.line == 1 && printed.changed != printed.unchanged, "{printed:?}");
    let (mut debuggee, moment) = ended(&Fixture::c("trials"), "price", 1);
    let told = ask((&mut debuggee, &moment), |asked| asked.returns = Some("7 * 100".into()));
    is_as(&told.unwrap().changed, &really(&debuggee, "return"));
}

#[test]
fn both_runs_end_where_they_are_to_and_tell_their_values() {
    let (mut debuggee, moment) = ended(&Fixture::c("trials"), "change", 1);
    let line = debuggee.built.line("total");
    let told = ask((&mut debuggee, &moment), |asked| {
        asked.set = vec!["limit = 12".into(), "total = limit".into()];
        asked.until = Some(Place::Line { file: "trials.c".into(), line });
        asked.show = vec!["total".into(), "limit".into()];
    });
    let told = told.unwrap();
    assert_eq!((told.changed.end, told.unchanged.end), (TrialEnding::Until, TrialEnding::Until));
    let values = |run: &TrialRun| -> Vec<_> { run.values.iter().map(|shown| shown.value.clone()).collect() };
    let sum = |limit: i32| (0..limit).map(|round| round * 3 % 17).sum::<i32>();
    let change = 12 + sum(12) - sum(10);
    let (changed, unchanged) = (values(&told.changed), values(&told.unchanged));
    assert_eq!((changed[1].as_str(), unchanged[1].as_str()), ("12", "10"));
    let total = |text: &String| text.parse::<i32>().unwrap();
    assert_eq!(total(&changed[0]) - total(&unchanged[0]), change, "{told:?}");
}

#[test]
fn what_nobody_can_know_is_not_made_up() {
    let (mut debuggee, moment) = ended(&Fixture::c("trials"), "change", 1);
    let told = ask((&mut debuggee, &moment), |asked| asked.set = vec!["pieces = 9".into()]);
    let told = told.unwrap();
    assert_eq!(told.changed.end, TrialEnding::Unknown, "{told:?}");
    assert!(told.changed.detail.contains("`read`"), "{told:?}");
    assert_eq!(told.changed.location.unwrap().function.unwrap(), "main");
    let told = ask((&mut debuggee, &moment), |asked| asked.set = vec!["echo = 4".into()]).unwrap();
    assert_eq!(told.changed.end, TrialEnding::Unknown, "what comes back by the pipe is another: {told:?}");
    assert!(told.notes.iter().any(|note| note.contains("written something else")), "{told:?}");
    let told = ask((&mut debuggee, &moment), |asked| {
        asked.set = vec!["waits = 1".into()];
        asked.time_ms = 100;
    });
    assert_eq!(told.unwrap().changed.end, TrialEnding::Time);
    for (set, why) in
        [("limit", "no assignment"), ("nothing = 3", "nothing"), ("limit = = 3", "expected a value")]
    {
        let refused = ask((&mut debuggee, &moment), |asked| asked.set = vec![set.into()]);
        assert!(refused.as_ref().is_err_and(|error| error.to_string().contains(why)), "{refused:?}");
    }
    let refused = ask((&mut debuggee, &moment), |_| ()).unwrap_err();
    assert!(refused.to_string().contains("no change"), "{refused}");
}

#[test]
fn exceptions_and_panics_take_their_way() {
    // The second call, and the third.
    let cases = [
        (Fixture::cpp("trials"), "highest = 100", "check", 2, "9"),
        (Fixture::rust("trials"), "HIGHEST = 12", "weight", 3, "50"),
    ];
    for (fixture, set, function, call, returns) in cases {
        let (mut debuggee, moment) = ended(&fixture, "change", 1);
        let told = ask((&mut debuggee, &moment), |asked| asked.set = vec![set.into()]).unwrap();
        is_as(&told.unchanged, &really(&debuggee, "plain"));
        let (printed, end, detail) = really(&debuggee, "set");
        assert_eq!((told.changed.end, &told.changed.detail), (end, &detail), "{told:?}");
        // What a panic says goes to another stream.
        assert!(printed.lines().all(|line| told.changed.output.contains(line)), "{printed}\n{told:?}");
        let (mut debuggee, moment) = ended(&fixture, function, call);
        let told = ask((&mut debuggee, &moment), |asked| asked.returns = Some(returns.into()));
        let told = told.unwrap();
        let (printed, end, detail) = really(&debuggee, "return");
        assert_eq!((told.changed.end, &told.changed.detail), (end, &detail), "{told:?}");
        assert!(
            told.differs && printed.lines().last().is_some_and(|last| told.changed.output.contains(last))
        );
    }
}

#[test]
fn signals_that_do_not_come_again_are_told() {
    let mut debuggee = Debuggee::record(&Fixture::c("interrupts"), &[]);
    let when = debuggee.backend().time_travel().unwrap().now().unwrap().unwrap();
    debuggee.run_to("done");
    let told = ask((&mut debuggee, &when.moment), |asked| asked.set = vec!["value = 7".into()]).unwrap();
    assert!(told.notes.iter().any(|note| note.starts_with("signals that came")), "{told:?}");
}
