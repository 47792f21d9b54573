//! References to characters and entities, and what attribute values become.

use super::{
    Problem, Reader,
    cursor::{Cursor, is_character},
    doctype::{Entity, expect},
};

/// What a reference stands for.
pub(super) enum Reference<'t> {
    Character(char),
    Entity(&'t str),
}

/// Reads a reference that begins at `&`.
pub(super) fn reference<'t>(cursor: &mut Cursor<'t>) -> Result<Reference<'t>, Problem> {
    let begin = cursor.clone();
    cursor.at += 1;
    if cursor.take("#") {
        let is_hexadecimal = cursor.take("x");
        let digits = cursor.until(";").unwrap_or_default();
        let valid = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u32::from_str_radix(digits, if is_hexadecimal { 16 } else { 10 });
        return number
            .ok()
            .filter(|_| valid)
            .and_then(char::from_u32)
            .filter(|character| is_character(*character))
            .map(Reference::Character)
            .ok_or_else(|| Problem::at(&begin, "this reference names no character"));
    }
    let name = cursor.name();
    if name.is_empty() {
        return Err(Problem::at(&begin, "`&` begins no reference; write `&amp;`"));
    }
    expect(cursor, ";")?;
    Ok(match name {
        "amp" => Reference::Character('&'),
        "lt" => Reference::Character('<'),
        "gt" => Reference::Character('>'),
        "quot" => Reference::Character('"'),
        "apos" => Reference::Character('\''),
        _ => Reference::Entity(name),
    })
}

/// The value of an entity as declared: characters are put in, entities stay for later.
pub(super) fn literal_value(literal: &str, begin: &Cursor<'_>) -> Result<String, Problem> {
    let mut value = String::with_capacity(literal.len());
    let mut cursor = Cursor::entity(literal, begin.source_of(begin.at));
    while let Some(length) = memchr::memchr(b'&', cursor.rest()) {
        value.push_str(&literal[cursor.at..cursor.at + length]);
        cursor.at += length;
        let start = cursor.at;
        match reference(&mut cursor)? {
            Reference::Character(character) if literal[start..].starts_with("&#") => value.push(character),
            _ => value.push_str(&literal[start..cursor.at]),
        }
    }
    value.push_str(&literal[cursor.at..]);
    Ok(value)
}

/// Entities may name each other so deep.
const ENTITY_DEPTH: usize = 24;

impl Reader<'_> {
    /// The text of an entity, counted against what a document may make of entities.
    pub(super) fn entity_text(&mut self, name: &str, at: &Cursor<'_>) -> Result<std::rc::Rc<str>, Problem> {
        let text = match self.doctype.entities.get(name) {
            Some(Entity::Internal(text)) => text.clone(),
            Some(Entity::External) => {
                return Err(Problem::at(
                    at,
                    format!("the entity `&{name};` stands outside the document and is not read"),
                ));
            }
            Some(Entity::Unparsed) => {
                return Err(Problem::at(at, format!("the entity `&{name};` is not XML")));
            }
            None => return Err(Problem::at(at, format!("the entity `&{name};` is not declared"))),
        };
        self.expanded += text.len().max(1);
        if self.expanded > self.limits.entity_bytes {
            let limit = self.limits.entity_bytes;
            return Err(Problem::limit(at, format!("entities expand to more than {limit} bytes")));
        }
        if self.entity_depth >= ENTITY_DEPTH {
            return Err(Problem::limit(
                at,
                format!("the entity `&{name};` contains itself, or others too deep"),
            ));
        }
        Ok(text)
    }

    /// Puts the value of an attribute into the made text: references resolved, white space made spaces.
    pub(super) fn make_value(&mut self, value: &str, origin: u32) -> Result<(), Problem> {
        let mut cursor = Cursor::entity(value, origin);
        while let Some(byte) = cursor.peek() {
            match byte {
                b'&' => match reference(&mut cursor)? {
                    Reference::Character(character) => self.made.push(character),
                    Reference::Entity(name) => {
                        let text = self.entity_text(name, &cursor)?;
                        if text.contains('<') {
                            return Err(Problem::at(
                                &cursor,
                                format!("the entity `&{name};` puts `<` into an attribute"),
                            ));
                        }
                        self.entity_depth += 1;
                        self.make_value(&text, origin)?;
                        self.entity_depth -= 1;
                    }
                },
                b'\t' | b'\n' | b'\r' => {
                    self.made.push(' ');
                    cursor.at += 1;
                }
                _ => {
                    let plain = |byte: &u8| !matches!(byte, b'&' | b'\t' | b'\n' | b'\r');
                    let length = cursor.rest().iter().take_while(|byte| plain(byte)).count();
                    self.made.push_str(&value[cursor.at..cursor.at + length]);
                    cursor.at += length;
                }
            }
        }
        Ok(())
    }
}
