//! Questions over time, compared with what the program counts itself.

mod blocks;
mod edges;
mod inlined;

use hindcast_core::debug::{
    Becomes, CallTrace, CallsQuestion, CodeBreakpoint, ConditionChange, ConditionHistory, DebugError,
    Destination, Finding, FrameRef, HistoryQuestion, Moment, Movement, Place, Question, Span, StopReason,
    TracedCall, Trigger, Watched, WhenQuestion, Which, WriteHistory, Writer, WritingStatement,
};
use hindcast_fixtures::{Built, Fixture};

use crate::debuggee::Debuggee;

/// The recorded store, right before it prints, and the numbers that it prints.
fn store() -> (Debuggee, Built, Vec<i64>) {
    counted(&Fixture::c("ledger"))
}

fn counted(fixture: &Fixture) -> (Debuggee, Built, Vec<i64>) {
    let mut debuggee = Debuggee::record(fixture, &[]);
    debuggee.run_to("printed");
    let built = fixture.build();
    let printed = std::process::Command::new(&built.path).output().expect("it runs").stdout;
    let printed = String::from_utf8(printed).expect("it prints text");
    let numbers = printed.split_whitespace().map(|word| word.parse().expect("it prints numbers")).collect();
    (debuggee, built, numbers)
}

fn frame(debuggee: &Debuggee) -> FrameRef {
    FrameRef::of(debuggee.thread(), 0)
}

fn history(debuggee: &mut Debuggee, text: &str, (offset, limit): (u64, u32)) -> WriteHistory {
    let watched = Watched::Expression { text: text.into(), frame: frame(debuggee) };
    let question = HistoryQuestion { watched, span: Span::default(), offset, limit, reads: false };
    told(debuggee, question)
}

fn told(debuggee: &mut Debuggee, question: HistoryQuestion) -> WriteHistory {
    let question = Question::History(question);
    match debuggee.backend().time_travel().expect("it travels").ask(&question) {
        Ok(Finding::History(history)) => history,
        other => panic!("{question:?}: {other:?}"),
    }
}

/// Where something is asked, and how.
struct When<'a> {
    condition: &'a str,
    at: Option<&'a str>,
    which: Which,
    becomes: Becomes,
    monotone: bool,
}

impl<'a> When<'a> {
    fn new(condition: &'a str) -> Self {
        Self { condition, at: None, which: Which::First, becomes: Becomes::True, monotone: false }
    }

    fn ask(&self, debuggee: &mut Debuggee) -> Result<ConditionHistory, DebugError> {
        let question = Question::When(WhenQuestion {
            condition: self.condition.into(),
            frame: frame(debuggee),
            place: self.at.map(|at| Place::Function(at.into())),
            span: Span::default(),
            which: self.which,
            becomes: self.becomes,
            monotone: self.monotone,
            limit: 1000,
        });
        match debuggee.backend().time_travel().expect("it travels").ask(&question)? {
            Finding::When(history) => Ok(history),
            other => panic!("{}: {other:?}", self.condition),
        }
    }

    fn told(&self, debuggee: &mut Debuggee) -> ConditionHistory {
        self.ask(debuggee).unwrap_or_else(|error| panic!("{}: {error}", self.condition))
    }

    /// The only change that is told.
    fn change(&self, debuggee: &mut Debuggee) -> ConditionChange {
        let history = self.told(debuggee);
        let [change] = <[_; 1]>::try_from(history.changes).unwrap_or_else(|changes| panic!("{changes:?}"));
        change
    }
}

fn statement<'h>(history: &'h WriteHistory, built: &Built, mark: &str) -> &'h WritingStatement {
    let line = built.line(mark);
    let found = history.statements.iter().find(|statement| statement.location.line == Some(line));
    found.unwrap_or_else(|| panic!("{mark} ({line}): {history:?}"))
}

