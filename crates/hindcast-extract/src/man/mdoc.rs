//! The macros of `mdoc`, which may stand within a line.

use super::Page;

/// Macros whose text is what follows them.
const PLAIN: &[&str] = &[
    "Ad", "Cd", "Cm", "Dv", "Em", "Er", "Ev", "Fd", "Ft", "Hf", "Ic", "Li", "Lk", "Ms", "Mt", "No", "Ot",
    "Ql", "Sx", "Sy", "Tn", "Va", "Vt", "Xo", "Xc", "Ta", "Eo", "Ec", "Bt", "Ud",
];

/// Macros with a meaning of their own.
const OWN: &[&str] = &[
    "An", "Ap", "Ar", "At", "Bx", "Dx", "Ex", "Fa", "Fc", "Fl", "Fn", "Fo", "Fx", "In", "Lb", "Nd", "Nm",
    "Ns", "Nx", "Ox", "Pa", "Pf", "Rv", "St", "Ux", "Xr",
];

/// Signs around the rest of a line: the macro, the one that begins, the one that ends, and the signs.
const AROUND: &[(&str, &str, &str, &str, &str)] = &[
    ("Aq", "Ao", "Ac", "<", ">"),
    ("Bq", "Bo", "Bc", "[", "]"),
    ("Brq", "Bro", "Brc", "{", "}"),
    ("Dq", "Do", "Dc", "\"", "\""),
    ("Op", "Oo", "Oc", "[", "]"),
    ("Pq", "Po", "Pc", "(", ")"),
    ("Qq", "Qo", "Qc", "\"", "\""),
    ("Sq", "So", "Sc", "'", "'"),
];

/// Systems by their macros.
const SYSTEMS: &[(&str, &str)] = &[
    ("At", "AT&T UNIX"),
    ("Dx", "DragonFly"),
    ("Fx", "FreeBSD"),
    ("Nx", "NetBSD"),
    ("Ox", "OpenBSD"),
    ("Ux", "UNIX"),
];

pub(super) fn is_macro(word: &str) -> bool {
    PLAIN.contains(&word)
        || OWN.contains(&word)
        || AROUND.iter().any(|(whole, begin, end, ..)| [*whole, *begin, *end].contains(&word))
}

fn is_closing(word: &str) -> bool {
    matches!(word, "." | "," | ":" | ";" | ")" | "]" | "?" | "!")
}

/// Words that are set together.
#[derive(Default)]
struct Phrase {
    text: String,
    begins_tight: bool,
    /// The next word is not set apart.
    is_tight: bool,
}

impl Phrase {
    fn word(&mut self, word: &str) {
        if is_closing(word) {
            return self.close(word);
        }
        if !self.is_tight && !self.text.is_empty() {
            self.text.push(' ');
        }
        self.text.push_str(word);
        self.is_tight = matches!(word, "(" | "[");
    }

    fn open(&mut self, sign: &str) {
        self.word(sign);
        self.is_tight = true;
    }

    fn close(&mut self, sign: &str) {
        self.begins_tight |= self.text.is_empty();
        self.text.push_str(sign);
        self.is_tight = false;
    }
}

impl Page {
    /// A line, whose first word may be a macro.
    pub(super) fn mdoc(&mut self, line: &str) {
        let words = self.escapes.arguments(line);
        let mut phrase = Phrase::default();
        let mut closing = Vec::new();
        let mut at = 0;
        // What ends the sentence stands behind the signs around it.
        let behind = words.iter().rev().take_while(|word| is_closing(word)).count();
        let end = words.len() - behind;
        while at < end {
            let word = words[at].as_str();
            at += 1;
            // Its arguments go up to the next macro.
            let stop = words[at..end].iter().position(|word| is_macro(word)).map_or(end, |found| at + found);
            if let Some((.., open, close)) = AROUND.iter().find(|(whole, ..)| *whole == word) {
                phrase.open(open);
                closing.push(*close);
            } else if let Some((.., open, _)) = AROUND.iter().find(|(_, begin, ..)| *begin == word) {
                phrase.open(open);
            } else if let Some((.., close)) = AROUND.iter().find(|(_, _, end, ..)| *end == word) {
                phrase.close(close);
            } else if OWN.contains(&word) {
                at += self.own(word, &words[at..stop], stop < end, &mut phrase);
            } else if !PLAIN.contains(&word) {
                phrase.word(word);
            }
        }
        for close in closing.into_iter().rev() {
            phrase.close(close);
        }
        for word in &words[end..] {
            phrase.close(word);
        }
        if phrase.text.is_empty() && !phrase.is_tight {
            return;
        }
        match (phrase.begins_tight, self.heading.is_some()) {
            (true, false) => self.add(&phrase.text, true),
            _ => self.said(&phrase.text),
        }
        self.is_tight = phrase.is_tight;
    }

