//! Who points to something.

use hindcast_core::debug::{FoundPointer, FrameRef, PointerKind, PointerPage, PointerSearch};
use hindcast_fixtures::Fixture;

use crate::debuggee::Debuggee;

fn search(debuggee: &mut Debuggee, target: &str) -> Result<PointerPage, String> {
    let frame = FrameRef::of(debuggee.thread(), 0);
    let search = PointerSearch { target: target.into(), frame, offset: 0, limit: 100 };
    let data = debuggee.backend().data_search().expect("it has data");
    data.pointers(&search).map_err(|error| error.to_string())
}

fn named(page: &PointerPage, kind: PointerKind) -> Vec<(Option<u32>, &str)> {
    let of_kind = page.pointers.iter().filter(|pointer| pointer.kind == kind);
    of_kind.filter_map(|pointer| Some((pointer.frame, pointer.name.as_deref()?))).collect()
}

#[test]
fn all_places_that_point_to_an_object_are_told_by_name() {
    let mut debuggee = Debuggee::record(&Fixture::c("pointers"), &[]);
    debuggee.run_to("inspect");
    let page = search(&mut debuggee, "mine").unwrap();
    let stack = named(&page, PointerKind::Stack);
    for expected in [(Some(0), "mine"), (Some(0), "local[1]"), (Some(1), "second")] {
        assert!(stack.contains(&expected), "{expected:?} in {stack:?}");
    }
    assert_eq!(named(&page, PointerKind::Global), [(None, "table.slots[2]")]);
    let heap: Vec<&FoundPointer> =
        page.pointers.iter().filter(|pointer| pointer.kind == PointerKind::Heap).collect();
    let places: Vec<_> = heap.iter().map(|pointer| pointer.address.unwrap().to_string()).collect();
    let expected = ["&head->next", "&mine->next->friend"].map(|text| debuggee.value_of(text));
    assert!(
        expected.iter().zip(&places).all(|(value, place)| value.contains(place.as_str())),
        "{expected:?} {places:?}"
    );
    assert_eq!(places.len(), 2);
    let block = heap[0].block.unwrap().to_string();
    assert!(debuggee.value_of("head").contains(&block), "{block}");
    assert!(page.is_block && page.size == 24, "{page:?}");
}

#[test]
fn an_owner_stands_for_what_it_owns() {
    let mut debuggee = Debuggee::launch(&Fixture::rust("map"), &[]);
    debuggee.run_to("owned");
    for target in ["one", "*one", "held[1]"] {
        let page = search(&mut debuggee, target).unwrap();
        let stack = named(&page, PointerKind::Stack);
        for holder in ["one.ptr.pointer", "two.ptr.pointer"] {
            assert!(stack.contains(&(Some(0), holder)), "{target}: {holder} in {stack:?}");
        }
        // Those that are named come first: the others may be left from calls that are over.
        assert!(page.pointers.iter().position(|one| one.name.is_some()) < Some(3), "{page:?}");
        let block = debuggee.value_of("held.buf.inner.ptr.pointer.pointer");
        let held = page.pointers.iter().filter(|one| one.kind == PointerKind::Heap);
        let held: Vec<_> = held.filter(|one| block.contains(&one.block.unwrap().to_string())).collect();
        assert_eq!(held.len(), 2, "{target}: {block}, {page:?}");
        assert!(page.is_block && page.size == 56, "{page:?}");
    }
}

#[test]
fn an_object_is_named_by_itself_by_a_pointer_or_by_its_address() {
    let mut debuggee = Debuggee::record(&Fixture::c("pointers"), &[]);
    debuggee.run_to("inspect");
    let page = search(&mut debuggee, "mine").unwrap();
    assert_eq!(search(&mut debuggee, "*mine").unwrap().pointers, page.pointers);
    assert_eq!(search(&mut debuggee, &page.address.to_string()).unwrap().pointers, page.pointers);
    // An element of an array is not all of its block.
    let element = search(&mut debuggee, "row[2]").unwrap();
    assert_eq!((element.is_block, element.size), (false, 24));
    assert_eq!(named(&element, PointerKind::Global), [(None, "picked")]);
    let table = search(&mut debuggee, "table").unwrap();
    assert!(!table.is_block && table.size == 40, "{table:?}");
    assert!(search(&mut debuggee, "local[0]").unwrap_err().contains("null"));
    assert!(search(&mut debuggee, "table.count + 1").unwrap_err().contains("no address"));
    assert!(search(&mut debuggee, "nothing").is_err());
}