#[test]
fn writes_are_told_by_the_statements_that_made_them() {
    let (mut debuggee, built, numbers) = store();
    let [taken, taken_sum, given, given_sum, _, used, _] = *numbers else { panic!("{numbers:?}") };
    let told = history(&mut debuggee, "used", (0, 3));
    assert_eq!((told.total, told.statements.len()), ((taken + given) as u64, 2));
    let (take, give) = (statement(&told, &built, "take"), statement(&told, &built, "give"));
    assert_eq!((take.count as i64, take.change.as_deref()), (taken, Some(&*format!("{taken_sum:+}"))));
    assert_eq!((give.count as i64, give.change.as_deref()), (given, Some(&*format!("{given_sum:+}"))));
    assert_eq!((take.changed, take.by), (take.count, Writer::Program));
    assert!(told.last.starts_with(&used.to_string()) && told.first.starts_with('0'), "{told:?}");
    // One by one, and each is at the moment that it says.
    let page = history(&mut debuggee, "used", (1, 2)).writes;
    assert_eq!(page.len(), 2);
    assert_eq!(page[..], told.writes[1..]);
    for write in &page {
        debuggee.movement(Movement::Goto(Destination::Moment(write.moment.clone())));
        assert!(write.new.starts_with(&debuggee.value_of("used")), "{write:?}");
    }
}

#[test]
fn what_the_system_and_the_library_write_is_told_with_the_callers_statement() {
    let (mut debuggee, built, _) = store();
    let told = history(&mut debuggee, "label", (0, 10));
    assert_eq!(told.total, 2, "{told:?}");
    let read = statement(&told, &built, "read");
    assert_eq!((read.by, read.count, read.through.is_some()), (Writer::Kernel, 1, true), "{read:?}");
    assert_eq!(statement(&told, &built, "copied").by, Writer::Program);
    let floats = history(&mut debuggee, "price", (0, 0));
    assert_eq!(statement(&floats, &built, "price").change.as_deref(), Some("+1500"));
}

#[test]
fn reads_are_told_by_statement_beside_the_writes() {
    let (mut debuggee, built, numbers) = store();
    let watched = Watched::Expression { text: "used".into(), frame: frame(&debuggee) };
    let question = HistoryQuestion { watched, span: Span::default(), offset: 0, limit: 0, reads: true };
    let history = told(&mut debuggee, question);
    // The writes are the same as without.
    assert_eq!(history.total as i64, numbers[0] + numbers[2]);
    // What adds to it reads it first. The books are compared in each order up to the one that breaks them.
    let counts = |mark: &str| {
        let line = Some(built.line(mark));
        history.reads.iter().find(|reader| reader.location.line == line).map(|reader| reader.count as i64)
    };
    let expected = [numbers[0], numbers[2], numbers[4] + 1].map(Some);
    assert_eq!(["take", "give", "compared"].map(counts), expected, "{:?}", history.reads);
    assert_eq!(history.reads.len(), 3);
    let first_at = Some(built.line("compared"));
    let reader = history.reads.iter().find(|reader| reader.location.line == first_at).expect("it is there");
    let first = reader.first.clone().expect("its first read has a moment");
    debuggee.movement(Movement::Goto(Destination::Moment(first)));
    assert_eq!(debuggee.value_of("order"), "0");
}

#[test]
fn a_local_has_a_history_from_its_call_on() {
    let fixture = Fixture::c("ledger");
    let mut debuggee = Debuggee::record(&fixture, &[]);
    debuggee.run_to("summed");
    debuggee.run_to("summed");
    let told = history(&mut debuggee, "sum", (0, 2));
    // Once it is set to 0, and once a round of this call; the call before is not told.
    assert_eq!((told.total, told.note.is_some()), (101, true), "{told:?}");
    let sum = statement(&told, &fixture.build(), "sum");
    assert_eq!((sum.count, sum.change.as_deref()), (100, Some("+4950")));
}

