//! Frames on a stack, where the compiler may have optimised.
//!
//! The runtime's library must not be asked for a variable in a floating-point register: it reads beyond its own memory, on .NET
//! 10.0, and crashes. Nor does it know that a caller stands behind its call, which may be where the next statement begins.

use std::{cell::OnceCell, collections::HashSet, ops::Deref, rc::Rc};

use crate::{
    cor::{Code4, Com, CorError, Hresult, IlFrame, NativeFrame, Value},
    modules::LoadedModule,
};

/// A frame on a stack. Of its variables, those that are safe to ask for can be read.
#[derive(Debug, Clone)]
pub(super) struct StackFrame {
    frame: Com<IlFrame>,
    /// Its machine code. When the program is killed the library frees this, if nobody holds it, and then uses it.
    native: Option<Com<NativeFrame>>,
    is_optimised: bool,
    unreadable: Rc<OnceCell<Unreadable>>,
}

/// The variables that are where the library cannot read them.
#[derive(Debug, Default)]
struct Unreadable {
    arguments: HashSet<u32>,
    locals: HashSet<u32>,
}

impl Deref for StackFrame {
    type Target = Com<IlFrame>;

    fn deref(&self) -> &Com<IlFrame> {
        &self.frame
    }
}

impl StackFrame {
    pub(super) fn new(frame: Com<IlFrame>, module: &LoadedModule) -> Self {
        let is_optimised = module.assembly().is_none_or(|assembly| !assembly.disables_optimizations());
        Self { native: frame.cast(), frame, is_optimised, unreadable: Rc::default() }
    }

    pub(super) fn argument(&self, index: u32) -> Result<Com<Value>, CorError> {
        match self.unreadable().arguments.contains(&index) {
            true => Err(CorError { call: "IlFrame::argument", code: Hresult::VARIABLE_NOT_AVAILABLE }),
            false => self.frame.argument(index),
        }
    }

    pub(super) fn local_variable(&self, index: u32) -> Result<Com<Value>, CorError> {
        match self.unreadable().locals.contains(&index) {
            true => Err(CorError { call: "IlFrame::local_variable", code: Hresult::VARIABLE_NOT_AVAILABLE }),
            false => self.frame.local_variable(index),
        }
    }

    fn unreadable(&self) -> &Unreadable {
        self.unreadable.get_or_init(|| match self.is_optimised {
            true => self.native.as_ref().and_then(|native| find_unreadable(native).ok()).unwrap_or_default(),
            false => Unreadable::default(),
        })
    }

    /// The IL offset of the call that a caller waits for, where it is not the one that the library tells.
    pub(super) fn offset_of_call(&self) -> Option<u32> {
        let native = self.native.as_ref().filter(|_| self.is_optimised)?;
        let call = native.offset().ok()?.checked_sub(1)?;
        let ranges = native.code().ok()?.ranges().ok()?;
        let range = ranges.into_iter().find(|range| (range.start..range.end).contains(&call))?;
        // Beyond all code is what the compiler has added.
        (range.il <= LARGEST_OFFSET).then_some(range.il)
    }
}

fn find_unreadable(native: &Com<NativeFrame>) -> Result<Unreadable, CorError> {
    let (code, here) = (native.code()?, native.offset()?);
    let mut found = Unreadable::default();
    for home in code.expect::<Code4>("Code::homes")?.enumerate_variable_homes()?.all()? {
        if home.live_range()?.contains(&here) && !home.is_in_memory_or_register()? {
            match (home.slot_index(), home.argument_index()) {
                (Ok(slot), _) => _ = found.locals.insert(slot),
                (_, Ok(argument)) => _ = found.arguments.insert(argument),
                _ => {}
            }
        }
    }
    Ok(found)
}

/// A method's IL is smaller.
const LARGEST_OFFSET: u32 = i32::MAX as u32;
