//! Questions at the edges of a recording, and answers that leave something out.

use hindcast_core::debug::{
    CallTrace, CallsQuestion, DebugError, Destination, Finding, FrameRef, HistoryQuestion, Moment, Movement,
    Question, Remedy, RuntimeAddr, Span, Watched, WhenQuestion, Which, WriteHistory,
};
use hindcast_fixtures::Fixture;

use super::{Becomes, calls, frame, history, statement};
use crate::debuggee::Debuggee;

fn span(since: Option<&Moment>, until: Option<&Moment>) -> Span {
    Span { since: since.cloned(), until: until.cloned() }
}

fn asked(debuggee: &mut Debuggee, question: &Question) -> Result<Finding, DebugError> {
    debuggee.backend().time_travel().expect("it travels").ask(question)
}

/// The same part of the past in all three questions.
fn all_questions(debuggee: &Debuggee, variable: &str, span: &Span) -> [Question; 3] {
    let (thread, frame) = (debuggee.thread(), FrameRef::of(debuggee.thread(), 0));
    let watched = Watched::Expression { text: variable.into(), frame };
    [
        Question::History(HistoryQuestion {
            watched,
            span: span.clone(),
            offset: 0,
            limit: 10,
            reads: false,
        }),
        Question::When(WhenQuestion {
            condition: format!("{variable} > 1"),
            frame,
            place: None,
            span: span.clone(),
            which: Which::First,
            becomes: Becomes::True,
            monotone: false,
            limit: 10,
        }),
        Question::Calls(CallsQuestion {
            thread,
            span: span.clone(),
            functions: None,
            depth: 9,
            limit: 10,
            last: false,
        }),
    ]
}

fn refusal(debuggee: &mut Debuggee, question: &Question) -> hindcast_core::debug::Reason {
    match asked(debuggee, question) {
        Err(DebugError::NoHistory(reason)) => reason,
        other => panic!("{question:?}: {other:?}"),
    }
}

fn now(debuggee: &mut Debuggee) -> Moment {
    let past = debuggee.backend().time_travel().expect("it travels");
    past.now().expect("it can tell").expect("there is a moment").moment
}

