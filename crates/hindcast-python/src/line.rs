//! A value on one line, as Python writes it.

use std::fmt::Write as _;

use crate::{
    Reader,
    kind::Kind,
    reader::{ReadError, TypeInfo},
    text::{complex, float, quoted, quoted_bytes},
};

/// How much of a value is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LineLimits {
    /// How many levels of parts.
    pub(crate) depth: u32,
    /// How many parts of each.
    pub(crate) parts: u64,
    /// How many characters of a text.
    pub(crate) text: u64,
}

/// Beyond so many characters no further part is begun.
const LONGEST_LINE: usize = 240;

/// Writes values on one line.
struct Line<'r, 'm> {
    reader: &'r Reader<'m>,
    limits: LineLimits,
    out: String,
    /// The containers that are being written: one that contains itself is not written again.
    open: Vec<u64>,
}

impl Reader<'_> {
    /// An object on one line. What cannot be read is named where it would stand.
    pub(crate) fn line(&self, object: u64, limits: LineLimits) -> String {
        /// What is inside of what is written on one line can itself be written on a line.
        const DEEPEST: u32 = 16;
        let nesting = self.nesting.get();
        if nesting == DEEPEST {
            return "...".into();
        }
        self.nesting.set(nesting + 1);
        let mut line = Line { reader: self, limits, out: String::new(), open: Vec::new() };
        line.object(object);
        self.nesting.set(nesting);
        line.out
    }

    /// A type's name as Python tells it: with its module where that is not the language's own.
    pub(crate) fn full_name(&self, info: &TypeInfo) -> String {
        match self.module_of(info) {
            // Some of those made in C have it in their name.
            Ok(Some(module)) if module != "builtins" && !info.name.starts_with(&format!("{module}.")) => {
                format!("{module}.{}", info.name)
            }
            _ => info.name.clone(),
        }
    }

    fn module_of(&self, info: &TypeInfo) -> Result<Option<String>, ReadError> {
        if !info.is_heap_type() || info.dict == 0 {
            return Ok(None);
        }
        match self.entry_named(info.dict, "__module__")? {
            Some(entry) if self.type_of(entry.value)?.kind == Kind::Str => self.name(entry.value).map(Some),
            _ => Ok(None),
        }
    }
}

impl Line<'_, '_> {
    fn object(&mut self, object: u64) {
        if let Err(error) = self.write(object) {
            let _ = match error {
                ReadError::Unreadable(_) => write!(self.out, "<unreadable>"),
                ReadError::Damaged { .. } => write!(self.out, "<damaged>"),
            };
        }
    }

    fn write(&mut self, object: u64) -> Result<(), ReadError> {
        let info = self.reader.type_of(object)?;
        if info.kind.is_plain() {
            return self.plain(object, &info);
        }
        const DEEPEST: usize = 64;
        if self.open.len() == DEEPEST || self.open.contains(&object) {
            self.out.push_str("...");
            return Ok(());
        }
        self.open.push(object);
        let written = self.compound(object, &info);
        self.open.pop();
        written
    }

