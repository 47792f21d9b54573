//! A place in text that is being read, and the lexical rules of XML.

/// What kind a byte is; the rest of the rules concern only characters beyond ASCII.
const NAME_START: u8 = 1;
const NAME: u8 = 2;
const CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'A'..=b'Z' | b'a'..=b'z' | b'_' | b':' => NAME_START | NAME,
            b'0'..=b'9' | b'-' | b'.' => NAME,
            _ => 0,
        };
        byte += 1;
    }
    classes
}

/// Text that is read from front to back.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    /// In an entity: the place of the reference in the source.
    pub(super) origin: Option<u32>,
}

impl<'t> Cursor<'t> {
    pub(super) fn source(text: &'t str) -> Self {
        Self { text, at: 0, origin: None }
    }

    pub(super) fn entity(text: &'t str, origin: u32) -> Self {
        Self { text, at: 0, origin: Some(origin) }
    }

    /// Where in the source `at` is.
    pub(super) fn source_of(&self, at: usize) -> u32 {
        self.origin.unwrap_or(at as u32)
    }

    pub(super) fn bytes(&self) -> &'t [u8] {
        self.text.as_bytes()
    }

    pub(super) fn rest(&self) -> &'t [u8] {
        &self.bytes()[self.at..]
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes().get(self.at).copied()
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Passes `expected` if it comes next.
    pub(super) fn take(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected.as_bytes());
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Passes white space; says whether there was any.
    pub(super) fn skip_space(&mut self) -> bool {
        let start = self.at;
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
        self.at > start
    }

    /// Passes a name; empty when none begins here.
    pub(super) fn name(&mut self) -> &'t str {
        let start = self.at;
        let bytes = self.bytes();
        let mut wanted = NAME_START;
        while let Some(byte) = bytes.get(self.at) {
            if CLASSES[usize::from(*byte)] & wanted != 0 {
                self.at += 1;
            } else if *byte >= 0x80 {
                let Some(character) = self.text[self.at..].chars().next() else { break };
                if !is_name_character(character, wanted == NAME_START) {
                    break;
                }
                self.at += character.len_utf8();
            } else {
                break;
            }
            wanted = NAME;
        }
        &self.text[start..self.at]
    }

    /// Passes everything up to and including `end`, and gives what stands before it.
    pub(super) fn until(&mut self, end: &str) -> Option<&'t str> {
        let length = memchr::memmem::find(self.rest(), end.as_bytes())?;
        let found = &self.text[self.at..self.at + length];
        self.at += length + end.len();
        Some(found)
    }

    /// Passes a quoted literal.
    pub(super) fn literal(&mut self) -> Option<&'t str> {
        let quote = self.peek().filter(|byte| matches!(byte, b'"' | b'\''))?;
        self.at += 1;
        self.until(if quote == b'"' { "\"" } else { "'" })
    }
}

/// XML 1.0 (fifth edition), productions 4 and 4a, beyond ASCII.
fn is_name_character(character: char, first: bool) -> bool {
    matches!(character,
        '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}'
        | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}'
        | '\u{FDF0}'..='\u{FFFD}' | '\u{10000}'..='\u{EFFFF}')
        || (!first && matches!(character, '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}'))
}

/// XML 1.0, production 2.
pub(super) fn is_character(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

/// The first character of a text that no document may contain.
pub(super) fn forbidden_character(text: &str) -> Option<usize> {
    let forbidden = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r');
    // Whole blocks first: this loop is the one that goes over every byte of every document.
    for (number, block) in text.as_bytes().chunks(4096).enumerate() {
        if block.iter().fold(false, |found, byte| found | forbidden(byte)) {
            return block.iter().position(forbidden).map(|at| number * 4096 + at);
        }
    }
    [b"\xEF\xBF\xBE", b"\xEF\xBF\xBF"]
        .iter()
        .filter_map(|noncharacter| memchr::memmem::find(text.as_bytes(), *noncharacter))
        .min()
}

/// A name is `local` or `prefix:local`.
pub(super) fn split_name(name: &str) -> Option<(&str, &str)> {
    match memchr::memchr(b':', name.as_bytes()) {
        None => Some(("", name)),
        Some(at) => {
            let (prefix, local) = (&name[..at], &name[at + 1..]);
            let first = local.chars().next()?;
            let starts = first.is_ascii_alphabetic() || first == '_' || is_name_character(first, true);
            (!prefix.is_empty() && starts && !local.contains(':')).then_some((prefix, local))
        }
    }
}
