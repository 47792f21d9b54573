//! All that a session asks of a file that claims to be an ELF program. Tests of the symbols ask the same, so
//! that it compiles wherever they do.

use hindcast_core::debug::{NumberFormat, ValueLimits};
use hindcast_symbols::{
    FrameContext, FunctionPattern, Memory, Registers, Symbols, Unreadable,
    types::{ModuleId, Types},
    value::{DerivedTypes, Inspector, Placed},
};

/// Questions are asked a few times each, so that what is slow is slow by itself.
const FEW: usize = 8;

/// A frame whose memory and registers hold the same numbers everywhere: pointers lead somewhere, and
/// all that is followed is followed for ever, unless somebody counts.
struct Frame {
    pc: u64,
}

impl Memory for Frame {
    fn read(&self, _address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        buffer.fill(0x11);
        Ok(())
    }
}

impl FrameContext for Frame {
    fn register(&self, dwarf: u16) -> Option<Vec<u8>> {
        Some(vec![dwarf as u8; 8])
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn tls_address(&self, _module: ModuleId, offset: u64) -> Option<u64> {
        Some(offset)
    }

    fn cfa(&self) -> Option<u64> {
        Some(0x7fff_1000)
    }

    fn pc(&self) -> u64 {
        self.pc
    }
}

pub(crate) fn ask_everything(bytes: &[u8]) {
    let mut symbols = Symbols::new();
    if symbols.add_image("fuzzed", bytes.to_vec(), 0, 0..u64::MAX).is_err() {
        return;
    }
    let _ = symbols.modules().count();
    let _ = symbols.producer();
    ask_by_name(&symbols);
    for address in addresses(&symbols, bytes) {
        ask_by_address(&symbols, address);
    }
}

/// Where the program begins, and some of its functions.
fn addresses(symbols: &Symbols, bytes: &[u8]) -> Vec<u64> {
    let entry = bytes.get(24..32).and_then(|entry| entry.try_into().ok()).map(u64::from_le_bytes);
    let every = FunctionPattern::read("/./").expect("a pattern");
    let functions = symbols.functions_named(&every, FEW);
    entry.into_iter().chain(functions.into_iter().map(|function| function.address)).collect()
}

fn ask_by_name(symbols: &Symbols) {
    for name in ["main", "square", "total", "int", "point"] {
        let _ = symbols.functions_named(&FunctionPattern::Exact(name.to_owned()), FEW);
        let _ = symbols.find_global(name, 0);
        let _ = symbols.named(name).and_then(|found| symbols.get(found));
    }
    let _ = symbols.complete_function("s", FEW);
    let _ = symbols.addresses_of_line("calls.c", 10);
    for file in symbols.source_files("", FEW) {
        let _ = symbols.find_source(&file);
        let _ = symbols.addresses_of_line(&file, 10);
    }
}

fn ask_by_address(symbols: &Symbols, address: u64) {
    let frame = Frame { pc: address };
    let _ = symbols.place(address);
    let _ = symbols.line_of_step(address);
    let _ = symbols.symbol_at(address);
    let _ = symbols.function_at(address);
    let types = DerivedTypes::new(symbols);
    let inspector = Inspector::new(&types, &frame, ValueLimits::default(), NumberFormat::Auto);
    let locals = symbols.frames_at(address).into_iter().flat_map(|level| symbols.variables(&level));
    for variable in locals.chain(symbols.globals(address)).take(FEW) {
        let _ = inspector.show(&variable.name, &Placed::variable(symbols, &variable, &frame));
    }
    let mut registers = Registers::new();
    for (register, value) in [(16, address), (7, 0x7fff_1000), (6, 0x7fff_1010)] {
        registers.set(register, Some(value));
    }
    let _ = symbols.unwind(&registers, &frame, true);
}
