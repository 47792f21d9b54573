//! Who allocated a block of memory, and who freed it, compared with what the program keeps of that itself.

use hindcast_core::debug::{Allocation, Destination, Movement, RuntimeAddr, Watched};
use hindcast_fixtures::Fixture;

use super::{Debuggee, Finding, HistoryQuestion, Question, Span, StopReason, WriteHistory};

fn number(debuggee: &mut Debuggee, expression: &str) -> u64 {
    let value = debuggee.value_of(expression);
    let word = value.split_whitespace().next().unwrap_or_default();
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{expression}: {value}"))
}

fn history_at(debuggee: &mut Debuggee, address: u64) -> WriteHistory {
    let watched = Watched::Memory { address: RuntimeAddr(address), size: 8 };
    let question = HistoryQuestion { watched, span: Span::default(), offset: 0, limit: 3, reads: false };
    match debuggee.backend().time_travel().expect("it travels").ask(&Question::History(question)) {
        Ok(Finding::History(history)) => history,
        other => panic!("{address:#x}: {other:?}"),
    }
}

fn block_at(debuggee: &mut Debuggee, address: u64) -> Option<Allocation> {
    history_at(debuggee, address).allocation.map(|block| *block)
}

/// The program's own clock at a moment.
fn tick_at(debuggee: &mut Debuggee, moment: &hindcast_core::debug::Moment) -> u64 {
    debuggee.movement(Movement::Goto(Destination::Moment(moment.clone())));
    number(debuggee, "tick")
}

#[test]
fn blocks_are_told_with_who_allocated_and_who_freed_them() {
    let fixture = Fixture::c("blocks");
    let mut debuggee = Debuggee::record(&fixture, &[]);
    debuggee.run_to("printed");
    let slots: Vec<[u64; 4]> = (0..24)
        .map(|slot| {
            let mut of = |member: &str| number(&mut debuggee, &format!("slots[{slot}].{member}"));
            [of("block"), of("size"), of("born"), of("died")]
        })
        .collect();
    let (mut alive, mut dead) = (0, 0);
    for [block, size, born, died] in slots {
        debuggee.movement(Movement::Goto(Destination::Present));
        let told = block_at(&mut debuggee, block + size - 8).unwrap_or_else(|| panic!("{block:#x}"));
        let allocated = tick_at(&mut debuggee, &told.allocated.moment);
        if died == 0 {
            assert_eq!((told.address.0, allocated, told.freed.len()), (block, born, 0), "{told:?}");
            assert!((size..size + 32).contains(&told.size), "{size}: {told:?}");
            alive += 1;
        } else if allocated == born {
            let freed: Vec<_> = told.freed.iter().map(|freed| freed.moment.clone()).collect();
            assert_eq!((told.address.0, freed.len()), (block, 1), "{told:?}");
            assert_eq!(tick_at(&mut debuggee, &freed[0]), died);
            dead += 1;
        } else {
            assert!(allocated > died, "it is another block's now: {told:?}");
        }
    }
    assert!(alive > 5 && dead > 0, "{alive} {dead}");
}

#[test]
fn blocks_are_found_whichever_way_they_were_allocated() {
    let mut debuggee = Debuggee::record(&Fixture::c("blocks"), &["300"]);
    debuggee.run_to("printed");
    for (kind, (mark, size)) in
        [("large", 6000), ("mapped", 1 << 20), ("aligned", 640), ("strdup", 15)].into_iter().enumerate()
    {
        let block = number(&mut debuggee, &format!("kinds[{kind}]"));
        let told = block_at(&mut debuggee, block).unwrap_or_else(|| panic!("{mark}"));
        assert_eq!(told.address.0, block, "{mark}");
        assert_eq!(told.allocated.location.line, Some(debuggee.built.line(mark)), "{told:?}");
        assert!((size..size + 5000).contains(&told.size), "{mark}: {told:?}");
    }
}

#[test]
fn a_block_that_is_freed_twice_tells_both_and_its_history_begins_with_it() {
    let mut debuggee = Debuggee::record(&Fixture::c("blocks"), &["300"]);
    let stop = debuggee.go().clone();
    assert_eq!(stop.reason, StopReason::Signal, "{stop:?}");
    let twice = number(&mut debuggee, "twice");
    let told = history_at(&mut debuggee, twice + 24);
    let block = told.allocation.expect("it was allocated");
    assert_eq!(told.since, block.allocated.moment);
    let lines: Vec<_> = block.freed.iter().map(|freed| freed.location.line).collect();
    assert_eq!(lines, [Some(debuggee.built.line("first")), Some(debuggee.built.line("second"))], "{block:?}");
    assert!(block.freed.iter().all(|freed| freed.function.contains("free")), "{block:?}");
}

#[test]
fn blocks_of_containers_are_told_with_the_programs_own_statement() {
    for fixture in [Fixture::cpp("blocks"), Fixture::rust("blocks")] {
        let mut debuggee = Debuggee::record(&fixture, &[]);
        debuggee.run_to("printed");
        let line = |debuggee: &Debuggee, mark: &str| Some(debuggee.built.line(mark));
        let first = number(&mut debuggee, "first");
        let told = block_at(&mut debuggee, first + 8 * 400).expect("the numbers are in a block");
        assert_eq!((told.address.0, told.freed.len()), (first, 0), "{told:?}");
        assert_eq!(told.allocated.location.line, line(&debuggee, "grown"), "{told:?}");
        let gone = number(&mut debuggee, "gone");
        let told = block_at(&mut debuggee, gone).expect("it was in a block");
        assert_eq!(told.allocated.location.line, line(&debuggee, "made"), "{told:?}");
        let freed: Vec<_> = told.freed.iter().map(|freed| freed.location.line).collect();
        assert_eq!(freed, [line(&debuggee, "gone")], "{told:?}");
    }
}
