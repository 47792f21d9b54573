//! Bodies of methods and the instructions in them (ECMA-335 II.25.4, III).

use std::ops::Range;

use super::cursor::Cursor;
use super::error::ImageError;
use super::members::Method;
use super::opcodes::{OperandKind, opcode};
use super::token::{Table, Token};

/// The body of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MethodBody<'a> {
    /// How many values the evaluation stack holds at most.
    pub max_stack: u16,
    /// Whether locals begin as zero.
    pub init_locals: bool,
    /// The instructions.
    pub code: &'a [u8],
    /// The types of the locals: a `StandAloneSig`.
    pub local_signature: Option<Token>,
    /// Blocks with handlers; inner ones come before outer ones.
    pub clauses: Vec<ExceptionClause>,
}

/// A `try` block and one handler of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExceptionClause {
    /// What the handler is for.
    pub kind: ClauseKind,
    /// The offsets of the block.
    pub block: Range<u32>,
    /// The offsets of the handler.
    pub handler: Range<u32>,
}

/// What a handler is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClauseKind {
    /// Catches exceptions of a type: a `TypeDef`, `TypeRef` or `TypeSpec`.
    Catch(Token),
    /// Catches exceptions for which the code at an offset says so.
    Filter(u32),
    /// Runs however the block is left.
    Finally,
    /// Runs when an exception leaves the block.
    Fault,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction<'a> {
    /// Where it begins.
    pub offset: u32,
    /// Where the next one begins.
    pub end: u32,
    /// Its name, such as `callvirt`.
    pub name: &'static str,
    /// What it works on.
    pub operand: Operand<'a>,
}

/// What an instruction works on, besides the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operand<'a> {
    /// Nothing.
    None,
    /// A whole number.
    Int(i64),
    /// The bits of a number of 32 bits.
    Float(u32),
    /// The bits of a number of 64 bits.
    Double(u64),
    /// A local, by its slot.
    Local(u16),
    /// An argument, by its place; `this` is the first if there is one.
    Argument(u16),
    /// Where it jumps.
    Target(u32),
    /// Where it jumps, by a number from 0.
    Targets(SwitchTargets<'a>),
    /// A type, method, field, signature or string.
    Token(Token),
}

/// Where a `switch` jumps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchTargets<'a> {
    base: u32,
    offsets: &'a [u8],
}

impl SwitchTargets<'_> {
    /// The offsets in their order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        self.offsets.chunks_exact(4).map(|offset| {
            let [a, b, c, d] = [offset[0], offset[1], offset[2], offset[3]];
            self.base.wrapping_add(u32::from_le_bytes([a, b, c, d]))
        })
    }
}

impl<'a> Method<'a> {
    /// The body, or none for a method without one: abstract, of the runtime, or of a native library.
    pub fn body(self) -> Result<Option<MethodBody<'a>>, ImageError> {
        // Only the lowest two bits say what the code is; 0 is IL.
        if self.rva() == 0 || self.implementation_flags() & 0x3 != 0 {
            return Ok(None);
        }
        let bytes = self.assembly.bytes.all();
        let range = self.assembly.pe.at(bytes, self.rva()).ok_or(MALFORMED)?;
        MethodBody::parse(&bytes[range]).map(Some)
    }
}

