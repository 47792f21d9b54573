//! Names as source code writes them.

use cpp_demangle::{DemangleOptions, ParseOptions};

use crate::types::Language;

/// Longer names are shown as they are: no compiler of use makes them, and demangling may multiply them.
const LONGEST: usize = 16 << 10;

/// A linker's name as source code writes it, without parameters; `None` where it is not mangled.
pub(crate) fn demangle(name: &str) -> Option<String> {
    if name.len() > LONGEST || !name.starts_with('_') {
        return None;
    }
    if is_rust(name) {
        return rust(name);
    }
    cpp(name, DemangleOptions::new().no_params().no_return_type().hide_expression_literal_types())
}

/// The parameters that the name of a C++ function tells, such as `int, char const*`.
pub(crate) fn parameters(name: &str) -> Option<String> {
    if name.len() > LONGEST || is_rust(name) {
        return None;
    }
    let text = cpp(name, DemangleOptions::new().no_return_type())?;
    in_last_parentheses(&text).map(str::to_owned)
}

/// What stands between the last parentheses of a signature.
pub fn in_last_parentheses(signature: &str) -> Option<&str> {
    let end = signature.rfind(')')?;
    let mut open = 0;
    let start = signature[..=end].bytes().rposition(|byte| {
        open += i32::from(byte == b')') - i32::from(byte == b'(');
        open == 0
    })?;
    signature.get(start + 1..end)
}

fn cpp(name: &str, options: DemangleOptions) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    // Parts that the compiler split off carry a suffix: `_Z3foov.cold`.
    let plain = name.find('.').map_or(name, |dot| &name[..dot]);
    let parse = ParseOptions::default().recursion_limit(96);
    let symbol = cpp_demangle::Symbol::new_with_options(plain, &parse).ok()?;
    symbol.demangle_with_options(&options.recursion_limit(192)).ok().filter(|text| text.len() < LONGEST)
}

/// A linker's name as source code writes it, or else as it is.
pub(crate) fn readable(name: &str) -> String {
    demangle(name).unwrap_or_else(|| name.to_owned())
}

/// The language a linker's name tells of.
pub(crate) fn language(name: &str) -> Language {
    match name {
        name if is_rust(name) => Language::Rust,
        name if name.starts_with("_Z") => Language::Cpp,
        _ => Language::C,
    }
}

fn rust(name: &str) -> Option<String> {
    let text = format!("{:#}", rustc_demangle::try_demangle(name).ok()?);
    (text.len() < LONGEST).then_some(text)
}

/// Rust's mangling: the new one, or the old one that ends in a hash.
fn is_rust(name: &str) -> bool {
    if let Some(rest) = name.strip_prefix("_R") {
        return rest.starts_with(|first: char| first.is_ascii_uppercase() || first.is_ascii_digit());
    }
    let Some(rest) = name.strip_prefix("_ZN") else { return false };
    let end = rest.rfind("17h");
    end.is_some_and(|at| {
        let hash = rest.as_bytes().get(at + 3..at + 19);
        hash.is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit))
            && rest.as_bytes().get(at + 19) == Some(&b'E')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_mangling_parameters_and_hash() {
        let cases = [
            ("_Z3addii", "add"),
            ("_ZN2ns3mapIiEEvT_", "ns::map<int>"),
            ("_ZN12_GLOBAL__N_15innerEv", "(anonymous namespace)::inner"),
            ("_ZN4core3ptr4read17h0123456789abcdefE", "core::ptr::read"),
            ("_Z3foov.cold", "foo"),
        ];
        for (mangled, plain) in cases {
            assert_eq!(demangle(mangled).as_deref(), Some(plain));
        }
        assert_eq!(parameters("_ZN2ns4overEPKcPFviE").as_deref(), Some("char const*, void (*)(int)"));
        assert_eq!(parameters("_ZNK1K1fEv").as_deref(), Some(""));
        assert_eq!(demangle("main"), None);
        assert_eq!(readable("_start"), "_start");
    }
}
