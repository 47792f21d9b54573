//! The names of instructions and the kinds of their operands (ECMA-335 III).

use std::sync::LazyLock;

/// What follows an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OperandKind {
    None,
    Int8,
    UInt8,
    Int32,
    Int64,
    Float,
    Double,
    Local8,
    Local16,
    Argument8,
    Argument16,
    Branch8,
    Branch32,
    Switch,
    Token,
}

type Opcode = Option<(&'static str, OperandKind)>;

/// The name of an instruction and what follows it. Instructions of two bytes begin with `0xfe`.
pub(crate) fn opcode(prefixed: bool, number: u8) -> Opcode {
    static ONE_BYTE: LazyLock<Vec<Opcode>> = LazyLock::new(|| ONE.split(' ').map(read).collect());
    static TWO_BYTES: LazyLock<Vec<Opcode>> = LazyLock::new(|| TWO.split(' ').map(read).collect());
    let table = if prefixed { &TWO_BYTES } else { &ONE_BYTE };
    table.get(usize::from(number)).copied().flatten()
}

/// Reads `name` or `name:operand`; `-` is a number that nothing has.
fn read(entry: &'static str) -> Opcode {
    let (name, operand) = entry.split_once(':').unwrap_or((entry, ""));
    let kind = match operand {
        "i1" => OperandKind::Int8,
        "u1" => OperandKind::UInt8,
        "i4" => OperandKind::Int32,
        "i8" => OperandKind::Int64,
        "f" => OperandKind::Float,
        "d" => OperandKind::Double,
        "l1" => OperandKind::Local8,
        "l2" => OperandKind::Local16,
        "a1" => OperandKind::Argument8,
        "a2" => OperandKind::Argument16,
        "b1" => OperandKind::Branch8,
        "b4" => OperandKind::Branch32,
        "s" => OperandKind::Switch,
        "t" => OperandKind::Token,
        _ => OperandKind::None,
    };
    (name != "-").then_some((name, kind))
}

/// Instructions of one byte, from `0x00`.
const ONE: &str = "\
    nop break ldarg.0 ldarg.1 ldarg.2 ldarg.3 ldloc.0 ldloc.1 ldloc.2 ldloc.3 stloc.0 stloc.1 stloc.2 \
    stloc.3 ldarg.s:a1 ldarga.s:a1 starg.s:a1 ldloc.s:l1 ldloca.s:l1 stloc.s:l1 ldnull ldc.i4.m1 \
    ldc.i4.0 ldc.i4.1 ldc.i4.2 ldc.i4.3 ldc.i4.4 ldc.i4.5 ldc.i4.6 ldc.i4.7 ldc.i4.8 ldc.i4.s:i1 \
    ldc.i4:i4 ldc.i8:i8 ldc.r4:f ldc.r8:d - dup pop jmp:t call:t calli:t ret br.s:b1 brfalse.s:b1 \
    brtrue.s:b1 beq.s:b1 bge.s:b1 bgt.s:b1 ble.s:b1 blt.s:b1 bne.un.s:b1 bge.un.s:b1 bgt.un.s:b1 \
    ble.un.s:b1 blt.un.s:b1 br:b4 brfalse:b4 brtrue:b4 beq:b4 bge:b4 bgt:b4 ble:b4 blt:b4 bne.un:b4 \
    bge.un:b4 bgt.un:b4 ble.un:b4 blt.un:b4 switch:s ldind.i1 ldind.u1 ldind.i2 ldind.u2 ldind.i4 \
    ldind.u4 ldind.i8 ldind.i ldind.r4 ldind.r8 ldind.ref stind.ref stind.i1 stind.i2 stind.i4 stind.i8 \
    stind.r4 stind.r8 add sub mul div div.un rem rem.un and or xor shl shr shr.un neg not conv.i1 \
    conv.i2 conv.i4 conv.i8 conv.r4 conv.r8 conv.u4 conv.u8 callvirt:t cpobj:t ldobj:t ldstr:t newobj:t \
    castclass:t isinst:t conv.r.un - - unbox:t throw ldfld:t ldflda:t stfld:t ldsfld:t ldsflda:t \
    stsfld:t stobj:t conv.ovf.i1.un conv.ovf.i2.un conv.ovf.i4.un conv.ovf.i8.un conv.ovf.u1.un \
    conv.ovf.u2.un conv.ovf.u4.un conv.ovf.u8.un conv.ovf.i.un conv.ovf.u.un box:t newarr:t ldlen \
    ldelema:t ldelem.i1 ldelem.u1 ldelem.i2 ldelem.u2 ldelem.i4 ldelem.u4 ldelem.i8 ldelem.i ldelem.r4 \
    ldelem.r8 ldelem.ref stelem.i stelem.i1 stelem.i2 stelem.i4 stelem.i8 stelem.r4 stelem.r8 stelem.ref \
    ldelem:t stelem:t unbox.any:t - - - - - - - - - - - - - conv.ovf.i1 conv.ovf.u1 conv.ovf.i2 \
    conv.ovf.u2 conv.ovf.i4 conv.ovf.u4 conv.ovf.i8 conv.ovf.u8 - - - - - - - refanyval:t ckfinite - - \
    mkrefany:t - - - - - - - - - ldtoken:t conv.u2 conv.u1 conv.i conv.ovf.i conv.ovf.u add.ovf \
    add.ovf.un mul.ovf mul.ovf.un sub.ovf sub.ovf.un endfinally leave:b4 leave.s:b1 stind.i conv.u";

/// Instructions of two bytes, from `0xfe00`.
const TWO: &str = "\
    arglist ceq cgt cgt.un clt clt.un ldftn:t ldvirtftn:t - ldarg:a2 ldarga:a2 starg:a2 ldloc:l2 \
    ldloca:l2 stloc:l2 localloc - endfilter unaligned.:u1 volatile. tail. initobj:t constrained.:t cpblk \
    initblk no.:u1 rethrow - sizeof:t refanytype readonly.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_numbers_of_the_standard() {
        let check = |prefixed, number, name| {
            assert_eq!(opcode(prefixed, number).map(|opcode| opcode.0), Some(name), "{number:#x}");
        };
        for (number, name) in
            [(0x00, "nop"), (0x28, "call"), (0x45, "switch"), (0x6f, "callvirt"), (0x7b, "ldfld")]
        {
            check(false, number, name);
        }
        for (number, name) in
            [(0xa5, "unbox.any"), (0xb3, "conv.ovf.i1"), (0xd0, "ldtoken"), (0xe0, "conv.u")]
        {
            check(false, number, name);
        }
        for (number, name) in
            [(0x00, "arglist"), (0x06, "ldftn"), (0x16, "constrained."), (0x1e, "readonly.")]
        {
            check(true, number, name);
        }
        assert_eq!(opcode(false, 0x24), None);
        assert_eq!(opcode(false, 0xe1), None);
        assert_eq!(opcode(true, 0x1f), None);
    }
}