impl<'a> MethodBody<'a> {
    /// Reads a body that begins at the beginning of `bytes` and may be followed by others.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.u8()?;
        match first & 0x3 {
            0x2 => Ok(Self {
                max_stack: 8,
                init_locals: false,
                code: cursor.bytes(usize::from(first >> 2))?,
                local_signature: None,
                clauses: Vec::new(),
            }),
            0x3 => Self::parse_fat(bytes),
            _ => Err(MALFORMED),
        }
    }

    fn parse_fat(bytes: &'a [u8]) -> Result<Self, ImageError> {
        let mut cursor = Cursor::new(bytes);
        let flags = cursor.u16()?;
        let max_stack = cursor.u16()?;
        let size = cursor.u32()?;
        let locals = Token(cursor.u32()?);
        // The size of the head, in words of four bytes.
        let mut cursor = Cursor::at(bytes, usize::from(flags >> 12) * 4);
        let code = cursor.bytes(size as usize)?;
        let clauses = if flags & 0x8 != 0 { read_sections(cursor)? } else { Vec::new() };
        Ok(Self {
            max_stack,
            init_locals: flags & 0x10 != 0,
            code,
            local_signature: locals.row_in(Table::StandAloneSig).map(|_| locals),
            clauses,
        })
    }

    /// The instructions in the order in which they stand.
    pub fn instructions(&self) -> Instructions<'a> {
        Instructions { code: self.code, at: 0 }
    }

    /// The instructions that begin within a range of offsets, such as a statement.
    pub fn instructions_in(&self, range: Range<u32>) -> impl Iterator<Item = Instruction<'a>> {
        let instructions = self.instructions().map_while(Result::ok);
        instructions
            .skip_while(move |instruction| instruction.offset < range.start)
            .take_while(move |instruction| instruction.offset < range.end)
    }

    /// The instruction that begins at or spans an offset.
    pub fn instruction_at(&self, offset: u32) -> Option<Instruction<'a>> {
        self.instructions()
            .map_while(Result::ok)
            .take_while(|instruction| instruction.offset <= offset)
            .find(|instruction| offset < instruction.end)
    }
}

/// The instructions of a body. Ends after an error.
#[derive(Debug, Clone)]
pub struct Instructions<'a> {
    code: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Instructions<'a> {
    type Item = Result<Instruction<'a>, ImageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.code.len() {
            return None;
        }
        let mut cursor = Cursor::at(self.code, self.at);
        let instruction = read_instruction(&mut cursor);
        self.at = if instruction.is_ok() { cursor.position() } else { self.code.len() };
        Some(instruction)
    }
}

fn read_instruction<'a>(cursor: &mut Cursor<'a>) -> Result<Instruction<'a>, ImageError> {
    let offset = cursor.position() as u32;
    let first = cursor.u8()?;
    let (prefixed, number) = if first == 0xfe { (true, cursor.u8()?) } else { (false, first) };
    let (name, kind) = opcode(prefixed, number).ok_or(MALFORMED)?;
    let operand = match kind {
        OperandKind::None => implied(name),
        OperandKind::Int8 => Operand::Int(i64::from(cursor.u8()? as i8)),
        OperandKind::UInt8 => Operand::Int(i64::from(cursor.u8()?)),
        OperandKind::Int32 => Operand::Int(i64::from(cursor.u32()? as i32)),
        OperandKind::Int64 => Operand::Int(cursor.u64()? as i64),
        OperandKind::Float => Operand::Float(cursor.u32()?),
        OperandKind::Double => Operand::Double(cursor.u64()?),
        OperandKind::Local8 => Operand::Local(u16::from(cursor.u8()?)),
        OperandKind::Local16 => Operand::Local(cursor.u16()?),
        OperandKind::Argument8 => Operand::Argument(u16::from(cursor.u8()?)),
        OperandKind::Argument16 => Operand::Argument(cursor.u16()?),
        OperandKind::Branch8 => {
            let distance = i32::from(cursor.u8()? as i8);
            Operand::Target((cursor.position() as u32).wrapping_add_signed(distance))
        }
        OperandKind::Branch32 => {
            let distance = cursor.u32()?;
            Operand::Target((cursor.position() as u32).wrapping_add(distance))
        }
        OperandKind::Switch => {
            let count = cursor.u32()? as usize;
            let offsets = cursor.bytes(count.checked_mul(4).ok_or(MALFORMED)?)?;
            Operand::Targets(SwitchTargets { base: cursor.position() as u32, offsets })
        }
        OperandKind::Token => Operand::Token(Token(cursor.u32()?)),
    };
    Ok(Instruction { offset, end: cursor.position() as u32, name, operand })
}

