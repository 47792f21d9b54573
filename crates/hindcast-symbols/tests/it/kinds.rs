//! The ways that debug information is packed.

use hindcast_fixtures::Fixture;
use hindcast_symbols::types::Types;

use crate::support::{loaded, mark};

#[test]
fn variables_and_types_are_found_however_debug_information_is_packed() {
    let ways: [&[&str]; 9] = [
        &["-gdwarf-5"],
        &["-gdwarf-4"],
        &["-gz"],
        &["-gz=zlib-gnu"],
        &["-static"],
        &["-gsplit-dwarf"],
        &["-gsplit-dwarf", "-gdwarf-4"],
        &["-fdebug-types-section", "-gdwarf-4"],
        &["-fdebug-types-section", "-gdwarf-5"],
    ];
    for flags in ways {
        let built = Fixture::c("calls").flags(flags).build();
        let symbols = loaded(&built.path);
        let frames = symbols.frames_at(mark(&symbols, &built, "loop_body"));
        assert_eq!(frames[0].function.as_deref(), Some("main"), "{flags:?}");
        let variables = symbols.variables(&frames[0]);
        let names: Vec<&str> = variables.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["i", "argc", "argv", "where", "sum", "product"], "{flags:?}");
        let place = &variables[3];
        let of = symbols.get(place.type_ref).expect("a type");
        assert_eq!((of.name.as_str(), of.size), ("point", Some(8)), "{flags:?}");
        assert!(variables[5].declared_later && !variables[4].declared_later, "{flags:?}");
        assert!(symbols.find_global("total", frames[0].address).is_some(), "{flags:?}");
    }
}
