//! Methods by the names that people give them.

use hindcast_core::debug::DebugError;

use crate::{
    image::{Method, Primitive, Spelling, TypeDef, csharp_name},
    names::{is_body, method_name, source_name},
};

/// Which methods are meant by a name.
#[derive(Debug)]
pub(super) struct FunctionPattern {
    /// `Widget` and `Add` of `Widget.Add`; without the last where it is an operator or an indexer.
    parts: Vec<Part>,
    last: Last,
    /// `int,string` of `Add(int, string)`.
    parameters: Option<String>,
}

/// What a name ends in.
#[derive(Debug)]
enum Last {
    /// A name like all others.
    Name,
    /// An operator: what compilers call it, and the type that a conversion gives.
    Operator { names: &'static [&'static str], returns: Option<String> },
    /// `this[]`
    Indexer,
    /// A regular expression for whole names.
    Expression(regex_lite::Regex),
}

/// What stands between the dots of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    name: String,
    /// How many type parameters it has; none where that was not said.
    arity: Option<usize>,
    /// What is written for them: `int` and `string` of `Pair<int, string>`; nothing of `Pair<,>`.
    arguments: Vec<String>,
}

/// How a name means a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meant {
    /// It is the method's own name.
    Itself,
    /// It is the name of the property or event that the method belongs to, or of the method of an interface that the method
    /// implements.
    Member,
}

/// How alike a name must be to be worth a hint.
const ALIKE: f64 = 0.8;