/// The operand that is part of the name, as in `ldloc.0` and `ldc.i4.5`.
fn implied(name: &'static str) -> Operand<'static> {
    let number = |prefix: &str| name.strip_prefix(prefix).and_then(|number| number.parse::<u16>().ok());
    if let Some(number) = number("ldc.i4.") {
        Operand::Int(i64::from(number))
    } else if name == "ldc.i4.m1" {
        Operand::Int(-1)
    } else if let Some(slot) = number("ldloc.").or_else(|| number("stloc.")) {
        Operand::Local(slot)
    } else if let Some(place) = number("ldarg.") {
        Operand::Argument(place)
    } else {
        Operand::None
    }
}

fn read_sections(cursor: Cursor<'_>) -> Result<Vec<ExceptionClause>, ImageError> {
    let mut cursor = cursor;
    let mut clauses = Vec::new();
    loop {
        cursor.align4();
        let head = cursor.u32()?;
        let (kind, is_fat) = (head & 0x3f, head & 0x40 != 0);
        // The size counts the head.
        let size = if is_fat { head >> 8 } else { head >> 8 & 0xff };
        let each = if is_fat { 24 } else { 12 };
        // Some compilers do not count it.
        let count = size / each;
        if kind & 0x1 != 0 {
            for _ in 0..count {
                clauses.push(if is_fat {
                    read_fat_clause(&mut cursor)?
                } else {
                    read_small_clause(&mut cursor)?
                });
            }
        } else {
            cursor.skip((size as usize).saturating_sub(4))?;
        }
        if head & 0x80 == 0 {
            return Ok(clauses);
        }
    }
}

fn read_fat_clause(cursor: &mut Cursor<'_>) -> Result<ExceptionClause, ImageError> {
    let flags = cursor.u32()?;
    let (block, handler) = ((cursor.u32()?, cursor.u32()?), (cursor.u32()?, cursor.u32()?));
    clause(flags, block, handler, cursor.u32()?)
}

fn read_small_clause(cursor: &mut Cursor<'_>) -> Result<ExceptionClause, ImageError> {
    let flags = u32::from(cursor.u16()?);
    let block = (u32::from(cursor.u16()?), u32::from(cursor.u8()?));
    let handler = (u32::from(cursor.u16()?), u32::from(cursor.u8()?));
    clause(flags, block, handler, cursor.u32()?)
}

fn clause(
    flags: u32,
    block: (u32, u32),
    handler: (u32, u32),
    last: u32,
) -> Result<ExceptionClause, ImageError> {
    let range =
        |(start, length): (u32, u32)| start.checked_add(length).map(|end| start..end).ok_or(MALFORMED);
    let kind = match flags & 0x7 {
        0 => ClauseKind::Catch(Token(last)),
        1 => ClauseKind::Filter(last),
        2 => ClauseKind::Finally,
        4 => ClauseKind::Fault,
        _ => return Err(MALFORMED),
    };
    Ok(ExceptionClause { kind, block: range(block)?, handler: range(handler)? })
}

const MALFORMED: ImageError = ImageError::Malformed { what: "the body of a method" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_named_and_measured() {
        // ldarg.0; ldc.i4.s -3; br.s back to the start; ceq; switch (1 target)
        let code = [0x02, 0x1f, 0xfd, 0x2b, 0xfb, 0xfe, 0x01, 0x45, 1, 0, 0, 0, 0xf0, 0xff, 0xff, 0xff];
        let body = MethodBody {
            max_stack: 8,
            init_locals: false,
            code: &code,
            local_signature: None,
            clauses: vec![],
        };
        let read: Vec<_> = body.instructions().map(Result::unwrap).collect();
        let names: Vec<_> = read.iter().map(|instruction| instruction.name).collect();
        assert_eq!(names, ["ldarg.0", "ldc.i4.s", "br.s", "ceq", "switch"]);
        assert_eq!(read[0].operand, Operand::Argument(0));
        assert_eq!(read[1].operand, Operand::Int(-3));
        assert_eq!(read[2].operand, Operand::Target(0));
        let Operand::Targets(targets) = &read[4].operand else { panic!("{:?}", read[4]) };
        assert_eq!(targets.iter().collect::<Vec<_>>(), [0]);
        assert_eq!(body.instruction_at(2).unwrap().name, "ldc.i4.s");
        assert_eq!(body.instructions_in(1..5).count(), 2);
    }

    #[test]
    fn an_instruction_that_is_cut_off_ends_the_list() {
        let body = MethodBody::parse(&[0x2 | 3 << 2, 0x00, 0x20, 0x01]).unwrap();
        let read: Vec<_> = body.instructions().collect();
        assert!(read.len() == 2 && read[0].is_ok() && read[1].is_err(), "{read:?}");
    }
}
