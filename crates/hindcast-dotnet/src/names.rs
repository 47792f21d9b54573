//! Methods under the names that the source gives them, not those that the compiler makes of them.

use crate::{
    image::{Method, Spelling, TypeDef},
    visible::visible,
};

/// What a method is called in the source: with its type, and for lambdas, local functions and state machines with the
/// method that they are written in.
pub(crate) fn method_name(method: Method<'_>) -> Option<String> {
    method_name_with(method, &[])
}

/// The same with types that stand for the parameters of the type and then of the method; parameters for which there is
/// none keep their names.
pub(crate) fn method_name_with(method: Method<'_>, arguments: &[Option<String>]) -> Option<String> {
    let declaring = method.declaring_type()?;
    let raw = method.name()?;
    let of_type = declaring.generic_parameters().len();
    let own = method.generic_parameters();
    let own_names = own.iter().enumerate().map(|(at, parameter)| {
        let argument = arguments.get(of_type + at).cloned().flatten();
        argument.unwrap_or_else(|| parameter.name.to_owned())
    });
    let own_names: Vec<_> = own_names.collect();
    let suffix = if own_names.is_empty() { String::new() } else { format!("<{}>", own_names.join(", ")) };
    let (owner, name) = source_name(method)?;
    let is_state_machine = source_owner(declaring).1.is_some();
    let owner_name = type_name(owner, if is_state_machine { &[] } else { arguments })?;
    let has_suffix = matches!(Made::of(raw), Made::Not | Made::LocalFunction { .. });
    let suffix = if has_suffix { suffix } else { String::new() };
    Some(format!("{owner_name}.{name}{suffix}"))
}

/// The type in the source that a method belongs to, and what the method is called there.
pub(crate) fn source_name(method: Method<'_>) -> Option<(TypeDef<'_>, String)> {
    let raw = method.name()?;
    let (owner, inner) = source_owner(method.declaring_type()?);
    let name = match (inner, Made::of(raw)) {
        // A state machine: the method that it was made of.
        (Some(method), _) if is_body(raw) => method,
        (_, Made::Not) => plain_name(raw, owner),
        (_, made) => made.source_name(raw),
    };
    Some((owner, visible(&name).into_owned()))
}

/// Whether a method of a state machine has code of the method that it was made of: all of it, or a `finally` of an iterator.
pub(crate) fn is_body(raw: &str) -> bool {
    raw == "MoveNext" || is_finally_body(raw)
}

/// Whether a method of a state machine is a `finally` of an iterator, which also runs when the iterator is given up.
pub(crate) fn is_finally_body(raw: &str) -> bool {
    raw.starts_with("<>m__Finally")
}

/// The last part of a name: what a reader calls the method.
pub(crate) fn short_name(full: &str) -> &str {
    let mut depth = 0u32;
    for (at, letter) in full.char_indices().rev() {
        match letter {
            '>' | ']' | ')' => depth += 1,
            '<' | '[' | '(' => depth = depth.saturating_sub(1),
            '.' if depth == 0 && at > 0 => return &full[at + 1..],
            _ => {}
        }
    }
    full
}

/// A type as C# writes it, with namespaces, and types that stand for its parameters.
pub(crate) fn type_name(of: TypeDef<'_>, arguments: &[Option<String>]) -> Option<String> {
    let full = of.full_name()?;
    let names: Vec<String> = of
        .generic_parameters()
        .iter()
        .enumerate()
        .map(|(at, parameter)| {
            let argument = arguments.get(at).cloned().flatten();
            argument.unwrap_or_else(|| parameter.name.to_owned())
        })
        .collect();
    Some(crate::image::csharp_name(&full, &names, Spelling::Qualified))
}

/// The type in the source that a type belongs to, and the method whose state machine it is.
fn source_owner(declaring: TypeDef<'_>) -> (TypeDef<'_>, Option<String>) {
    let (mut owner, mut method) = (declaring, None);
    while let Some(name) = owner.name().filter(|name| name.starts_with('<')) {
        let Some(outer) = owner.enclosing() else { break };
        if method.is_none() {
            method = state_machine_of(name).map(|name| Made::of(name).source_name(name));
        }
        owner = outer;
    }
    (owner, method)
}