impl FunctionPattern {
    pub(super) fn read(text: &str) -> Result<Self, DebugError> {
        let text = text.trim();
        if let Some(expression) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            let expression = regex_lite::Regex::new(expression)
                .map_err(|error| failed(format!("`{text}` is no regular expression: {error}")))?;
            return Ok(Self { parts: Vec::new(), last: Last::Expression(expression), parameters: None });
        }
        // Types of C++ and Rust are joined by colons, and habits last. F# writes active patterns in brackets.
        let text =
            text.trim_start_matches("global::").replace("::", ".").replace("(|", "|").replace("|)", "|");
        if let Some((owner, operator)) = split_operator(&text) {
            return Self::read_operator(owner, operator);
        }
        let (name, mut parameters) = split_parameters(&text);
        let (name, index) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((name, index)) => (name, Some(index)),
            None => (name, None),
        };
        let mut parts = split(name);
        if parts.last().is_none_or(|part| part.name.is_empty()) {
            return Err(failed("the name of a method is empty".into()));
        }
        let is_indexer = index.is_some() || parts.last().is_some_and(|part| part.name == "this");
        if is_indexer {
            parts.pop();
            parameters = parameters.or(index.filter(|index| !index.trim().is_empty()));
        }
        let last = if is_indexer { Last::Indexer } else { Last::Name };
        Ok(Self { parts, last, parameters: parameters.map(with_keywords) })
    }

    fn read_operator(owner: &str, operator: &str) -> Result<Self, DebugError> {
        let (symbol, parameters) = match operator.split_once('(') {
            Some((symbol, rest)) => (symbol.trim(), Some(inside(rest))),
            None => (operator.trim(), None),
        };
        let owner = owner.trim_end();
        let (owner, conversion): (_, Option<&'static [&'static str]>) =
            match (owner.strip_suffix("implicit"), owner.strip_suffix("explicit")) {
                (Some(owner), _) => (owner, Some(&["op_Implicit"])),
                (_, Some(owner)) => (owner, Some(&["op_Explicit"])),
                _ => (owner, None),
            };
        let returns = conversion.filter(|_| !symbol.is_empty()).map(|_| with_keywords(symbol));
        let names = conversion.or_else(|| operator_names(symbol));
        let names = names.ok_or_else(|| failed(format!("`{symbol}` is no operator of C#")))?;
        let owner = owner.trim_end().trim_end_matches('.');
        let parts = if owner.is_empty() { Vec::new() } else { split(owner) };
        let parameters = parameters.map(with_keywords);
        Ok(Self { parts, last: Last::Operator { names, returns }, parameters })
    }

    /// Whether it names a type, so that a method of the framework may be meant.
    pub(super) fn is_qualified(&self) -> bool {
        match &self.last {
            Last::Name => self.parts.len() > 1,
            Last::Expression(_) => true,
            Last::Operator { .. } | Last::Indexer => !self.parts.is_empty(),
        }
    }

    /// Whether it means all methods of some kind rather than one by its name.
    pub(super) fn is_expression(&self) -> bool {
        matches!(self.last, Last::Expression(_))
    }

    /// How it means a method; none where it does not.
    pub(super) fn means(&self, method: Method<'_>) -> Option<Meant> {
        let raw = method.name()?;
        if !self.may_mean(raw) {
            return None;
        }
        let declaring = method.declaring_type()?;
        let (owner, source) = source_name(method)?;
        // The body of an async method or an iterator is found through the method that was written.
        let is_body = is_body(raw) && source != raw;
        let meant = match &self.last {
            Last::Expression(expression) => {
                (!is_body && expression.is_match(&method_name(method)?)).then_some(Meant::Itself)
            }
            Last::Operator { names, returns } => {
                let is_named = names.contains(&last_of(raw)) && self.ends(declaring, &[]);
                let is_wanted = returns.as_ref().is_none_or(|wanted| *wanted == result_of(method));
                (is_named && is_wanted).then_some(Meant::Itself)
            }
            Last::Indexer => {
                let accessor = accessor(last_of(raw)).filter(|_| is_of_indexer(method))?;
                let before = split(raw).len() - 1;
                let explicit = &split(raw)[..before];
                let is_meant = matches!(accessor.1, "get" | "set")
                    && (0..=before).any(|from| self.ends(declaring, &explicit[from..]));
                is_meant.then_some(Meant::Itself)
            }
            Last::Name => self
                .names(declaring, &split_raw(raw, method), is_body)
                .or_else(|| if is_body { None } else { self.names_source(owner, &source, raw, method) })
                .or_else(|| self.names_inner(declaring, raw)),
        };
        meant.filter(|_| self.parameters.as_ref().is_none_or(|wanted| has_parameters(method, wanted)))
    }

    /// Whether it has types for the parameters of a method or its types: code has one breakpoint for all of them.
    pub(super) fn has_type_arguments_for(&self, method: Method<'_>) -> bool {
        let Some(declaring) = method.declaring_type() else { return false };
        let own = method.generic_parameters();
        let of_type = declaring.generic_parameters();
        let known: Vec<&str> = own.iter().chain(&of_type).map(|parameter| parameter.name).collect();
        let name = source_name(method).map(|(_, name)| name).unwrap_or_default();
        let mut generic = type_parts(declaring);
        generic.push(Part { arity: Some(own.len()), ..Part::plain(last_of(&name)) });
        let is_given =
            |part: &Part| part.arguments.iter().any(|argument| !known.contains(&argument.as_str()));
        let given = self.parts.iter().filter(|part| is_given(part));
        given
            .into_iter()
            .any(|part| generic.iter().any(|known| known.name == part.name && known.arity == part.arity))
    }

    /// A quick look at the method's own name.
    fn may_mean(&self, raw: &str) -> bool {
        match &self.last {
            Last::Expression(_) => true,
            Last::Operator { names, .. } => names.contains(&last_of(raw)),
            Last::Indexer => accessor(last_of(raw)).is_some(),
            Last::Name => {
                let last = self.parts.last().map_or("", |part| part.name.as_str());
                raw.contains(last)
                    || raw.starts_with(['<', '.'])
                    || raw == "Invoke"
                    || matches!(last, "get" | "set" | "add" | "remove" | "lambda")
            }
        }
    }

    /// Whether the pattern is the end of a type's name and of names behind it, as compilers write them.
    fn names(&self, declaring: TypeDef<'_>, raw: &[Part], is_body: bool) -> Option<Meant> {
        // `MoveNext` alone is nothing that anybody has written.
        let names_machine = self.parts.iter().any(|part| part.name.starts_with('<'));
        if is_body && !names_machine {
            return None;
        }
        let last = raw.len().checked_sub(1)?;
        if (0..last.max(1)).any(|from| self.ends(declaring, &raw[from..])) {
            return Some(Meant::Itself);
        }
        // An explicit implementation, unless there is another method of that name.
        (last > 0 && self.ends(declaring, &raw[last..])).then_some(Meant::Member)
    }

    /// The same for the names of the source.
    fn names_source(&self, owner: TypeDef<'_>, source: &str, raw: &str, method: Method<'_>) -> Option<Meant> {
        let mut source = split(source);
        if let Some(last) = source.last_mut() {
            last.arity = Some(method.generic_parameters().len());
        }
        if self.ends(owner, &source) {
            return Some(Meant::Itself);
        }
        // Explicit implementations have the interface in front, of which the namespace may be left out.
        let (member, kind) = accessor(last_of(raw))?;
        let mut parts = split(raw);
        parts.pop();
        parts.push(Part::plain(member));
        for (behind, meant) in [(Some(kind), Meant::Itself), (None, Meant::Member)] {
            let whole: Vec<Part> = parts.iter().cloned().chain(behind.map(Part::plain)).collect();
            if (0..parts.len()).any(|from| self.ends(owner, &whole[from..])) {
                return Some(meant);
            }
        }
        None
    }

    /// The same for a function inside another of F#: a method `go@21`, or `Invoke` of a class `go@21`.
    fn names_inner(&self, declaring: TypeDef<'_>, raw: &str) -> Option<Meant> {
        let (owner, made) = match raw {
            "Invoke" => (declaring.enclosing()?, declaring.name()?),
            raw => (declaring, raw),
        };
        let name = made.split_once('@').map(|(name, _)| name).filter(|name| !name.is_empty())?;
        self.ends(owner, &[Part::plain(name)]).then_some(Meant::Member)
    }

    /// Whether the pattern is the end of a type's name and what is behind it.
    fn ends(&self, owner: TypeDef<'_>, behind: &[Part]) -> bool {
        let mut name = type_parts(owner);
        name.extend_from_slice(behind);
        if is_end(&self.parts, &name) {
            return true;
        }
        let Some(keyword) = keyword(owner) else { return false };
        let name: Vec<Part> = [Part::plain(&keyword)].into_iter().chain(behind.iter().cloned()).collect();
        is_end(&self.parts, &name)
    }

    /// How alike a method's name is, to compare it with others; nothing where it is not worth a hint.
    pub(super) fn likeness(&self, name: &str) -> Option<f64> {
        let alike = |one: &Part, other: &Part| {
            strsim::jaro_winkler(&one.name.to_lowercase(), &other.name.to_lowercase())
        };
        let parts = split(name);
        let mut pairs = self.parts.iter().rev().zip(parts.iter().rev()).map(|(one, other)| alike(one, other));
        let method = pairs.next().filter(|score| matches!(self.last, Last::Name) && *score >= ALIKE)?;
        // A method of the right name in another type may be meant, but less so.
        Some(method + pairs.next().unwrap_or(0.0) / 2.0)
    }
}