#[test]
fn a_condition_is_told_with_the_write_that_made_it_true() {
    let (mut debuggee, built, _) = store();
    let change = When::new("used > 3000").change(&mut debuggee);
    assert_eq!((change.location.line, change.holds), (Some(built.line("take")), true));
    debuggee.movement(Movement::Goto(Destination::Moment(change.moment.clone())));
    let (new, old) = (&change.values[0].new, change.values[0].old.as_deref().expect("it was judged before"));
    assert_eq!((debuggee.value_of("used"), change.values[0].expression.as_str()), (new.clone(), "used"));
    assert!(old.parse::<i32>().expect("a number") <= 3000 && new.parse::<i32>().expect("a number") > 3000);
    debuggee.movement(Movement::Goto(Destination::Present));
    // A pointer that is null at first, and then leads to one after the other.
    let change = When::new("newest->weight > 100").change(&mut debuggee);
    assert_eq!((change.values[0].new.as_str(), change.location.line), ("101", Some(built.line("newest"))));
    // What never was, and what always was.
    let never = When::new("used > 1000000").told(&mut debuggee);
    assert_eq!((never.changes.len(), never.at_first, never.at_last), (0, Some(false), Some(false)));
    let always = When::new("used < 1000000").told(&mut debuggee);
    assert_eq!((always.changes.len(), always.at_first, always.at_last), (0, Some(true), Some(true)));
}

#[test]
fn books_that_do_not_agree_are_told_by_function_by_checkpoints_and_by_bisection() {
    let (mut debuggee, built, numbers) = store();
    let broken = numbers[4];
    let wrong = "used != sum(held)";
    for monotone in [false, true] {
        let change = When { at: Some("serve"), monotone, ..When::new(wrong) }.change(&mut debuggee);
        debuggee.movement(Movement::Goto(Destination::Moment(change.moment.clone())));
        // At the beginning of the next order.
        assert_eq!(
            (debuggee.value_of("number"), debuggee.value_of("order")),
            ((broken + 1).to_string(), broken.to_string())
        );
        assert_eq!(change.values.len(), 2);
        debuggee.movement(Movement::Goto(Destination::Present));
    }
    // Without a place it is false for a moment within each order. From the last order that was right on, it is not right again.
    let history = When { becomes: Becomes::Any, ..When::new(wrong) }.told(&mut debuggee);
    assert!(history.unsure.is_some(), "{history:?}");
    let change = When { monotone: true, ..When::new(wrong) }.change(&mut debuggee);
    debuggee.movement(Movement::Goto(Destination::Moment(change.moment.clone())));
    assert_eq!(debuggee.value_of(wrong), "true");
    debuggee.movement(Movement::StepBack {
        thread: debuggee.thread(),
        granularity: hindcast_core::debug::Granularity::Instruction,
        count: 1,
    });
    assert_eq!(debuggee.value_of(wrong), "false");
    let lines = ["take", "give", "lose"].map(|mark| Some(built.line(mark)));
    let before = lines.map(|line| line.map(|line| line - 1));
    assert!(lines.contains(&change.location.line) || before.contains(&change.location.line), "{change:?}");
}

#[test]
fn every_change_at_a_place_is_told_in_the_order_of_time() {
    let (mut debuggee, _, _) = store();
    // Orders are served in turns of forty slots.
    let expected = (0..3000).filter(|number| number * 7 % 40 == 21).count();
    let history = When { at: Some("serve"), which: Which::Every, ..When::new("number * 7 % 40 == 21") }
        .told(&mut debuggee);
    assert_eq!((history.changes.len(), history.judged), (expected, 3000));
    assert!(history.changes.is_sorted_by(|one, other| one.moment < other.moment));
    let last = When { at: Some("serve"), which: Which::Last, ..When::new("number * 7 % 40 == 21") };
    let change = last.change(&mut debuggee);
    let expected = (0..3000).rev().find(|number| number * 7 % 40 == 21);
    debuggee.movement(Movement::Goto(Destination::Moment(change.moment)));
    assert_eq!(debuggee.value_of("number"), expected.expect("there is one").to_string());
}