    fn plain(&mut self, object: u64, info: &TypeInfo) -> Result<(), ReadError> {
        let reader = self.reader;
        let text = match info.kind {
            Kind::None => "None".into(),
            Kind::Ellipsis => "Ellipsis".into(),
            Kind::NotImplemented => "NotImplemented".into(),
            Kind::Bool => if reader.int(object)? == 0.into() { "False" } else { "True" }.into(),
            Kind::Int => self.int(object, info)?,
            Kind::Float => float(reader.float(object)?),
            Kind::Complex => {
                let (real, imaginary) = (reader.float(object)?, f64::from_bits(reader.word(object + 24)?));
                complex(real, imaginary)
            }
            Kind::Str => {
                let text = reader.text(object, self.limits.text)?;
                let mark = if text.is_cut { format!("… {} in all", text.length) } else { String::new() };
                quoted(&text.text) + &mark
            }
            Kind::Bytes | Kind::ByteArray => {
                let (size, limit) = (reader.size(object)?, self.limits.text);
                let bytes = match info.kind {
                    Kind::Bytes => reader.byte_string(object, limit)?,
                    _ => reader.byte_array(object, limit)?,
                };
                let mark = if size > limit { format!("… {size} in all") } else { String::new() };
                match info.kind {
                    Kind::Bytes => format!("b{}{mark}", quoted_bytes(&bytes)),
                    _ => format!("bytearray(b{}{mark})", quoted_bytes(&bytes)),
                }
            }
            Kind::Range | Kind::Slice => {
                let ends = reader.words(object + 16, 3)?;
                let is_short = info.kind == Kind::Range && reader.line(ends[2], self.limits) == "1";
                let ends = &ends[..if is_short { 2 } else { 3 }];
                let ends: Vec<_> = ends.iter().map(|&end| reader.line(end, self.limits)).collect();
                format!("{}({})", info.name, ends.join(", "))
            }
            Kind::Function => format!("<function {}>", reader.name(reader.word(object + 40)?)?),
            Kind::Method => {
                let (function, owner) = (reader.word(object + 16)?, reader.word(object + 24)?);
                let name = match reader.type_of(function)?.kind {
                    Kind::Function => reader.name(reader.word(function + 40)?)?,
                    _ => reader.type_of(function)?.name.clone(),
                };
                format!("<bound method {name} of {}>", reader.type_of(owner)?.name)
            }
            Kind::BuiltinFunction => {
                let name = reader.c_text(reader.word(reader.word(object + 16)?)?)?;
                format!("<built-in function {name}>")
            }
            Kind::Module => {
                let name = reader.entry_named(reader.word(object + 16)?, "__name__")?;
                match name {
                    Some(name) => format!("<module {}>", reader.line(name.value, self.limits)),
                    None => "<module>".into(),
                }
            }
            Kind::Type => format!("<class '{}'>", reader.full_name(&*reader.type_info(object)?)),
            Kind::Code => format!("<code of {}>", reader.code(object)?.name),
            Kind::Generator | Kind::Coroutine | Kind::AsyncGenerator => {
                let suspended = reader.suspended(object)?;
                let place = match suspended.frame.as_ref().and_then(|frame| frame.line()) {
                    Some(line) => format!(" at line {line}"),
                    None => String::new(),
                };
                format!("<{} {}, {}{place}>", info.name, suspended.name, suspended.state)
            }
            // What is derived from them may mean something else, as no time at all.
            Kind::Date | Kind::DateTime | Kind::Time | Kind::TimeDelta
                if matches!(&*info.name, "date" | "datetime" | "time" | "timedelta") =>
            {
                self.calendar(object, info.kind)?
            }
            Kind::Array => self.array(object)?,
            _ => format!("<{}>", reader.full_name(info)),
        };
        self.out.push_str(&text);
        Ok(())
    }

    /// An integer, also one of a class that is derived from it.
    fn int(&self, object: u64, info: &TypeInfo) -> Result<String, ReadError> {
        /// More than can be made sense of.
        const MOST_BITS: u64 = 2048;
        if let Some(member) = self.enumerator(object, info)? {
            return Ok(member);
        }
        let value = self.reader.int(object)?;
        let text = match value.bits() {
            bits if bits > MOST_BITS => format!("<an integer of {bits} bits>"),
            _ => value.to_string(),
        };
        Ok(if info.is_heap_type() { format!("{}({text})", info.name) } else { text })
    }

    /// `<Color.RED: 1>`, where the object is a member of an enumeration.
    fn enumerator(&self, object: u64, info: &TypeInfo) -> Result<Option<String>, ReadError> {
        let meta = self.reader.type_of(info.address)?;
        if !info.is_heap_type() || !matches!(meta.name.as_str(), "EnumType" | "EnumMeta") {
            return Ok(None);
        }
        let attributes = self.reader.attributes(object, 64)?;
        let named = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
        let (Some(name), Some(value)) = (named("_name_"), named("_value_")) else { return Ok(None) };
        if self.reader.type_of(name.value)?.kind != Kind::Str {
            return Ok(None);
        }
        let limits = LineLimits { depth: 0, ..self.limits };
        let value = self.reader.line(value.value, limits);
        Ok(Some(format!("<{}.{}: {value}>", info.name, self.reader.name(name.value)?)))
    }