/// All writes to a variable of a frame.
fn history_in(debuggee: &mut Debuggee, text: &str, index: u32) -> WriteHistory {
    let frame = FrameRef::of(debuggee.thread(), index);
    let watched = Watched::Expression { text: text.into(), frame };
    let question = Question::History(HistoryQuestion {
        watched,
        span: Span::default(),
        offset: 0,
        limit: 100,
        reads: false,
    });
    match asked(debuggee, &question) {
        Ok(Finding::History(history)) => history,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn behind_the_end_of_a_recording_one_is_told_where_to_ask() {
    let mut debuggee = Debuggee::record(&Fixture::c("gap"), &[]);
    debuggee.run_to("behind");
    for question in all_questions(&debuggee, "shared", &Span::default()) {
        let reason = refusal(&mut debuggee, &question);
        assert!(reason.what.contains("the program restricts the system calls"), "{reason}");
        assert!(matches!(reason.remedies[0], Remedy::AskAt(_)), "{reason:?}");
    }
    // Up to the end everything is known; what came after is not part of the answer.
    let end = Moment("present".into());
    for question in all_questions(&debuggee, "shared", &span(None, Some(&end))) {
        match asked(&mut debuggee, &question) {
            Ok(Finding::History(told)) => assert_eq!((told.total, &*told.last), (0, "0 (0x0)"), "{told:?}"),
            Ok(Finding::When(told)) => {
                assert_eq!((told.changes.len(), told.at_last), (0, Some(false)), "{told:?}");
            }
            Ok(Finding::Calls(told)) => {
                let called: Vec<_> = told.calls.iter().map(|call| &*call.function).collect();
                assert!(!called.contains(&"work"), "{called:?}");
            }
            other => panic!("{question:?}: {other:?}"),
        }
    }
}

#[test]
fn the_first_moment_must_not_come_after_the_last() {
    let mut debuggee = Debuggee::record(&Fixture::c("scribes"), &[]);
    debuggee.run_to("written");
    let early = now(&mut debuggee);
    debuggee.run_to("done");
    let late = now(&mut debuggee);
    for question in all_questions(&debuggee, "number", &span(Some(&late), Some(&early))) {
        let reason = refusal(&mut debuggee, &question);
        assert!(reason.what.contains("nothing between the moments"), "{reason}");
        assert!(format!("{:?}", reason.remedies).contains("`until`"), "{reason:?}");
    }
    // The same the right way round: all writes were before.
    let [question, ..] = all_questions(&debuggee, "number", &span(Some(&early), Some(&late)));
    match asked(&mut debuggee, &question) {
        Ok(Finding::History(told)) => {
            assert_eq!((told.total, told.first == told.last), (0, true), "{told:?}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn of_many_statements_those_with_the_most_writes_are_told_and_the_others_counted() {
    let mut debuggee = Debuggee::record(&Fixture::c("scribes"), &[]);
    debuggee.run_to("done");
    let built = debuggee.built.clone();
    let told = history(&mut debuggee, "number", (0, 100));
    // 28 statements write once, and one nine times.
    assert_eq!((told.total, told.writes.len()), (37, 37), "{told:?}");
    assert_eq!((told.statements.len(), told.left_out), (24, 5), "{told:?}");
    let most = &told.statements[0];
    assert_eq!(
        (most.location.line, most.count, most.change.as_deref()),
        (Some(built.line("most_writes")), 9, Some("+90"))
    );
    assert_eq!(statement(&told, &built, "first_of_many").count, 1);
    // Those that wrote first have a moment, at which it is what they wrote.
    let named = told.statements.iter().filter_map(|statement| Some((statement, statement.first.clone()?)));
    let named: Vec<_> = named.collect();
    assert!(named.len() >= 23, "{told:?}");
    for (statement, moment) in named {
        debuggee.movement(Movement::Goto(Destination::Moment(moment)));
        let first = told.writes.iter().find(|write| write.location == statement.location);
        let new = &first.expect("it is among the writes").new;
        assert!(new.starts_with(&format!("{} ", debuggee.value_of("number"))), "{statement:?} {new}");
    }
}

#[test]
fn memory_that_was_allocated_has_the_history_of_its_owner_and_on_request_of_others() {
    let mut debuggee = Debuggee::record(&Fixture::c("scribes"), &[]);
    debuggee.run_to("filled");
    let built = debuggee.built.clone();
    assert_eq!(debuggee.value_of("first == second"), "true", "the allocator gives the same memory again");
    let own = history(&mut debuggee, "second->weight", (0, 100));
    assert_eq!((own.total, &own.note), (1, &None), "{own:?}");
    assert_eq!(statement(&own, &built, "second_owner").count, 1);
    let text = "second->weight".to_owned();
    let watched = Watched::Expression { text, frame: frame(&debuggee) };
    let span = Span { since: Some(Moment("start".into())), until: None };
    let question = HistoryQuestion { watched, span, offset: 0, limit: 100, reads: false };
    let told = debuggee.backend().time_travel().unwrap().ask(&Question::History(question)).unwrap();
    let Finding::History(told) = told else { panic!("{told:?}") };
    assert!(told.note.as_deref().is_some_and(|note| note.contains("something else's")), "{told:?}");
    for mark in ["first_owner", "second_owner"] {
        assert_eq!(statement(&told, &built, mark).count, 1, "{mark}");
    }
    // What is the program's from its beginning to its end has no such note.
    assert_eq!(history(&mut debuggee, "number", (0, 0)).note, None);
}

#[test]
fn a_local_of_a_call_that_began_before_the_recording_is_told_with_what_is_not_known() {
    let mut debuggee = Debuggee::launch(&Fixture::c("scribes"), &[]);
    debuggee.run_to("step");
    debuggee.run_to("step");
    debuggee.backend().time_travel().expect("it travels").record(true).expect("it can be recorded");
    debuggee.run_to("step");
    let built = debuggee.built.clone();
    let told = history_in(&mut debuggee, "sum", 1);
    let note = told.note.as_deref().unwrap_or_default();
    assert!(note.contains("where this call of `long_call` began is not known"), "{told:?}");
    // 1 + 2 from before; of the recording one write is known.
    assert_eq!((told.total, &*told.first, &*told.last), (1, "3 (0x3)", "7 (0x7)"), "{told:?}");
    assert_eq!(statement(&told, &built, "added").change.as_deref(), Some("+4"));
    // A call that began since then is told from its beginning on.
    let told = history_in(&mut debuggee, "round", 0);
    assert!(told.note.as_deref().is_some_and(|note| note.contains("the beginning of this call")), "{told:?}");
}

/// What calls of one name gave, by the value of their argument.
fn results(trace: &CallTrace) -> Vec<(String, Option<String>)> {
    trace.calls.iter().map(|call| (call.arguments[0].value.clone(), call.result.clone())).collect()
}

#[test]
fn overloaded_functions_have_the_results_of_their_own_types() {
    let mut debuggee = Debuggee::record(&Fixture::cpp("overloads"), &[]);
    debuggee.run_to("printed");
    let trace = calls(&mut debuggee, Some("app::over"), 9);
    assert_eq!(trace.total, 3, "{trace:?}");
    let [(one, whole), (half, part), (_, text)] = <[_; 3]>::try_from(results(&trace)).expect("three calls");
    assert_eq!((&*one, whole.as_deref()), ("1", Some("1")), "{trace:?}");
    assert_eq!((&*half, part.as_deref()), ("2.5", Some("1.25")), "{trace:?}");
    assert!(text.is_some_and(|text| text.contains("\"text\"")), "{trace:?}");
    let sums = calls(&mut debuggee, Some("add<int>"), 9);
    assert_eq!(results(&sums), [("1".to_owned(), Some("4".to_owned()))], "{sums:?}");
}

#[test]
fn calls_that_an_exception_left_have_no_result_and_are_told_apart() {
    for optimised in ["-O0", "-O2"] {
        let fixture = Fixture::cpp("trials").flags(["-g", optimised, "-std=c++17", "-fno-inline"]);
        let mut debuggee = Debuggee::record(&fixture, &[]);
        debuggee.run_to("total");
        let told = calls(&mut debuggee, Some("check"), 5);
        let told: Vec<_> = told
            .calls
            .iter()
            .map(|call| (call.times, call.left, call.is_open, call.result.as_deref()))
            .collect();
        let expected = [(1, true, false, None), (2, false, false, Some("4")), (2, true, false, None)];
        assert_eq!(told, expected, "{optimised}");
    }
}

#[test]
fn sizes_that_no_value_has_are_refused() {
    let mut debuggee = Debuggee::record(&Fixture::c("ledger"), &[]);
    debuggee.run_to("printed");
    for (address, size) in [(0x1000, 1 << 62), (0x1000, u64::MAX), (u64::MAX, 8), (0x1000, 1 << 32)] {
        let watched = Watched::Memory { address: RuntimeAddr(address), size };
        let past = debuggee.backend().time_travel().expect("it travels");
        let refused = past.last_write(&watched, 1).unwrap_err();
        assert!(refused.to_string().contains("cannot be looked for"), "{refused}");
        let span = Span::default();
        let history = Question::History(HistoryQuestion { watched, span, offset: 0, limit: 1, reads: false });
        assert!(past.ask(&history).is_err());
    }
}
