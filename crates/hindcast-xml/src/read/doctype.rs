//! The document type declaration: entities and the defaults of attributes. Nothing outside the document is read.

use std::{collections::HashMap, rc::Rc};

use super::{Problem, cursor::Cursor, references::literal_value};

/// What a general entity stands for.
#[derive(Debug, Clone)]
pub(super) enum Entity {
    /// Text of the document itself.
    Internal(Rc<str>),
    /// Something elsewhere, which is never read.
    External,
    /// Not XML at all; only attributes may name it.
    Unparsed,
}

/// What the document type says of an attribute.
#[derive(Debug, Clone)]
pub(super) struct AttributeRule {
    pub(super) name: Rc<str>,
    /// White space is collapsed, unless it is character data.
    pub(super) is_tokens: bool,
    pub(super) is_identifier: bool,
    pub(super) default: Option<Rc<str>>,
}

/// What the internal subset declares.
#[derive(Debug, Default)]
pub(super) struct Doctype {
    pub(super) entities: HashMap<Box<str>, Entity>,
    pub(super) attributes: HashMap<Box<str>, Vec<AttributeRule>>,
    parameters: HashMap<Box<str>, Option<Rc<str>>>,
    declared: usize,
    expanded: usize,
}

/// Declarations may nest parameter entities so deep.
const PARAMETER_DEPTH: usize = 8;

/// Bytes of parameter entities that are expanded in all.
const PARAMETER_BYTES: usize = 1 << 20;

/// Attributes that may be declared for one element: each of them may be given to each such element.
const RULES: usize = 256;

/// Entities and attributes that may be declared in all.
const DECLARED: usize = 100_000;

impl Doctype {
    /// Reads what follows `<!DOCTYPE`.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        cursor.skip_space();
        if cursor.name().is_empty() {
            return Err(Problem::at(cursor, "the document type has no name"));
        }
        cursor.skip_space();
        external_identifier(cursor)?;
        cursor.skip_space();
        if cursor.take("[") {
            self.declarations(cursor, 0)?;
            if !cursor.take("]") {
                return Err(Problem::at(cursor, "the document type is not closed by `]`"));
            }
            cursor.skip_space();
        }
        expect(cursor, ">")
    }

    fn declarations(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Problem> {
        loop {
            cursor.skip_space();
            let begin = cursor.clone();
            let closed = if cursor.is_at_end() || cursor.peek() == Some(b']') {
                return Ok(());
            } else if cursor.take("%") {
                self.parameter_reference(cursor, depth)?;
                true
            } else if cursor.take("<!--") {
                cursor.until("-->").is_some()
            } else if cursor.take("<?") {
                cursor.until("?>").is_some()
            } else if cursor.take("<!ENTITY") {
                self.entity(cursor)?;
                true
            } else if cursor.take("<!ATTLIST") {
                self.attribute_list(cursor)?;
                true
            } else if cursor.take("<!ELEMENT") || cursor.take("<!NOTATION") {
                skip_declaration(cursor)?;
                true
            } else {
                return Err(Problem::at(cursor, "no declaration begins here"));
            };
            if !closed {
                return Err(Problem::at(&begin, "this is never closed"));
            }
        }
    }

    fn parameter_reference(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), Problem> {
        let name = cursor.name();
        expect(cursor, ";")?;
        let Some(known) = self.parameters.get(name).cloned() else {
            return Err(Problem::at(cursor, format!("the parameter entity `%{name};` is not declared")));
        };
        // What stands elsewhere is not read; its declarations are as if they were not there.
        let Some(text) = known else { return Ok(()) };
        self.expanded += text.len();
        if depth >= PARAMETER_DEPTH || self.expanded > PARAMETER_BYTES {
            return Err(Problem::limit(cursor, "parameter entities expand too far"));
        }
        let mut inside = Cursor::entity(&text, cursor.source_of(cursor.at));
        self.declarations(&mut inside, depth + 1)?;
        if inside.is_at_end() { Ok(()) } else { Err(Problem::at(&inside, "`]` in a parameter entity")) }
    }

    fn entity(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        required_space(cursor)?;
        let is_parameter = cursor.take("%");
        if is_parameter {
            required_space(cursor)?;
        }
        let name = cursor.name();
        if name.is_empty() {
            return Err(Problem::at(cursor, "the entity has no name"));
        }
        required_space(cursor)?;
        let begin = cursor.clone();
        let mut entity = Entity::External;
        if !external_identifier(cursor)? {
            let literal = cursor.literal().ok_or_else(|| Problem::at(cursor, "the entity has no value"))?;
            if literal.contains('%') {
                return Err(Problem::at(&begin, "parameter entities may not stand in a declaration here"));
            }
            entity = Entity::Internal(literal_value(literal, &begin)?.into());
        } else if cursor.skip_space() && cursor.take("NDATA") {
            required_space(cursor)?;
            cursor.name();
            entity = Entity::Unparsed;
        }
        cursor.skip_space();
        expect(cursor, ">")?;
        self.count(cursor)?;
        // The first declaration of a name binds.
        if is_parameter {
            let text = if let Entity::Internal(text) = entity { Some(text) } else { None };
            self.parameters.entry(name.into()).or_insert(text);
        } else {
            self.entities.entry(name.into()).or_insert(entity);
        }
        Ok(())
    }

    /// Counts a declaration.
    fn count(&mut self, cursor: &Cursor<'_>) -> Result<(), Problem> {
        self.declared += 1;
        if self.declared > DECLARED {
            return Err(Problem::limit(
                cursor,
                format!("more than {DECLARED} entities and attributes are declared"),
            ));
        }
        Ok(())
    }

    fn attribute_list(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        required_space(cursor)?;
        let element: Box<str> = cursor.name().into();
        loop {
            cursor.skip_space();
            if cursor.take(">") {
                return Ok(());
            }
            let name: Rc<str> = cursor.name().into();
            if name.is_empty() {
                return Err(Problem::at(cursor, "the attribute list has no name here"));
            }
            required_space(cursor)?;
            let kind = attribute_type(cursor)?;
            required_space(cursor)?;
            let default = attribute_default(cursor)?;
            self.count(cursor)?;
            let rules = self.attributes.entry(element.clone()).or_default();
            if rules.len() >= RULES {
                return Err(Problem::limit(
                    cursor,
                    format!("`<{element}>` has more than {RULES} attributes declared"),
                ));
            }
            if rules.iter().all(|rule| rule.name != name) {
                let (is_tokens, is_identifier) = (kind != "CDATA", kind == "ID");
                rules.push(AttributeRule { name, is_tokens, is_identifier, default });
            }
        }
    }
}

