//! The ways that programs take, compared with what they were told to do.

use hindcast_core::debug::{
    DebugError, Destination, Finding, Moment, Movement, PassedPost, Question, StopReason, WayCalls,
    WayFinding, WayPart, WayPass, WayQuestion, WaySums,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn ask(debuggee: &mut Debuggee, part: WayPart) -> Result<WayFinding, DebugError> {
    let question = Question::Way(WayQuestion { since: None, part });
    match debuggee.backend().time_travel().expect("it travels").ask(&question)? {
        Finding::Way(way) => Ok(way),
        other => panic!("{other:?}"),
    }
}

fn sums(debuggee: &mut Debuggee) -> WaySums {
    match ask(debuggee, WayPart::Sums) {
        Ok(WayFinding::Sums(sums)) => sums,
        other => panic!("{other:?}"),
    }
}

fn posts(debuggee: &mut Debuggee, first: u64, count: u32) -> Vec<PassedPost> {
    match ask(debuggee, WayPart::Posts { first, count }) {
        Ok(WayFinding::Posts(posts)) => posts,
        other => panic!("{other:?}"),
    }
}

fn pass(debuggee: &mut Debuggee, number: u64) -> WayPass {
    match ask(debuggee, WayPart::Pass { number }) {
        Ok(WayFinding::Pass(pass)) => *pass,
        other => panic!("{other:?}"),
    }
}

fn calls(debuggee: &mut Debuggee, until: &Moment, wanted: Option<u64>) -> WayCalls {
    match ask(debuggee, WayPart::Calls { until: until.clone(), wanted }) {
        Ok(WayFinding::Calls(calls)) => calls,
        other => panic!("{other:?}"),
    }
}

/// A recorded run to its end, or to where it crashes.
fn run(fixture: &Fixture, args: &[&str]) -> Debuggee {
    let mut debuggee = Debuggee::record(fixture, args);
    while debuggee.go().reason == StopReason::Exception {}
    debuggee
}

/// The number of the first pass that differs.
fn parting(here: &mut Debuggee, there: &mut Debuggee) -> Option<u64> {
    let (one, other) = (sums(here), sums(there));
    assert_eq!((&one.build, one.posts), (&other.build, other.posts));
    let (first, count) = one.first_difference(&other)?;
    let count = u32::try_from(count).unwrap();
    let (one, other) = (posts(here, first, count), posts(there, first, count));
    let same = one.iter().zip(&other).take_while(|(one, other)| one.post == other.post).count();
    assert!(same < one.len().max(other.len()), "{same} of {} and {}", one.len(), other.len());
    Some(first + same as u64)
}

fn languages() -> [Fixture; 3] {
    [Fixture::c("ways"), Fixture::cpp("ways"), Fixture::rust("ways")]
}

/// The sum that code beside the program makes is that of the posts one by one.
#[test]
fn a_way_summed_up_is_the_way_post_by_post() {
    for fixture in languages() {
        let mut debuggee = run(&fixture, &["loop", "30", "200"]);
        let way = sums(&mut debuggee);
        let all = posts(&mut debuggee, 0, 1 << 20);
        assert_eq!(way.total, all.len() as u64);
        let sum = all.iter().fold(0_u64, |sum, passed| {
            sum.wrapping_mul(5).wrapping_add(i64::from(passed.post.cast_signed()).cast_unsigned())
        });
        assert_eq!(way.last, sum);
        assert!(way.total > 600, "{}", way.total);
        // From the middle on as well.
        assert_eq!(posts(&mut debuggee, way.total / 2, 50), all[all.len() / 2..][..50]);
        assert_eq!(way.end, "exited with code 0");
    }
}

#[test]
fn a_branch_that_differs_late_is_found_at_its_statement() {
    for fixture in languages() {
        let operations = "100000";
        let mut here = run(&fixture, &["late", "77777", operations]);
        let mut there = run(&fixture, &["late", "100001", operations]);
        let number = parting(&mut here, &mut there).expect("they differ");
        let (one, other) = (pass(&mut here, number), pass(&mut there, number));
        let line = |mark| Some(here.built.line(mark));
        assert_eq!((one.location.line, other.location.line), (line("branch"), line("branch")));
        let next = |pass: &WayPass| pass.next.as_ref().and_then(|location| location.line);
        assert_eq!((next(&one), next(&other)), (line("taken"), line("usual")));
        for (debuggee, pass) in [(&mut here, &one), (&mut there, &other)] {
            debuggee.movement(Movement::Goto(Destination::Moment(pass.moment.clone())));
            assert_eq!(debuggee.value_of("number"), "77777");
        }
    }
}

#[test]
fn one_more_round_of_a_loop_is_found_where_the_other_leaves_it() {
    for fixture in languages() {
        let mut here = run(&fixture, &["loop", "5", "300"]);
        let mut there = run(&fixture, &["loop", "6", "300"]);
        let number = parting(&mut here, &mut there).expect("they differ");
        let (one, other) = (pass(&mut here, number), pass(&mut there, number));
        assert_eq!(one.location.line, Some(here.built.line("loop")));
        for (debuggee, pass) in [(&mut here, &one), (&mut there, &other)] {
            debuggee.movement(Movement::Goto(Destination::Moment(pass.moment.clone())));
            assert_eq!(debuggee.value_of("round"), "5");
        }
        assert_eq!(other.next.unwrap().line, Some(here.built.line("body")));
    }
}

#[test]
fn runs_with_the_same_input_go_the_same_way() {
    for fixture in languages() {
        let mut here = run(&fixture, &["same", "1"]);
        let mut there = run(&fixture, &["same", "1"]);
        assert_eq!(parting(&mut here, &mut there), None);
        // Also where the recording comes from a file.
        let file = there.export((None, None));
        let mut opened = Debuggee::open(there.built.clone(), file.path()).unwrap();
        assert_eq!(parting(&mut here, &mut opened), None);
    }
}

#[test]
fn a_crash_is_where_one_way_ends() {
    let fixture = Fixture::c("ways");
    let mut here = run(&fixture, &["crash", "0", "300"]);
    let mut there = run(&fixture, &["crash", "1", "300"]);
    let number = parting(&mut here, &mut there).expect("they differ");
    // The conditional expression differs first; both ways join in the call.
    let one = pass(&mut here, number);
    assert!(one.next.is_some(), "{one:?}");
    let end = pass(&mut here, 1 << 40);
    assert_eq!((end.next, end.location.line), (None, Some(here.built.line("store"))));
    assert_eq!(sums(&mut here).end, "got SIGSEGV");
}

#[test]
fn what_functions_get_and_return_is_told_in_the_order_of_time() {
    for fixture in languages() {
        let mut debuggee = run(&fixture, &["value", "41", "30"]);
        let end = pass(&mut debuggee, 1 << 40).moment;
        let told = calls(&mut debuggee, &end, None);
        let is = |name: &str, function: u32| told.functions[function as usize].name.ends_with(name);
        let limits = told.calls.iter().position(|call| is("set_limit", call.function)).unwrap();
        assert_eq!(told.calls[limits].values, [Some("41".into())]);
        let weighed = told.calls.iter().filter(|call| is("weigh", call.function) && call.returned);
        let weighed: Vec<_> = weighed.filter_map(|call| call.values[0].clone()).collect();
        let expected: Vec<_> = (0..50).map(|number| (number % 7 + 1).to_string()).collect();
        assert_eq!(weighed, expected);
        let wanted = calls(&mut debuggee, &end, Some(limits as u64)).wanted.unwrap();
        debuggee.movement(Movement::Goto(Destination::Moment(wanted.0)));
        assert!(debuggee.function().ends_with("set_limit"), "{}", debuggee.function());
        assert_eq!(debuggee.value_of("value"), "41");
    }
}