    fn compound(&mut self, object: u64, info: &TypeInfo) -> Result<(), ReadError> {
        let depth = self.limits.depth;
        // What lies deeper is only named.
        let is_deep = self.open.len() as u32 > depth;
        let most = self.limits.parts;
        let reader = self.reader;
        let own_name = info.is_heap_type().then(|| info.name.clone());
        match info.kind {
            Kind::Cell => match reader.word(object + 16)? {
                0 => self.out.push_str("<empty cell>"),
                inner => self.object(inner),
            },
            Kind::List | Kind::Tuple => {
                let (_, size) = reader.sequence(object, info.kind)?;
                let (open, close) = if info.kind == Kind::List { ("[", "]") } else { ("(", ")") };
                if is_deep && size > 0 {
                    self.abridged(own_name.as_deref().unwrap_or(""), open, size, close);
                    return Ok(());
                }
                let fields = match &own_name {
                    Some(_) if info.kind == Kind::Tuple => self.fields_of_tuple(info)?,
                    _ => Vec::new(),
                };
                let items = reader.items(object, info.kind, 0, most)?;
                self.out.push_str(own_name.as_deref().unwrap_or(""));
                self.out.push_str(open);
                self.parts(size, &items, |line, index, item| {
                    if let Some(field) = fields.get(index) {
                        line.out.push_str(field);
                        line.out.push('=');
                    }
                    line.object(item);
                });
                let is_single = info.kind == Kind::Tuple && size == 1 && own_name.is_none();
                self.out.push_str(if is_single { ",)" } else { close });
            }
            Kind::Set | Kind::FrozenSet => {
                let (items, size) = reader.set(object, if is_deep { 0 } else { most as usize })?;
                let name = own_name.unwrap_or_else(|| info.name.clone());
                if size == 0 {
                    self.out.push_str(&format!("{name}()"));
                    return Ok(());
                }
                let name = if name == "set" { String::new() } else { name };
                if is_deep {
                    self.abridged(&name, "{", size, "}");
                    return Ok(());
                }
                let (open, close) = if name.is_empty() { ("{", "}") } else { ("({", "})") };
                self.out.push_str(&format!("{name}{open}"));
                self.parts(size, &items, |line, _, item| line.object(item));
                self.out.push_str(close);
            }
            Kind::Deque => {
                let (items, size) = reader.deque(object, 0, if is_deep { 0 } else { most })?;
                if is_deep && size > 0 {
                    self.abridged("deque", "(", size, ")");
                    return Ok(());
                }
                let items: Vec<_> = items.into_iter().map(|(_, item)| item).collect();
                const MOST: u64 = 64;
                let most = reader.signed(object + MOST)?;
                self.out.push_str("deque([");
                self.parts(size, &items, |line, _, item| line.object(item));
                let _ = if most < 0 { write!(self.out, "])") } else { write!(self.out, "], maxlen={most})") };
            }
            Kind::MappingProxy => match reader.word(object + 16)? {
                dict if reader.type_of(dict)?.kind == Kind::Dict => {
                    self.out.push_str("mappingproxy(");
                    self.object(dict);
                    self.out.push(')');
                }
                _ => self.out.push_str("<mappingproxy>"),
            },
            Kind::Dict => self.dict(object, own_name.as_deref().unwrap_or(""), is_deep)?,
            Kind::Exception => self.exception(object, info)?,
            _ => self.instance(object, info, is_deep)?,
        }
        Ok(())
    }

    fn abridged(&mut self, name: &str, open: &str, size: u64, close: &str) {
        let _ = write!(self.out, "{name}{open}… {size} in all{close}");
    }

    /// Writes parts with commas between them, and how many there are where not all are written.
    fn parts<T: Copy>(&mut self, size: u64, parts: &[T], mut write: impl FnMut(&mut Self, usize, T)) {
        let mut written = 0;
        for (index, part) in parts.iter().enumerate() {
            if self.out.len() > LONGEST_LINE {
                break;
            }
            if index > 0 {
                self.out.push_str(", ");
            }
            write(self, index, *part);
            written += 1;
        }
        if written < size {
            let _ = write!(self.out, "{}… {size} in all", if written > 0 { ", " } else { "" });
        }
    }

    fn dict(&mut self, object: u64, name: &str, is_deep: bool) -> Result<(), ReadError> {
        let size = self.reader.size(object)?;
        if is_deep && size > 0 {
            self.abridged(name, "{", size, "}");
            return Ok(());
        }
        let entries = self.reader.entries(object, self.limits.parts as usize)?;
        let (open, close) = if name.is_empty() { ("{", "}") } else { ("({", "})") };
        self.out.push_str(name);
        self.out.push_str(open);
        self.parts(size, &entries, |line, _, entry| {
            line.object(entry.key);
            line.out.push_str(": ");
            line.object(entry.value);
        });
        self.out.push_str(close);
        Ok(())
    }