/// `CDATA`, `ID`, …; an enumeration is given as `(`.
fn attribute_type<'t>(cursor: &mut Cursor<'t>) -> Result<&'t str, Problem> {
    let kind = cursor.name();
    if kind.is_empty() || kind == "NOTATION" {
        cursor.skip_space();
        expect(cursor, "(")?;
        cursor.until(")").ok_or_else(|| Problem::at(cursor, "the enumeration is not closed"))?;
        return Ok("(");
    }
    Ok(kind)
}

fn attribute_default(cursor: &mut Cursor<'_>) -> Result<Option<Rc<str>>, Problem> {
    if cursor.take("#REQUIRED") || cursor.take("#IMPLIED") {
        return Ok(None);
    }
    if cursor.take("#FIXED") {
        required_space(cursor)?;
    }
    let literal = cursor.literal().ok_or_else(|| Problem::at(cursor, "the attribute has no default"))?;
    if literal.contains('<') {
        return Err(Problem::at(cursor, "`<` in the default of an attribute"));
    }
    Ok(Some(literal.into()))
}

/// `SYSTEM "…"` or `PUBLIC "…" "…"`; says whether there was one.
fn external_identifier(cursor: &mut Cursor<'_>) -> Result<bool, Problem> {
    let literals = if cursor.take("SYSTEM") {
        1
    } else if cursor.take("PUBLIC") {
        2
    } else {
        return Ok(false);
    };
    for _ in 0..literals {
        required_space(cursor)?;
        cursor.literal().ok_or_else(|| Problem::at(cursor, "a quoted identifier is missing"))?;
    }
    Ok(true)
}

fn skip_declaration(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    loop {
        match cursor.peek() {
            Some(b'>') => {
                cursor.at += 1;
                return Ok(());
            }
            Some(b'"' | b'\'') => {
                cursor.literal().ok_or_else(|| Problem::at(cursor, "the quote is not closed"))?;
            }
            Some(b'<') | None => return Err(Problem::at(cursor, "the declaration is not closed by `>`")),
            Some(_) => cursor.at += 1,
        }
    }
}

pub(super) fn required_space(cursor: &mut Cursor<'_>) -> Result<(), Problem> {
    if cursor.skip_space() { Ok(()) } else { Err(Problem::at(cursor, "white space is missing")) }
}

pub(super) fn expect(cursor: &mut Cursor<'_>, expected: &str) -> Result<(), Problem> {
    if cursor.take(expected) { Ok(()) } else { Err(Problem::at(cursor, format!("`{expected}` is missing"))) }
}