/// Where nothing changes, code beside the program judges the condition; what is told is as if all had been looked at.
#[test]
fn changes_among_many_passes_are_told_in_each_language() {
    let rounds = 60_000;
    let c = (Fixture::c("conditions").flags(["-O1"]), "judge", "round % 25000 == 24999");
    let cpp = (Fixture::cpp("conditions"), "Judge::judge", "round % 25000 == 24999");
    let rust = (Fixture::rust("conditions"), "judge", "round % 25000 == 24999");
    for (fixture, at, condition) in [c, cpp, rust] {
        let mut debuggee = Debuggee::record(&fixture, &[&rounds.to_string()]);
        debuggee.run_to("done");
        let every = When { at: Some(at), which: Which::Every, becomes: Becomes::Any, ..When::new(condition) };
        let history = every.told(&mut debuggee);
        assert_eq!((history.judged, history.unknown, history.more), (rounds, 0, false), "{at}");
        let values = |change: &ConditionChange| {
            let value = change.values.first().expect("it compares something");
            (value.old.clone().expect("it was judged before"), value.new.clone())
        };
        let told: Vec<_> = history.changes.iter().map(values).collect();
        let (before, at_it, behind) = ("24998".to_owned(), "24999".to_owned(), "0".to_owned());
        let once = [(before, at_it.clone()), (at_it, behind)];
        assert_eq!(told, [once.clone(), once].concat(), "{at}");
        for (change, round) in history.changes.iter().zip([24_999, 25_000, 49_999, 50_000]) {
            debuggee.movement(Movement::Goto(Destination::Moment(change.moment.clone())));
            assert_eq!(debuggee.value_of("round"), round.to_string(), "{at}");
        }
        debuggee.movement(Movement::Goto(Destination::Present));
    }
}

/// What code cannot read stops it: then everything is looked at, and nothing is missed.
#[test]
fn a_condition_that_often_cannot_be_judged_is_still_told_exactly() {
    let rounds = 3000;
    let mut debuggee = Debuggee::record(&Fixture::c("conditions").flags(["-O0"]), &[&rounds.to_string()]);
    debuggee.run_to("done");
    let when = When {
        at: Some("judge"),
        which: Which::Every,
        becomes: Becomes::Any,
        ..When::new("round > 200 && item->key == 185")
    };
    let history = when.told(&mut debuggee);
    // Behind round 200, every fifth has no item; the others have the items in turn.
    let unknown = (201..rounds).filter(|round| round % 5 == 4).count() as u64;
    assert_eq!((history.judged, history.unknown), (rounds - unknown, unknown));
    let holds = |round: &u64| *round > 200 && round % 16 == 15;
    let mut last = false;
    let changes = (0..rounds).filter(|round| *round <= 200 || round % 5 != 4).filter(|round| {
        let is_change = holds(round) != last;
        last = holds(round);
        is_change
    });
    assert_eq!(history.changes.len(), changes.count());
}

#[test]
fn mistakes_in_a_condition_are_told_before_anything_is_searched() {
    let (mut debuggee, _, _) = store();
    let complaint = |debuggee: &mut Debuggee, when: When<'_>| match when.ask(debuggee) {
        Err(error) => error.to_string(),
        Ok(history) => panic!("{history:?}"),
    };
    assert!(complaint(&mut debuggee, When::new("usd > 3")).contains("usd"));
    assert!(complaint(&mut debuggee, When::new("used = 3")).contains("assignment"));
    assert!(
        complaint(&mut debuggee, When { at: Some("nowhere"), ..When::new("used > 3") }).contains("nowhere")
    );
    assert!(
        complaint(&mut debuggee, When { at: Some("serve"), ..When::new("pipes[0] > 3") }).contains("pipes")
    );
}

#[test]
fn a_total_in_cpp_is_told_by_statement_and_by_the_turn_that_broke_it() {
    let (mut debuggee, built, numbers) = counted(&Fixture::cpp("bank"));
    let [paid_in, sum_in, paid_out, sum_out, broken] = *numbers else { panic!("{numbers:?}") };
    let told = history(&mut debuggee, "bank.total", (0, 0));
    for (mark, count, sum) in [("pay_in", paid_in, sum_in), ("pay_out", paid_out, sum_out)] {
        let statement = statement(&told, &built, mark);
        assert_eq!(
            (statement.count as i64, statement.change.clone()),
            (count, Some(format!("{sum:+}"))),
            "{mark}"
        );
    }
    let wrong = When { at: Some("Bank::turn"), ..When::new("total != sum(accounts[*].balance)") };
    let change = wrong.change(&mut debuggee);
    debuggee.movement(Movement::Goto(Destination::Moment(change.moment)));
    assert_eq!(debuggee.value_of("number"), (broken + 1).to_string());
}