/// `Run` of `<Run>d__1`, and `<Run>b__0` of `<<Run>b__0>d`: the method that a state machine was made of. Those of lambdas and
/// local functions have no number.
fn state_machine_of(name: &str) -> Option<&str> {
    let method = between_brackets(name)?;
    let rest = name[method.len() + 2..].strip_prefix('d')?;
    (rest.is_empty() || rest.starts_with("__") || rest.starts_with('`')).then_some(method)
}

/// What the compiler made of something in the source.
enum Made<'a> {
    Lambda { of: &'a str },
    LocalFunction { of: &'a str, name: &'a str },
    TopLevel,
    Not,
}

impl<'a> Made<'a> {
    fn of(name: &'a str) -> Self {
        if name == "<Main>$" {
            return Self::TopLevel;
        }
        let Some(of) = between_brackets(name) else { return Self::Not };
        let rest = &name[of.len() + 2..];
        let of = match of {
            "<Main>$" => "Main",
            // State machines have no dots in their names.
            "-ctor" => ".ctor",
            "-cctor" => ".cctor",
            of => of,
        };
        if rest.starts_with("b__") {
            return Self::Lambda { of };
        }
        match rest.strip_prefix("g__").and_then(|rest| rest.split_once('|')) {
            Some((name, _)) => Self::LocalFunction { of, name },
            None => Self::Not,
        }
    }

    fn source_name(self, raw: &str) -> String {
        match self {
            Self::Lambda { of } => format!("{of}.lambda"),
            Self::LocalFunction { of, name } => format!("{of}.{name}"),
            Self::TopLevel => "Main".into(),
            Self::Not => raw.to_owned(),
        }
    }
}

/// `Main` of `<Main>b__0`; brackets may be nested.
fn between_brackets(name: &str) -> Option<&str> {
    let inside = name.strip_prefix('<')?;
    let mut depth = 1u32;
    for (at, letter) in inside.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (at > 0).then(|| &inside[..at]);
        }
    }
    None
}

fn plain_name(raw: &str, owner: TypeDef<'_>) -> String {
    if raw == ".ctor" {
        let name = owner.name().unwrap_or("?");
        return name.split('`').next().unwrap_or(name).to_owned();
    }
    // Explicit implementations have the interface in front.
    let at = raw.rfind('.').filter(|at| *at > 0).map_or(0, |dot| dot + 1);
    for (prefix, accessor) in [("get_", "get"), ("set_", "set"), ("add_", "add"), ("remove_", "remove")] {
        if let Some(name) = raw[at..].strip_prefix(prefix) {
            return format!("{name}.{accessor}");
        }
    }
    raw.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_of_a_name_is_found_behind_types() {
        assert_eq!(short_name("MyApp.Program.Main"), "Main");
        assert_eq!(short_name("MyApp.Box<System.Int32>.Get<System.String>"), "Get<System.String>");
        assert_eq!(short_name("Main"), "Main");
        assert_eq!(short_name("Program..cctor"), "cctor");
    }

    #[test]
    fn state_machines_tell_the_method_that_they_were_made_of() {
        assert_eq!(state_machine_of("<Run>d__1"), Some("Run"));
        assert_eq!(state_machine_of("<Run>d__1`1"), Some("Run"));
        assert_eq!(state_machine_of("<<Run>b__0>d"), Some("<Run>b__0"));
        assert_eq!(state_machine_of("<<Run>g__Inner|0_0>d`1"), Some("<Run>g__Inner|0_0"));
        assert_eq!(state_machine_of("<Run>data"), None);
        assert_eq!(state_machine_of("<>c__DisplayClass0_0"), None);
    }

    #[test]
    fn names_that_the_compiler_makes_are_taken_apart() {
        assert!(matches!(Made::of("<Main>b__0_1"), Made::Lambda { of: "Main" }));
        assert!(matches!(Made::of("<Main>g__Add|0_0"), Made::LocalFunction { of: "Main", name: "Add" }));
        assert!(matches!(Made::of("<<Main>$>g__Add|0_0"), Made::LocalFunction { of: "Main", name: "Add" }));
        assert!(matches!(Made::of("<Main>$"), Made::TopLevel));
        assert!(matches!(Made::of("<-ctor>b__0"), Made::Lambda { of: ".ctor" }));
        assert!(matches!(Made::of("Main"), Made::Not));
    }
}