impl Part {
    fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), arity: None, arguments: Vec::new() }
    }

    fn read(text: &str) -> Self {
        let text = text.trim().trim_start_matches('@');
        if text.starts_with('~') {
            return Self::plain("Finalize");
        }
        // What compilers make begins with a bracket.
        if text.starts_with('<') {
            return Self::plain(text);
        }
        if let Some((name, arguments)) = text.split_once('<') {
            let arguments = split_arguments(arguments.strip_suffix('>').unwrap_or(arguments));
            let arity = Some(arguments.len());
            let arguments = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
            return Self { name: name.trim().to_owned(), arity, arguments };
        }
        let (name, arity) = text.rsplit_once('`').unwrap_or((text, ""));
        match arity.parse() {
            Ok(arity) => Self { arity: Some(arity), ..Self::plain(name) },
            Err(_) => Self::plain(text),
        }
    }
}

fn failed(what: String) -> DebugError {
    DebugError::BreakpointFailed(what.into())
}

/// What stands between the commas of `int, List<(A, B)>`.
fn split_arguments(text: &str) -> Vec<String> {
    let mut depth = 0u32;
    let between = |letter: char| {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        letter == ',' && depth == 0
    };
    text.split(between).map(|argument| argument.trim().to_owned()).collect()
}

/// The parts of a name. A dot at the beginning of a part belongs to it, as in `.ctor`.
fn split(name: &str) -> Vec<Part> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0u32);
    for (at, letter) in name.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '.' | '+' if depth == 0 && at > start => {
                parts.push(Part::read(&name[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(Part::read(&name[start..]));
    parts
}

/// The parts of a method's own name, which has an interface in front where it implements a method explicitly.
fn split_raw(raw: &str, method: Method<'_>) -> Vec<Part> {
    let mut parts = split(raw);
    if let Some(last) = parts.last_mut() {
        last.arity = Some(method.generic_parameters().len());
    }
    parts
}

fn is_end(wanted: &[Part], name: &[Part]) -> bool {
    let is_same = |(wanted, part): (&Part, &Part)| {
        wanted.name == part.name && wanted.arity.is_none_or(|arity| part.arity.unwrap_or(0) == arity)
    };
    wanted.len() <= name.len() && wanted.iter().rev().zip(name.iter().rev()).all(is_same)
}

/// The namespace of a type, the types around it and its own name.
fn type_parts(of: TypeDef<'_>) -> Vec<Part> {
    let (mut names, mut outermost) = (vec![of.name().unwrap_or_default()], of);
    while let Some(outer) = outermost.enclosing().filter(|_| names.len() < 64) {
        names.push(outer.name().unwrap_or_default());
        outermost = outer;
    }
    let namespace = outermost.namespace().filter(|namespace| !namespace.is_empty());
    let namespace = namespace.into_iter().flat_map(|namespace| namespace.split('.'));
    namespace.map(Part::plain).chain(names.into_iter().rev().map(Part::read)).collect()
}

/// `string` of `System.String`.
fn keyword(of: TypeDef<'_>) -> Option<String> {
    if of.namespace() != Some("System") || of.enclosing().is_some() {
        return None;
    }
    let keyword = csharp_name(&of.full_name()?, &[], Spelling::Qualified);
    (!keyword.contains('.')).then_some(keyword)
}

/// `Size` and `get` of `get_Size`.
fn accessor(name: &str) -> Option<(&str, &'static str)> {
    let kinds = [("get_", "get"), ("set_", "set"), ("add_", "add"), ("remove_", "remove")];
    kinds.into_iter().find_map(|(prefix, kind)| Some((name.strip_prefix(prefix)?, kind)))
}

/// A method's name without the interface in front.
fn last_of(raw: &str) -> &str {
    raw.rfind('.').filter(|at| *at > 0).map_or(raw, |at| &raw[at + 1..])
}

fn is_of_indexer(accessor: Method<'_>) -> bool {
    let is_setter = last_of(accessor.name().unwrap_or_default()).starts_with("set_");
    let count = accessor.signature().map_or(0, |signature| signature.parameters.len());
    count > usize::from(is_setter)
}

/// `Widget.` and ` +(Widget, Widget)` of `Widget.operator +(Widget, Widget)`.
fn split_operator(text: &str) -> Option<(&str, &str)> {
    const WORD: &str = "operator";
    let at = text.find(WORD)?;
    let (before, after) = (&text[..at], &text[at + WORD.len()..]);
    let is_word = (before.is_empty() || before.ends_with(['.', ' ']))
        && !after.is_empty()
        && !after.starts_with(|letter: char| letter.is_alphanumeric() || "_.(".contains(letter));
    is_word.then_some((before, after))
}

/// The name and the parameters, which follow in brackets.
fn split_parameters(text: &str) -> (&str, Option<&str>) {
    let mut depth = 0u32;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            // Others are of a tuple between angle brackets.
            '(' if depth == 0 => return (text[..at].trim(), Some(inside(&text[at + 1..]))),
            _ => {}
        }
    }
    (text.trim(), None)
}

fn inside(rest: &str) -> &str {
    rest.trim_end().strip_suffix(')').unwrap_or(rest)
}

/// What compilers call the operators of C#.
fn operator_names(symbol: &str) -> Option<&'static [&'static str]> {
    Some(match symbol {
        "+" => &["op_Addition", "op_UnaryPlus"],
        "-" => &["op_Subtraction", "op_UnaryNegation"],
        "*" => &["op_Multiply"],
        "/" => &["op_Division"],
        "%" => &["op_Modulus"],
        "&" => &["op_BitwiseAnd"],
        "|" => &["op_BitwiseOr"],
        "^" => &["op_ExclusiveOr"],
        "<<" => &["op_LeftShift"],
        ">>" => &["op_RightShift"],
        ">>>" => &["op_UnsignedRightShift"],
        "==" => &["op_Equality"],
        "!=" => &["op_Inequality"],
        "<" => &["op_LessThan"],
        ">" => &["op_GreaterThan"],
        "<=" => &["op_LessThanOrEqual"],
        ">=" => &["op_GreaterThanOrEqual"],
        "!" => &["op_LogicalNot"],
        "~" => &["op_OnesComplement"],
        "++" => &["op_Increment"],
        "--" => &["op_Decrement"],
        "true" => &["op_True"],
        "false" => &["op_False"],
        _ => return None,
    })
}

