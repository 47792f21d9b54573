//! Places that code at one address finds without looking: a register, or memory at a fixed distance from one.

use gimli::{Operation, Reader as _};

use super::{Symbols, VariableInfo, locate::expression_at};
use crate::{
    dwarf::{DieRef, Slice, View},
    module::LoadedModule,
};

/// Where a variable is each time that execution comes to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FixedPlace {
    /// In a register, by its DWARF number.
    Register(u16),
    /// In memory, so far from what a register holds.
    Near(u16, i64),
    /// In memory, always at this address.
    Memory(u64),
}

impl FixedPlace {
    fn moved(self, by: i64) -> Option<Self> {
        Some(match self {
            Self::Near(register, offset) => Self::Near(register, offset.checked_add(by)?),
            Self::Memory(address) => Self::Memory(address.checked_add_signed(by)?),
            Self::Register(_) => return None,
        })
    }
}

const GENERAL: u16 = 16;

impl Symbols {
    /// Where a variable is whenever execution comes to `pc`; `None` where the debug information does not say it as plainly
    /// as that.
    pub fn fixed_place(&self, variable: &VariableInfo, pc: u64) -> Option<FixedPlace> {
        if variable.declared_later {
            return None;
        }
        let handle = variable.handle;
        let module = self.module(handle.module)?;
        let debug = module.debug()?;
        let view = debug.view_of(handle.die)?;
        let entry = view.entry(handle.die)?;
        if entry.has_attr(gimli::DW_AT_const_value) {
            return None;
        }
        let location = entry.attr_value(gimli::DW_AT_location)?;
        let expression = expression_at(module, &view, location, pc).ok()??;
        let place = Places { symbols: self, module, pc, function: handle.function };
        place.of(&view, expression, true)
    }

    /// The register that the canonical frame address is counted from at `pc`, and the distance.
    fn frame_address_at(&self, pc: u64) -> Option<FixedPlace> {
        let (register, offset) = self.frame_address_rule(pc)?;
        (register < GENERAL).then_some(FixedPlace::Near(register, offset))
    }
}

struct Places<'s> {
    symbols: &'s Symbols,
    module: &'s LoadedModule,
    pc: u64,
    function: Option<DieRef>,
}

impl Places<'_> {
    fn of<'a>(
        &self,
        view: &View<'a>,
        expression: gimli::Expression<Slice<'a>>,
        has_frame: bool,
    ) -> Option<FixedPlace> {
        let encoding = view.unit.encoding();
        let mut bytes = expression.0;
        let mut place = self.start(view, Operation::parse(&mut bytes, encoding).ok()?, has_frame)?;
        while !bytes.is_empty() {
            match Operation::parse(&mut bytes, encoding).ok()? {
                Operation::PlusConstant { value } => place = place.moved(i64::try_from(value).ok()?)?,
                _ => return None,
            }
        }
        Some(place)
    }

    fn start<'a>(
        &self,
        view: &View<'a>,
        operation: Operation<Slice<'a>>,
        has_frame: bool,
    ) -> Option<FixedPlace> {
        match operation {
            Operation::Register { register } if register.0 < GENERAL => {
                Some(FixedPlace::Register(register.0))
            }
            Operation::RegisterOffset { register, offset, base_type }
                if register.0 < GENERAL && base_type.0 == 0 =>
            {
                Some(FixedPlace::Near(register.0, offset))
            }
            Operation::FrameOffset { offset } if has_frame => self.frame_base()?.moved(offset),
            Operation::CallFrameCFA => self.symbols.frame_address_at(self.pc),
            Operation::Address { address } => Some(FixedPlace::Memory(self.module.to_runtime(address))),
            Operation::AddressIndex { index } => {
                let address = view.dwarf.address(&view.unit, index).ok()?;
                Some(FixedPlace::Memory(self.module.to_runtime(address)))
            }
            _ => None,
        }
    }

    fn frame_base(&self) -> Option<FixedPlace> {
        let debug = self.module.debug()?;
        let function = self.function?;
        let view = debug.view_of(function)?;
        let base = view.entry(function)?.attr_value(gimli::DW_AT_frame_base)?;
        let expression = expression_at(self.module, &view, base, self.pc).ok()??;
        match self.of(&view, expression, false)? {
            // Counted from what it holds.
            FixedPlace::Register(register) => Some(FixedPlace::Near(register, 0)),
            place => Some(place),
        }
    }
}
