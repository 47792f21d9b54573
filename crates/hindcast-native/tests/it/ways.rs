//! The ways that programs take, compared with what they were told to do.

use hindcast_core::debug::{
    DebugError, Destination, Finding, Moment, Movement, PassedPost, Question, StopReason, WayCalls,
    WayFinding, WayPart, WayPass, WayPlace, WayQuestion, WaySums,
};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn ask(debuggee: &mut Debuggee, part: WayPart) -> Result<WayFinding, DebugError> {
    ask_since(debuggee, None, part)
}

fn ask_since(
    debuggee: &mut Debuggee,
    since: Option<Moment>,
    part: WayPart,
) -> Result<WayFinding, DebugError> {
    let question = Question::Way(WayQuestion { since, part });
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

fn posts(debuggee: &mut Debuggee, from: WayPlace, count: u32) -> Vec<PassedPost> {
    match ask(debuggee, WayPart::Posts { from, count, with_frames: true }) {
        Ok(WayFinding::Posts(posts)) => posts,
        other => panic!("{other:?}"),
    }
}

fn pass(debuggee: &mut Debuggee, place: WayPlace) -> WayPass {
    match ask(debuggee, WayPart::Pass(place)) {
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

const START: WayPlace = WayPlace { summed: 0, post: 0 };
const END: WayPlace = WayPlace { summed: 1 << 40, post: 0 };

/// The first post that differs.
fn parting(here: &mut Debuggee, there: &mut Debuggee) -> Option<WayPlace> {
    let (one, other) = (sums(here), sums(there));
    assert_eq!((&one.build, one.posts), (&other.build, other.posts));
    let from = WayPlace { summed: one.first_difference(&other)?, post: 0 };
    let (one, other) = (posts(here, from, 8192), posts(there, from, 8192));
    let same = one.iter().zip(&other).take_while(|(one, other)| one.post == other.post).count();
    assert!(same < one.len().max(other.len()), "{same} of {} and {}", one.len(), other.len());
    Some(WayPlace { post: same as u64, ..from })
}

fn languages() -> [Fixture; 3] {
    [Fixture::c("ways"), Fixture::cpp("ways"), Fixture::rust("ways")]
}

#[test]
fn a_way_is_the_same_from_wherever_it_is_looked_at() {
    for fixture in languages() {
        let mut debuggee = run(&fixture, &["loop", "30", "900"]);
        let way = sums(&mut debuggee);
        assert_eq!(way.end, "exited with code 0");
        assert!(way.total > way.every && way.sums.len() as u64 == way.total / way.every, "{way:?}");
        let all = posts(&mut debuggee, START, 1 << 20);
        let middle = WayPlace { summed: way.every, post: 0 };
        let rest = posts(&mut debuggee, middle, 1 << 20);
        assert!(all.ends_with(&rest) && rest.len() < all.len(), "{} of {}", rest.len(), all.len());
        let later = WayPlace { post: 50, ..middle };
        assert_eq!(posts(&mut debuggee, later, 20), rest[50..70]);
        // Each pass is mixed into the sum of those before it.
        let at = pass(&mut debuggee, middle).at;
        let half = match ask_since(&mut debuggee, Some(at), WayPart::Sums) {
            Ok(WayFinding::Sums(sums)) => sums,
            other => panic!("{other:?}"),
        };
        let mut before = way.sums[0];
        if half.total > way.total - way.every {
            // The post where it begins is the last of those before as well.
            let last = i64::from(rest[0].post.cast_signed()).cast_unsigned();
            before = before.wrapping_sub(last).wrapping_mul(0xcccc_cccc_cccc_cccd);
        }
        let shifted = (0..half.total).fold(before, |sum, _| sum.wrapping_mul(5));
        assert_eq!(shifted.wrapping_add(half.last), way.last);
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
    let end = pass(&mut here, END);
    assert_eq!((end.next, end.location.line), (None, Some(here.built.line("store"))));
    assert_eq!(sums(&mut here).end, "got SIGSEGV");
}

#[test]
fn what_functions_get_and_return_is_told_in_the_order_of_time() {
    for fixture in languages() {
        let mut debuggee = run(&fixture, &["value", "41", "30"]);
        let end = pass(&mut debuggee, END).moment;
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