/// Whether a method takes these types; of the setter of an indexer, all but the value.
fn has_parameters(method: Method<'_>, wanted: &str) -> bool {
    let Ok(signature) = method.signature() else { return false };
    let is_setter = last_of(method.name().unwrap_or_default()).starts_with("set_");
    let count = signature.parameters.len();
    let spelled = |spelling, count: usize| {
        let types = signature.parameters[..count].iter().map(|of| of.spell(&method, spelling));
        without_blanks(&types.collect::<Vec<_>>().join(","))
    };
    [Spelling::Short, Spelling::Qualified].into_iter().any(|spelling| {
        spelled(spelling, count) == wanted || is_setter && count > 1 && spelled(spelling, count - 1) == wanted
    })
}

fn result_of(method: Method<'_>) -> String {
    let spell = |signature: crate::image::MethodSig| signature.returns.spell(&method, Spelling::Short);
    without_blanks(&method.signature().map(spell).unwrap_or_default())
}

/// Types without blanks, those of the framework that have keywords by these: `int` for `Int32` and for `System.Int32`.
pub(super) fn with_keywords(types: &str) -> String {
    let mut spelled = String::new();
    let is_of_name = |letter: char| letter.is_alphanumeric() || "_.".contains(letter);
    let mut rest = without_blanks(types);
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
        let name = &rest[..end];
        let full = format!("System.{}", name.strip_prefix("System.").unwrap_or(name));
        match Primitive::from_full_name(&full) {
            Some(primitive) => spelled.push_str(primitive.csharp()),
            None => spelled.push_str(name),
        }
        let next = rest[end..].chars().next();
        spelled.extend(next);
        rest = rest.split_off(end + next.map_or(0, char::len_utf8));
    }
    spelled
}

