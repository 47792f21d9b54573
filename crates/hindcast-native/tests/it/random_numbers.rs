//! Programs that take random numbers from the processor.

use hindcast_core::debug::{Destination, FrameRef, Granularity, Movement, Place, StopReason, Watched};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

/// The instructions of `draw`, as they are shown.
fn code(debuggee: &mut Debuggee) -> Vec<String> {
    let place = Place::Function("draw".into());
    let disassembly = debuggee.backend().disassembly().expect("it has code");
    let listing = disassembly.disassemble(&place, 0, 8).expect("it can be shown");
    listing.into_iter().map(|instruction| format!("{} {}", instruction.bytes, instruction.text)).collect()
}

fn numbers(debuggee: &mut Debuggee) -> Vec<String> {
    (0..8).map(|index| debuggee.value_of(&format!("numbers[{index}]"))).collect()
}

#[test]
fn random_numbers_of_the_processor_are_the_same_in_the_past_and_its_code_is_shown_as_it_is() {
    if !std::arch::is_x86_feature_detected!("rdrand") {
        return;
    }
    let fixture = Fixture::c("random");
    let mut plain = Debuggee::launch(&fixture, &[]);
    plain.run_to("done");
    let expected = code(&mut plain);
    assert!(expected.iter().any(|line| line.contains("rdrand")), "{expected:?}");
    drop(plain);

    let mut debuggee = Debuggee::record(&fixture, &[]);
    debuggee.run_to("done");
    let seen = numbers(&mut debuggee);
    let thread = debuggee.thread();
    assert!(seen.iter().all(|number| number != "0"), "{seen:?}");
    assert_eq!(code(&mut debuggee), expected);

    // One comes upon the numbers again, in the memory and in registers, however one gets there.
    let watched = Watched::Expression { text: "numbers[3]".into(), frame: FrameRef::of(thread, 0) };
    let past = debuggee.backend().time_travel().expect("it travels");
    let write = past.last_write(&watched, 1).expect("it can be asked for").remove(0);
    debuggee.movement(Movement::Goto(Destination::Moment(write.moment)));
    assert_eq!((debuggee.value_of("numbers[3]"), code(&mut debuggee)), (seen[3].clone(), expected.clone()));
    let granularity = Granularity::Instruction;
    for _ in 0..8 {
        debuggee.movement(Movement::StepBack { thread, granularity, count: 1 });
    }
    assert_eq!(debuggee.function(), "draw");
    for _ in 0..8 {
        debuggee.step(granularity);
    }
    debuggee.movement(Movement::ReverseContinue);
    assert_eq!(debuggee.stop.reason, StopReason::HistoryStart);
    debuggee.go();
    assert_eq!(numbers(&mut debuggee), seen);

    let file = debuggee.export((None, None));
    drop(debuggee);
    let mut again = Debuggee::open(fixture.build(), file.path()).expect("it can be opened");
    assert_eq!((numbers(&mut again), code(&mut again)), (seen, expected));
}
