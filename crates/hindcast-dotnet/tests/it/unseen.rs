//! Names that do something to a terminal.

use hindcast_core::debug::Variable;
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Plan, on_both};

fn names_of(variable: &Variable) -> Vec<&str> {
    let own = [variable.name.as_str(), &variable.type_name, &variable.value];
    own.into_iter().chain(variable.children.iter().flat_map(names_of)).collect()
}

on_both! {
    fn names_are_shown_as_strings_are(runtime: &Runtime) {
        let mut debuggee = Plan::of("Unseen").launch(runtime);
        debuggee.break_at("stop");
        debuggee.go_on();
        let threads = debuggee.backend.threads().unwrap();
        assert!(threads.iter().any(|thread| thread.name == r"worker\n\u001b[31m"), "{threads:?}");
        let modules = debuggee.backend.modules().unwrap();
        assert!(modules.len() > 2);
        for module in &modules {
            for text in [&module.name, &module.path, &module.symbols] {
                assert!(!text.contains(char::is_control), "{module:?}");
            }
        }
        assert!(modules.iter().any(|module| module.name.contains(r"\u001b")), "{modules:?}");
        let locals = debuggee.locals();
        let names: Vec<_> = locals.iter().flat_map(names_of).collect();
        assert!(!names.iter().any(|name| name.contains(|unseen: char| unseen.is_control() || unseen == '\u{202e}')), "{names:?}");
    }
}