#[test]
fn a_count_in_rust_is_told_by_statement_and_by_the_turn_that_broke_it() {
    let (mut debuggee, built, numbers) = counted(&Fixture::rust("pool"));
    let [taken, given, broken, _] = *numbers else { panic!("{numbers:?}") };
    let told = history(&mut debuggee, "pool.live", (0, 0));
    let (take, give) = (statement(&told, &built, "take"), statement(&told, &built, "give"));
    assert_eq!((take.count as i64, give.count as i64), (taken, given), "{told:?}");
    assert_eq!(
        (take.change.clone(), give.change.clone()),
        (Some(format!("{taken:+}")), Some(format!("{:+}", -given)))
    );
    let wrong =
        When { at: Some("Pool::turn"), monotone: true, ..When::new("self.live != count(self.slots, used)") };
    let change = wrong.change(&mut debuggee);
    debuggee.movement(Movement::Goto(Destination::Moment(change.moment)));
    assert_eq!(debuggee.value_of("number"), (broken + 1).to_string());
}

fn calls(debuggee: &mut Debuggee, functions: Option<&str>, depth: u32) -> CallTrace {
    let question = Question::Calls(CallsQuestion {
        thread: debuggee.thread(),
        span: Span::default(),
        functions: functions.map(str::to_owned),
        depth,
        limit: 100_000,
        last: false,
    });
    match debuggee.backend().time_travel().expect("it travels").ask(&question) {
        Ok(Finding::Calls(trace)) => trace,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_last_calls_are_those_at_the_end_of_all() {
    let (mut debuggee, _, _) = store();
    let all = calls(&mut debuggee, Some("/^(serve|take|give|lose)$/"), 2);
    for limit in [1, 7, 300, 100_000] {
        let question = Question::Calls(CallsQuestion {
            thread: debuggee.thread(),
            span: Span::default(),
            functions: Some("/^(serve|take|give|lose)$/".into()),
            depth: 2,
            limit,
            last: true,
        });
        let told = match debuggee.backend().time_travel().expect("it travels").ask(&question) {
            Ok(Finding::Calls(trace)) => trace,
            other => panic!("{other:?}"),
        };
        let expected = &all.calls[all.calls.len().saturating_sub(limit as usize)..];
        let shown = |calls: &[TracedCall]| {
            let one =
                |call: &TracedCall| (call.depth, call.function.clone(), call.arguments.clone(), call.times);
            calls.iter().map(one).collect::<Vec<_>>()
        };
        // What repeats itself over the beginning of the part that was looked at may be told apart.
        let (told_calls, expected) = (shown(&told.calls), shown(expected));
        assert_eq!(
            told_calls[told_calls.len() / 2..],
            expected[expected.len() - told_calls.len().div_ceil(2)..],
            "{limit}"
        );
        assert!(told.calls.len() <= limit as usize, "{limit}");
        let last = told.calls.iter().rev().find_map(|call| call.moment.clone()).expect("a moment");
        debuggee.movement(Movement::Goto(Destination::Moment(last)));
        debuggee.movement(Movement::Goto(Destination::Present));
    }
}

#[test]
fn names_that_no_program_has_are_refused_and_not_repeated_whole() {
    let (mut debuggee, _, _) = store();
    let long = "y".repeat(1_000_000);
    let thread = debuggee.thread();
    let place = Place::Function(long.clone());
    let asked = |functions: &str, since: Option<&str>| {
        Question::Calls(CallsQuestion {
            thread,
            span: Span { since: since.map(|since| Moment(since.into())), ..Span::default() },
            functions: Some(functions.into()),
            depth: 1,
            limit: 1,
            last: false,
        })
    };
    let refusals = [
        debuggee.backend().add_breakpoint(Trigger::Code(CodeBreakpoint::at(place.clone()))).unwrap_err(),
        debuggee.backend().run(Movement::RunTo(place.clone())).unwrap_err(),
        debuggee.backend().disassembly().expect("it disassembles").disassemble(&place, 0, 1).unwrap_err(),
        When { at: Some(&long), ..When::new("used > 0") }.ask(&mut debuggee).unwrap_err(),
        debuggee.backend().time_travel().expect("it travels").ask(&asked(&long, None)).unwrap_err(),
        // Short enough to be looked for, and too long to be repeated.
        debuggee.backend().time_travel().expect("it travels").ask(&asked(&long[..4000], None)).unwrap_err(),
        debuggee.backend().time_travel().expect("it travels").ask(&asked("take", Some(&long))).unwrap_err(),
    ];
    for refusal in &refusals {
        assert!(refusal.to_string().len() < 300, "{refusal}");
        assert!(!refusal.remedies().is_empty(), "{refusal}");
    }
    assert!(refusals[0].to_string().contains("has 1000000 bytes"), "{}", refusals[0]);
    assert!(debuggee.backend().breakpoints().unwrap().is_empty());
}

/// The same twice: the moments that the first one names are not others for the second.
#[test]
fn calls_are_counted_as_the_program_counts_them_and_told_as_a_tree() {
    let (mut debuggee, _, numbers) = store();
    for _ in 0..2 {
        let trace = calls(&mut debuggee, Some("/^(serve|take|give|lose)$/"), 9);
        assert_eq!(trace.total as i64, 3000 + numbers[0] + numbers[2] + 1);
        let times = |function: &str| {
            let mut within = Vec::<u64>::new();
            let mut sum = 0;
            for call in &trace.calls {
                within.truncate(call.depth as usize);
                within.push(call.times);
                sum += if call.function == function { within.iter().product() } else { 0 };
            }
            sum
        };
        assert_eq!((times("serve"), times("lose")), (3000, 1));
        assert!(trace.calls.iter().all(|call| call.depth < 2 && !call.is_open), "{trace:?}");
        let lose = trace.calls.iter().find(|call| call.function == "lose").expect("it was called");
        assert_eq!((lose.arguments[0].name.as_str(), lose.arguments[0].value.as_str()), ("slot", "0"));
    }
    let locals = calls(&mut debuggee, Some("local"), 1);
    let [local] = &*locals.calls else { panic!("{locals:?}") };
    assert_eq!((local.times, local.result.as_deref()), (2, Some("4950")));
    let last = local.last_arguments.as_ref().expect("they differ");
    assert_eq!((local.arguments[0].value.as_str(), last[0].value.as_str()), ("10", "100"));
    debuggee.movement(Movement::Goto(Destination::Moment(local.moment.clone().expect("it has one"))));
    assert_eq!(debuggee.value_of("rounds"), "10");
}

#[test]
fn calls_by_other_threads_are_counted_beside_those_that_are_told() {
    let mut debuggee = Debuggee::record(&Fixture::c("crowd").flags(["-O0", "-pthread"]), &["3", "300", "3"]);
    debuggee.run_to("done");
    let trace = calls(&mut debuggee, Some("compute"), 9);
    let note = trace.note.expect("something is to be said");
    assert!(trace.total == 0 && note.contains("others made 9 more"), "{note}");
}

#[test]
fn no_call_is_missed_where_functions_begin_with_a_call() {
    let mut debuggee = Debuggee::record(&Fixture::c("openings").flags(["-g", "-O2"]), &[]);
    debuggee.run_to("done");
    for (functions, count) in [("outer", 7), ("inner", 17), ("/^(outer|inner)$/", 24), ("outer", 7)] {
        assert_eq!(calls(&mut debuggee, Some(functions), 5).total, count, "{functions}");
    }
    // Nor a stop, with and without those that are known already.
    debuggee.movement(Movement::Goto(Destination::Start));
    for mark in ["inner", "outer"] {
        debuggee.break_at(mark);
    }
    for expected in [24, 24] {
        let mut stops = 0;
        while debuggee.go().reason == StopReason::Breakpoint {
            stops += 1;
        }
        assert_eq!(stops, expected, "{:?}", debuggee.stop);
        debuggee.movement(Movement::Goto(Destination::Start));
    }
}
