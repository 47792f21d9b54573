//! Values of F#'s own types.

use super::{
    seen::{Content, Seen, Values},
    show::{Part, PartValue, Parts, View},
};

/// What the compiler notes of how types and members came about.
const MAPPING: &str = "Microsoft.FSharp.Core.CompilationMappingAttribute";
/// `SourceConstructFlags.SumType`: the type is a union.
const UNION: i64 = 1;
/// Those flags that say what kind of thing it is.
const KIND: i64 = 31;

impl Values<'_> {
    /// Types of F#'s library.
    pub(super) fn fsharp(&self, seen: &Seen, name: &str) -> Option<View> {
        match name {
            "Microsoft.FSharp.Core.FSharpOption`1" => {
                let value = self.any_field(seen, &["value", "item"])?;
                let text = format!("Some {}", self.argument(&value));
                Some(View {
                    text: Some(text),
                    parts: Parts::Named(vec![Part::new("Value", Ok(value.value))]),
                })
            }
            "Microsoft.FSharp.Core.FSharpRef`1" => {
                let value = self.field_seen(seen, "contents")?;
                Some(View::text(format!("ref {}", self.argument(&value))))
            }
            _ => self.fsharp_union(seen),
        }
    }

    /// A case of a union: `Circle 2`, `Rectangle (2, 3.5)`, `Nothing`.
    pub(super) fn fsharp_union(&self, seen: &Seen) -> Option<View> {
        let Content::Object(object) = &seen.content else { return None };
        let bases = seen.of.with_bases(self.modules);
        let union = bases.iter().find(|base| is_union(base))?;
        let name = seen.of.full_name_ref()?;
        let is_case = !std::ptr::eq(union, &bases[0]);
        let case = match is_case {
            true => name.rsplit(['+', '.']).next()?.trim_start_matches('_').split('`').next()?.to_owned(),
            // A case without values has no type of its own, but a number.
            false => self.case_name(seen, union)?,
        };
        // The compiler asks debuggers not to show the fields, because there are properties.
        let fields = self.fields(object, &seen.of).into_iter().filter(|field| field.raw_name != "_tag");
        let parts: Vec<_> =
            fields.map(|field| Part::new(field.raw_name.trim_start_matches('_'), field.value)).collect();
        let parts = match seen.of.is_value_type() {
            true => self.fields_of_case(seen, union, parts)?,
            false => parts,
        };
        let mut values = Vec::with_capacity(parts.len());
        for part in &parts {
            let PartValue::Place(Ok(value)) = &part.value else { return None };
            values.push(self.see(value).ok()?);
        }
        let text = match values.as_slice() {
            [] => case,
            [only] => format!("{case} {}", self.argument(only)),
            several => {
                let shown: Vec<_> =
                    several.iter().map(|value| self.brief(value, Default::default())).collect();
                format!("{case} ({})", shown.join(", "))
            }
        };
        Some(View { text: Some(text), parts: Parts::Named(parts) })
    }

    /// A union that is a struct has the fields of all its cases. The compiler notes on the property of each to which
    /// case it belongs, and in which place.
    fn fields_of_case(
        &self,
        seen: &Seen,
        union: &super::types::TypeInfo,
        parts: Vec<Part>,
    ) -> Option<Vec<Part>> {
        let definition = union.definition.as_ref()?;
        let assembly = definition.module.assembly()?;
        // A union with one case has no tag.
        let tag = self.integer_field(seen, &["_tag", "Tag"]).unwrap_or(0);
        let place = |part: &Part| {
            let is_its_own = |name: &str| name.eq_ignore_ascii_case(&part.name);
            let mut properties = definition.type_def()?.properties();
            let property = properties.find(|property| property.name().is_some_and(is_its_own))?;
            let arguments = assembly.attribute(property.token(), MAPPING)?.arguments().ok()?;
            let numbers: Vec<_> = arguments.fixed.iter().filter_map(|number| number.as_i64()).collect();
            match numbers.as_slice() {
                [_, case, place] if *case == tag => Some(*place),
                // With one case only, that is not noted.
                [_, place] if tag == 0 => Some(*place),
                _ => None,
            }
        };
        let mut own: Vec<_> = parts.into_iter().filter_map(|part| Some((place(&part)?, part))).collect();
        own.sort_by_key(|(place, _)| *place);
        Some(own.into_iter().map(|(_, part)| part).collect())
    }

    fn case_name(&self, seen: &Seen, union: &super::types::TypeInfo) -> Option<String> {
        let type_def = union.definition.as_ref()?.type_def()?;
        let mut tags = type_def.nested().filter(|nested| nested.name() == Some("Tags"));
        let Some(tags) = tags.next() else {
            // One case only, which bears the name of the union.
            return union.display().split('<').next()?.rsplit('.').next().map(str::to_owned);
        };
        let tag = self.integer_field(seen, &["_tag", "Tag"])?;
        let mut cases = tags.fields().filter(|field| field.is_literal());
        let case =
            cases.find(|field| field.constant().and_then(|constant| constant.as_i64()) == Some(tag))?;
        case.name().map(str::to_owned)
    }

    /// A value behind the name of a case: in brackets where it is more than one word.
    fn argument(&self, seen: &Seen) -> String {
        let text = self.brief(seen, Default::default());
        let is_one = !text.contains(' ') || text.starts_with(['"', '[', '(', '{']);
        if is_one { text } else { format!("({text})") }
    }
}

fn is_union(of: &super::types::TypeInfo) -> bool {
    let Some(definition) = &of.definition else { return false };
    let Some(assembly) = definition.module.assembly() else { return false };
    let attribute = assembly.attribute(definition.token, MAPPING);
    let flags = attribute.and_then(|attribute| attribute.arguments().ok()?.fixed.first()?.as_i64());
    flags.is_some_and(|flags| flags & KIND == UNION)
}