    fn exception(&mut self, object: u64, info: &TypeInfo) -> Result<(), ReadError> {
        const ARGUMENTS: u64 = 24;
        let arguments = self.reader.word(object + ARGUMENTS)?;
        let items = self.reader.items(arguments, Kind::Tuple, 0, self.limits.parts)?;
        let size = self.reader.size(arguments)?;
        self.out.push_str(&info.name);
        self.out.push('(');
        self.parts(size, &items, |line, _, item| line.object(item));
        self.out.push(')');
        Ok(())
    }

    /// The fields of a named tuple.
    fn fields_of_tuple(&self, info: &TypeInfo) -> Result<Vec<String>, ReadError> {
        const MOST: u64 = 64;
        let Some((fields, _)) = self.reader.class_attribute(info, "_fields")? else { return Ok(Vec::new()) };
        if self.reader.type_of(fields.value)?.kind != Kind::Tuple {
            return Ok(Vec::new());
        }
        let names = self.reader.items(fields.value, Kind::Tuple, 0, MOST)?;
        names.into_iter().map(|name| self.reader.name(name)).collect()
    }

    fn instance(&mut self, object: u64, info: &TypeInfo, is_deep: bool) -> Result<(), ReadError> {
        if let Some(member) = self.enumerator(object, info)? {
            self.out.push_str(&member);
            return Ok(());
        }
        if let Some(path) = self.path(object, info)? {
            self.out.push_str(&path);
            return Ok(());
        }
        let most = self.limits.parts as usize;
        let attributes = self.reader.attributes(object, most + 1)?;
        let is_record = self.reader.class_attribute(info, "__dataclass_fields__")?.is_some();
        let (open, close) = if is_record { ("(", ")") } else { (" ", ">") };
        if !is_record {
            self.out.push('<');
        }
        self.out.push_str(&info.name);
        if attributes.is_empty() || is_deep {
            let dots = if attributes.is_empty() { "" } else { "…" };
            self.out.push_str(if is_record {
                "("
            } else if dots.is_empty() {
                ""
            } else {
                " "
            });
            self.out.push_str(dots);
            self.out.push_str(close);
            return Ok(());
        }
        self.out.push_str(open);
        for (index, attribute) in attributes.iter().enumerate() {
            if index > 0 {
                self.out.push_str(", ");
            }
            if index == most || self.out.len() > LONGEST_LINE {
                self.out.push('…');
                break;
            }
            let _ = write!(self.out, "{}=", attribute.name);
            self.object(attribute.value);
        }
        self.out.push_str(close);
        Ok(())
    }

    /// A path of `pathlib`, which keeps its parts and joins them when it is asked to.
    fn path(&self, object: u64, info: &TypeInfo) -> Result<Option<String>, ReadError> {
        const KNOWN: [&str; 4] = ["PosixPath", "PurePosixPath", "WindowsPath", "PureWindowsPath"];
        if !KNOWN.contains(&info.name.as_str()) {
            return Ok(None);
        }
        let attributes = self.reader.attributes(object, 32)?;
        let named = |name: &str| attributes.iter().find(|attribute| attribute.name == name);
        let is_text = |object: u64| Ok::<_, ReadError>(self.reader.type_of(object)?.kind == Kind::Str);
        if let Some(text) = named("_str")
            && is_text(text.value)?
        {
            return Ok(Some(format!("{}({})", info.name, self.reader.line(text.value, self.limits))));
        }
        let Some(parts) = named("_raw_paths").or(named("_parts")) else { return Ok(None) };
        let mut texts = Vec::new();
        for part in self.reader.items(parts.value, Kind::List, 0, 64)? {
            texts.push(self.reader.name(part)?);
        }
        let joined = texts.iter().fold(String::new(), |path, part| match part {
            part if part.starts_with('/') || path.is_empty() => part.clone(),
            part if path.ends_with('/') => path + part,
            part => path + "/" + part,
        });
        Ok(Some(format!("{}({})", info.name, quoted(&joined))))
    }