    /// Writes a macro with a meaning of its own; tells how many of its arguments it used.
    fn own(&mut self, name: &str, arguments: &[String], is_followed: bool, phrase: &mut Phrase) -> usize {
        let first = arguments.first().map(String::as_str).filter(|word| !is_closing(word));
        let used = usize::from(first.is_some());
        let said = arguments.iter().take_while(|word| !is_closing(word)).count();
        match name {
            "Nm" => match first {
                Some(name) => {
                    if self.name.is_empty() {
                        name.clone_into(&mut self.name);
                    }
                    phrase.word(name);
                }
                None => phrase.word(&self.name),
            },
            "Nd" => {
                phrase.word("—");
                return 0;
            }
            "Fl" if first.is_none() => {
                phrase.word("-");
                phrase.is_tight = is_followed;
            }
            "Fl" => {
                for word in arguments {
                    match is_closing(word) || word == "|" {
                        true => phrase.word(word),
                        false => phrase.word(&format!("-{word}")),
                    }
                }
                return arguments.len();
            }
            "Ar" if first.is_none() => phrase.word("file ..."),
            "Pa" if first.is_none() => phrase.word("~"),
            "An" if first.is_some_and(|word| matches!(word, "-split" | "-nosplit")) => {}
            "Ar" | "Pa" | "An" => return 0,
            "Ap" => {
                phrase.close("'");
                phrase.is_tight = true;
                return 0;
            }
            "Ns" => {
                phrase.begins_tight |= phrase.text.is_empty();
                phrase.is_tight = true;
                return 0;
            }
            "Pf" => phrase.open(first.unwrap_or_default()),
            "In" => phrase.word(&format!("<{}>", first.unwrap_or_default())),
            "Lb" => phrase.word(&format!("library \"{}\"", first.unwrap_or_default())),
            "St" => phrase.word(first.unwrap_or_default().trim_start_matches('-')),
            "Bx" => phrase.word(&format!("{}BSD", first.unwrap_or_default())),
            "Xr" => {
                let section = arguments
                    .get(1)
                    .filter(|section| section.starts_with(|char: char| char.is_ascii_digit()));
                let shown = section.map(|section| format!("({section})")).unwrap_or_default();
                phrase.word(&format!("{}{shown}", first.unwrap_or_default()));
                return used + usize::from(section.is_some());
            }
            "Fn" => {
                let arguments = &arguments[..said];
                let parameters = arguments.get(1..).unwrap_or_default().join(", ");
                phrase.word(&format!("{}({parameters})", first.unwrap_or_default()));
                return said;
            }
            "Fo" => {
                phrase.open(&format!("{}(", first.unwrap_or_default()));
                self.function = Some(0);
            }
            "Fa" => {
                let mut before = self.function.unwrap_or_default();
                for argument in &arguments[..said] {
                    if before > 0 {
                        phrase.close(",");
                    }
                    phrase.word(argument);
                    before += 1;
                }
                self.function = self.function.map(|_| before);
                return said;
            }
            "Fc" => {
                phrase.close(")");
                self.function = None;
                return 0;
            }
            "Ex" | "Rv" => {
                let names: Vec<_> = arguments[..said].iter().skip(1).cloned().collect();
                phrase.word(&self.standard(name, &names));
                return said;
            }
            system => {
                let name = SYSTEMS.iter().find(|(known, _)| *known == system).map_or("", |(_, name)| name);
                phrase.word(name);
                return 0;
            }
        }
        used
    }

    /// What many pages say in the same words.
    fn standard(&self, name: &str, names: &[String]) -> String {
        let named = if names.is_empty() { self.name.clone() } else { names.join(", ") };
        match name {
            "Ex" => format!("The {named} utility exits 0 on success, and >0 if an error occurs."),
            _ => format!(
                "The {named}() function returns the value 0 if successful; otherwise the value -1 is returned and the global \
                 variable errno is set to indicate the error."
            ),
        }
    }
}
