//! Types by the name that source code gives them.

use crate::{
    dwarf::DieRef,
    module::{LoadedModule, NameClass, base_name},
    symbols::{Symbols, functions::NamePattern},
    types::TypeRef,
};

impl Symbols {
    pub(super) fn type_named(&self, name: &str) -> Option<TypeRef> {
        let name = name.trim();
        let name = ["struct ", "class ", "union ", "enum "]
            .iter()
            .find_map(|keyword| name.strip_prefix(keyword))
            .unwrap_or(name)
            .trim();
        let spellings = base_type_spellings(name);
        let plain = name.to_owned();
        for spelling in spellings.iter().chain(std::iter::once(&plain)) {
            let pattern = NamePattern::new(spelling);
            // An exact name in any module before one that only ends in what was asked for.
            let find = |exact: bool| {
                self.loaded().iter().find_map(|module| {
                    let die = in_module(module, &pattern, spelling, exact)?;
                    Some(TypeRef { module: module.id, entry: die.encode() })
                })
            };
            if let Some(found) = find(true).or_else(|| find(false)) {
                return Some(found);
            }
        }
        None
    }
}

fn in_module(module: &LoadedModule, pattern: &NamePattern, name: &str, exact: bool) -> Option<DieRef> {
    let mut types = module.named(base_name(pattern.last()), &[NameClass::Types]);
    let found = types.find(|named| {
        let Some(debug) = module.debug() else { return false };
        let full = debug.view_of(named.die).and_then(|view| {
            let entry = view.entry(named.die)?;
            let name = view.name(&entry)?;
            Some(module.qualified(named.die, &name))
        });
        full.is_some_and(|full| if exact { full == name } else { pattern.matches(&full) })
    });
    found.map(|named| named.die)
}

/// How compilers spell the numbers of C, whose words come in any order.
fn base_type_spellings(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let known = ["unsigned", "signed", "long", "short", "int", "char"];
    if words.is_empty() || !words.iter().all(|word| known.contains(word)) {
        return Vec::new();
    }
    let unsigned = words.contains(&"unsigned");
    let longs = words.iter().filter(|&&word| word == "long").count();
    let spelling = match (unsigned, longs) {
        _ if words.contains(&"char") && unsigned => "unsigned char",
        _ if words.contains(&"char") && words.contains(&"signed") => "signed char",
        _ if words.contains(&"char") => "char",
        (true, _) if words.contains(&"short") => "short unsigned int",
        (false, _) if words.contains(&"short") => "short int",
        (true, 0) => "unsigned int",
        (false, 0) => "int",
        (true, 1) => "long unsigned int",
        (false, 1) => "long int",
        (true, _) => "long long unsigned int",
        (false, _) => "long long int",
    };
    // clang's spelling of the same.
    let other = match spelling {
        "short unsigned int" => "unsigned short",
        "short int" => "short",
        "long unsigned int" => "unsigned long",
        "long int" => "long",
        "long long unsigned int" => "unsigned long long",
        "long long int" => "long long",
        same => same,
    };
    vec![spelling.to_owned(), other.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::base_type_spellings;

    #[test]
    fn the_words_of_a_number_come_in_any_order() {
        let cases = [
            ("unsigned long", "long unsigned int"),
            ("long unsigned", "long unsigned int"),
            ("unsigned", "unsigned int"),
            ("long long", "long long int"),
            ("short", "short int"),
            ("signed char", "signed char"),
        ];
        for (asked, spelled) in cases {
            assert_eq!(base_type_spellings(asked)[0], spelled, "{asked}");
        }
        assert!(base_type_spellings("u64").is_empty());
    }
}