pub(super) fn without_blanks(text: &str) -> String {
    text.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> FunctionPattern {
        FunctionPattern::read(text).unwrap()
    }

    fn names(text: &str) -> Vec<(String, Option<usize>)> {
        split(text).into_iter().map(|part| (part.name, part.arity)).collect()
    }

    #[test]
    fn names_are_split_at_their_dots() {
        let part = |name: &str, arity| (name.to_owned(), arity);
        assert_eq!(
            names("Ns.Box<List<int>, U>.Get<T>"),
            [part("Ns", None), part("Box", Some(2)), part("Get", Some(1))]
        );
        assert_eq!(names("Pair`2+Inner"), [part("Pair", Some(2)), part("Inner", None)]);
        assert_eq!(names("Widget..ctor"), [part("Widget", None), part(".ctor", None)]);
        assert_eq!(names(".ctor"), [part(".ctor", None)]);
        assert_eq!(names("Program.<Main>$"), [part("Program", None), part("<Main>$", None)]);
        assert_eq!(names("P.<<Main>$>g__F|0_0"), [part("P", None), part("<<Main>$>g__F|0_0", None)]);
    }

    #[test]
    fn parameters_choose_among_overloads() {
        let pattern = read(" Program.Add(System.Int32, String[]) ");
        assert_eq!((pattern.parts.len(), pattern.parameters.as_deref()), (2, Some("int,string[]")));
        assert!(pattern.is_qualified());
        assert_eq!(read("Widget.this[int]").parameters.as_deref(), Some("int"));
        assert_eq!(read("Widget.this[]").parameters, None);
        assert!(FunctionPattern::read("/[/").is_err());
        assert!(FunctionPattern::read("").is_err());
    }

    #[test]
    fn operators_are_called_as_in_csharp() {
        for (text, expected, parts, parameters) in [
            ("Widget.operator +", "op_Addition", 1, None),
            ("Ns.Widget.operator<(Widget, int)", "op_LessThan", 2, Some("Widget,int")),
            ("operator ==", "op_Equality", 0, None),
            ("Widget.explicit operator int", "op_Explicit", 1, None),
        ] {
            let pattern = read(text);
            let Last::Operator { names, .. } = &pattern.last else { panic!("{text}") };
            assert_eq!((names[0], pattern.parts.len()), (expected, parts), "{text}");
            assert_eq!(pattern.parameters.as_deref(), parameters, "{text}");
        }
        assert!(matches!(read("Widget.operatorName").last, Last::Name));
        assert!(FunctionPattern::read("Widget.operator @").is_err());
    }

    #[test]
    fn similar_names_are_told_from_others() {
        let pattern = read("Widgett.Resize");
        assert!(
            pattern.likeness("Ns.Widget.Resize").unwrap() > pattern.likeness("Ns.Gadget.Resize").unwrap()
        );
        assert_eq!(pattern.likeness("Ns.Widget.Paint"), None);
    }
}
