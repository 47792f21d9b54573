//! Places in the program's code where the runtime stops for us.
//!
//! Whoever wants the program to stop at a place holds its site: the user's breakpoints, a step, the first stop. All that want
//! the same place hold the same site, so the program stops there once, for all of them.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
};

use super::places::CodePlace;
use crate::cor::{Com, CorError, FunctionBreakpoint};

/// A place where the program stops as long as somebody holds this.
#[derive(Debug)]
pub(super) struct Site {
    breakpoint: Com<FunctionBreakpoint>,
    is_left: Rc<Cell<bool>>,
}

impl Site {
    /// Whether the runtime means this site, by the identity of a breakpoint that was hit.
    pub(super) fn is(&self, hit: usize) -> bool {
        self.breakpoint.identity() == hit
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if !self.is_left.get() {
            // The module may be gone.
            let _ = self.breakpoint.activate(0);
        }
    }
}

/// The sites that somebody holds.
#[derive(Debug, Default)]
pub(super) struct Sites {
    held: RefCell<HashMap<Key, Weak<Site>>>,
    /// Whether the program is gone, or on its own.
    is_left: Rc<Cell<bool>>,
}

/// Module, method and offset.
type Key = (usize, u32, u32);

impl Sites {
    /// The program has ended, or is not ours any more. Asking the runtime for anything could take for ever.
    pub(super) fn leave(&self) {
        self.is_left.set(true);
    }

    /// The site of a place.
    pub(super) fn hold(&self, place: &CodePlace) -> Result<Rc<Site>, CorError> {
        let mut known = self.held.borrow_mut();
        let key = (place.module.module.identity(), place.method.0, place.offset);
        if let Some(site) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(site);
        }
        let function = place.module.module.function_from_token(place.method.0)?;
        let breakpoint = function.il_code()?.create_breakpoint(place.offset)?;
        breakpoint.activate(1)?;
        let site = Rc::new(Site { breakpoint, is_left: self.is_left.clone() });
        known.retain(|_, site| site.strong_count() > 0);
        known.insert(key, Rc::downgrade(&site));
        Ok(site)
    }
}
