//! Expressions in the scope of real frames, compared with gdb.

use hindcast_core::debug::{NumberFormat, ValueLimits, ValueState};
use hindcast_fixtures::Fixture;
use hindcast_symbols::{
    expression::{Evaluated, Expression, FrameScope},
    value::{DerivedTypes, Inspector, Placed},
};

use crate::{snapshot::Snapshot, support::loaded};

fn shown(scope: &FrameScope<'_>, types: &DerivedTypes<'_>, snapshot: &Snapshot, expression: &str) -> String {
    match Expression::parse(expression).and_then(|parsed| parsed.evaluate(scope)) {
        Ok(Evaluated::Value(value)) => {
            Inspector::new(types, snapshot, ValueLimits::default(), NumberFormat::Auto).line(&value)
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => format!("{error} {:?}", error.remedy()),
    }
}

#[test]
fn expressions_see_the_variables_of_their_frame() {
    for flags in [&["-O0"] as &[&str], &["-Og"]] {
        let built = Fixture::c("signals").flags(["-static"]).flags(flags).build();
        let symbols = loaded(&built.path);
        let snapshot = Snapshot::take(&built.path, "handler", &["bt"]);
        let frames = snapshot.frames(&symbols);
        let types = DerivedTypes::new(&symbols);
        let mut depths = Vec::new();
        for frame in &frames {
            for level in symbols.frames_at(frame.address) {
                let scope = FrameScope::new(&symbols, &types, &level, frame);
                let ask = |expression: &str| shown(&scope, &types, &snapshot, expression);
                match level.function.as_deref() {
                    Some("handler") => {
                        assert_eq!(ask("number"), "10", "{flags:?}");
                        assert_eq!(ask("number * 2 + 1"), "21", "{flags:?}");
                        assert_eq!(
                            ask("$pc").split(' ').next(),
                            Some(format!("{:#x}", frame.address).as_str())
                        );
                        assert!(ask("numbr").contains("did you mean `number`"), "{}", ask("numbr"));
                        let mut early = symbols.variables(&level)[0].clone();
                        early.declared_later = true;
                        let early = Placed::variable(&symbols, &early, frame);
                        let inspector =
                            Inspector::new(&types, &snapshot, ValueLimits::default(), NumberFormat::Auto);
                        let early = inspector.show("it", &early);
                        assert_eq!(early.value, "<not yet initialised>");
                        assert_eq!(early.state, ValueState::NotYetInitialised);
                    }
                    Some("inner") => depths.push(ask("depth")),
                    Some("middle") if flags == ["-O0"] => {
                        assert_eq!(ask("a * b == product + 0 || product == 0"), "true")
                    }
                    _ => {}
                }
            }
        }
        assert_eq!(depths.len(), 3, "{flags:?}");
        assert!(flags != ["-O0"] || depths == ["0", "1", "2"], "{depths:?}");
    }
}