    fn calendar(&self, object: u64, kind: Kind) -> Result<String, ReadError> {
        let reader = self.reader;
        if kind == Kind::TimeDelta {
            let parts = [24, 28, 32].map(|offset| reader.half(object + offset));
            let names = ["days", "seconds", "microseconds"];
            let mut told = Vec::new();
            for (part, name) in parts.into_iter().zip(names) {
                let part = part? as i32;
                if part != 0 {
                    told.push(format!("{name}={part}"));
                }
            }
            let told = if told.is_empty() { "0".into() } else { told.join(", ") };
            return Ok(format!("datetime.timedelta({told})"));
        }
        let bytes = reader.bytes(object + 25, 11)?;
        let number = |at: usize, size: usize| {
            bytes[at..at + size].iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
        };
        let date = [number(0, 2), number(2, 1), number(3, 1)];
        let time = |at: usize| [number(at, 1), number(at + 1, 1), number(at + 2, 1), number(at + 3, 3)];
        let (name, mut numbers, least, zone) = match kind {
            Kind::Date => ("date", date.to_vec(), 3, None),
            Kind::Time => ("time", time(0).to_vec(), 2, Some(32)),
            _ => ("datetime", [&date[..], &time(4)].concat(), 5, Some(40)),
        };
        while numbers.len() > least && numbers.last() == Some(&0) {
            numbers.pop();
        }
        let mut told: Vec<_> = numbers.iter().map(u32::to_string).collect();
        if let Some(zone) = zone
            && reader.byte(object + 24)? != 0
        {
            told.push(format!("tzinfo={}", reader.line(reader.word(object + zone)?, self.limits)));
        }
        Ok(format!("datetime.{name}({})", told.join(", ")))
    }

    /// An array of numpy: its shape, the type of its elements, and the first of them.
    fn array(&self, object: u64) -> Result<String, ReadError> {
        const DATA: u64 = 16;
        const MOST_DIMENSIONS: usize = 64;
        let reader = self.reader;
        let data = reader.word(object + DATA)?;
        let dimensions = reader.half(object + 24)? as usize;
        if dimensions > MOST_DIMENSIONS {
            return Err(ReadError::damaged(object, "its dimensions are impossible"));
        }
        let shape = reader.words(reader.word(object + 32)?, dimensions)?;
        let strides = reader.words(reader.word(object + 40)?, dimensions)?;
        let description = reader.word(object + 56)?;
        let letter = reader.byte(description + 25)?;
        let told: Vec<_> = shape.iter().map(u64::to_string).collect();
        let shape_told =
            if dimensions == 1 { format!("({},)", told[0]) } else { format!("({})", told.join(", ")) };
        let is_swapped = reader.byte(description + 26)? == b'>';
        let Some((name, size)) = element_type(letter).filter(|_| !is_swapped) else {
            return Ok(format!("<numpy.ndarray of shape {shape_told}>"));
        };
        let total = match shape.contains(&0) {
            true => 0,
            false => shape.iter().fold(1_u64, |total, size| total.saturating_mul(*size)),
        };
        let mut first = Vec::new();
        for number in 0..total.min(self.limits.parts) {
            let (mut rest, mut address) = (number, data);
            for (size, stride) in shape.iter().zip(&strides).rev() {
                address = address.wrapping_add((rest % size).wrapping_mul(*stride));
                rest /= size;
            }
            first.push(element(letter, &reader.bytes(address, size)?));
        }
        let dots = if total > first.len() as u64 { ", …" } else { "" };
        Ok(format!("<numpy.ndarray of {name}, shape {shape_told}: {}{dots}>", first.join(", ")))
    }
}

/// The name and size of a numpy type, by its letter.
fn element_type(letter: u8) -> Option<(&'static str, usize)> {
    Some(match letter {
        b'?' => ("bool", 1),
        b'b' => ("int8", 1),
        b'B' => ("uint8", 1),
        b'h' => ("int16", 2),
        b'H' => ("uint16", 2),
        b'i' => ("int32", 4),
        b'I' => ("uint32", 4),
        b'l' | b'q' => ("int64", 8),
        b'L' | b'Q' => ("uint64", 8),
        b'f' => ("float32", 4),
        b'd' => ("float64", 8),
        _ => return None,
    })
}

fn element(letter: u8, bytes: &[u8]) -> String {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    let number = u64::from_le_bytes(wide);
    let unused = 64 - 8 * bytes.len() as u32;
    match letter {
        b'?' => if number == 0 { "False" } else { "True" }.into(),
        b'f' => float(f32::from_bits(number as u32).into()),
        b'd' => float(f64::from_bits(number)),
        b'b' | b'h' | b'i' | b'l' | b'q' => ((number << unused) as i64 >> unused).to_string(),
        _ => number.to_string(),
    }
}
