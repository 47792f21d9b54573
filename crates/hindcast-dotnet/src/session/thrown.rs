//! Where an exception was thrown, as the exception itself remembers it.
//!
//! An exception that leaves an async method, or a task, is kept and thrown again where its result is asked for. The thread then
//! stands there, often in code of the framework alone. The exception still has the frames that it came through first.

use std::rc::Rc;

use hindcast_core::debug::Location;

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::{CodeRange, Com, ExceptionValue, ReferenceValue, ThrownFrame, Value},
    image::Token,
    modules::LoadedModule,
    values::Seen,
};

/// So many frames of the program's own code are told.
const MOST_TOLD: usize = 10;
/// So many frames are looked at.
const MOST_FRAMES: usize = 200;

/// A place in the program's own code that an exception has come through.
#[derive(Debug)]
pub(super) struct ThrownPlace {
    module: Rc<LoadedModule>,
    method: Token,
    pub(super) location: Location,
}

impl Session {
    /// Where an exception was thrown, unless the frame still stands there.
    pub(super) fn thrown_elsewhere(
        &self,
        exception: &Seen,
        stands_in: Option<&ManagedFrame>,
    ) -> Vec<Location> {
        let places = self.thrown_places(exception, MOST_TOLD);
        let (Some(thrown), stands_in) = (places.first(), stands_in) else { return Vec::new() };
        let is_here = stands_in.is_some_and(|frame| {
            let line = self.place_of(&frame.module, frame.method, frame.offset).line;
            Rc::ptr_eq(&frame.module, &thrown.module)
                && frame.method == thrown.method
                && (thrown.location.line.is_none() || thrown.location.line == line)
        });
        if is_here { Vec::new() } else { places.into_iter().map(|place| place.location).collect() }
    }

    /// The places in the program's own code that an exception has come through, innermost first.
    pub(super) fn thrown_places(&self, exception: &Seen, most: usize) -> Vec<ThrownPlace> {
        let faulted = exception.of.full_name_ref().is_some_and(is_fault);
        let frames = frames_of(&exception.value).unwrap_or_default();
        let places =
            frames.iter().enumerate().filter_map(|(at, frame)| self.thrown_place(frame, at == 0 && faulted));
        places.take(most).collect()
    }

    fn thrown_place(&self, frame: &ThrownFrame, faulted: bool) -> Option<ThrownPlace> {
        let module = self.modules.of(&frame.module)?.clone();
        let method = Token(frame.method);
        let is_written = module.pdb()?.sequence_points(method).is_ok_and(|points| !points.is_empty());
        if !is_written {
            return None;
        }
        let location = match il_offset(&module, method, frame.ip, faulted) {
            Some(offset) => self.place_of(&module, method, offset),
            // The method is known even where its code was compiled more than once.
            None => Location { line: None, column: None, file: None, ..self.place_of(&module, method, 0) },
        };
        Some(ThrownPlace { module, method, location })
    }
}

/// Whether an instruction raises it, rather than a call that throws.
fn is_fault(exception_type: &str) -> bool {
    matches!(
        exception_type,
        "System.NullReferenceException" | "System.DivideByZeroException" | "System.AccessViolationException"
    )
}

fn frames_of(exception: &Com<Value>) -> Option<Vec<ThrownFrame>> {
    let object = match exception.cast::<ReferenceValue>() {
        Some(reference) => reference.dereference().ok()?,
        None => exception.clone(),
    };
    object.cast::<ExceptionValue>()?.call_stack().ok()?.first(MOST_FRAMES).ok()
}

/// The IL offset of an address in a method's machine code, where it faulted or behind a call that did not return; none for code
/// that is not the latest of the method.
fn il_offset(module: &LoadedModule, method: Token, ip: u64, faulted: bool) -> Option<u32> {
    let code = module.module.function_from_token(method.0).ok()?.native_code().ok()?;
    let offset = u32::try_from(ip.checked_sub(code.address().ok()?)?).ok()?;
    if offset > code.size().ok()? {
        return None;
    }
    let ranges = code.ranges().ok()?;
    il_at(&ranges, if is_behind_call(&ranges, offset, faulted) { offset.checked_sub(1)? } else { offset })
}

/// Whether the code before an offset is what threw. Behind a call is already the next statement. Machine code for a statement
/// first loads what it uses: at its very beginning it does not fault, but a helper of the runtime did that was called before.
fn is_behind_call(ranges: &[CodeRange], offset: u32, faulted: bool) -> bool {
    !faulted || ranges.iter().any(|range| range.start == offset && offset > 0)
}

/// The IL offset that a piece of machine code is for.
fn il_at(ranges: &[CodeRange], offset: u32) -> Option<u32> {
    /// Larger ones stand for code that has no IL.
    const LARGEST_OFFSET: u32 = i32::MAX as u32;
    let known = ranges.iter().filter(|range| range.il <= LARGEST_OFFSET && range.start <= offset);
    // Pieces without an end reach to the next one.
    known.max_by_key(|range| range.start).map(|range| range.il)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_is_found_in_the_il_before_it() {
        let range = |il, start, end| CodeRange { il, start, end };
        let ranges =
            [range(u32::MAX - 1, 0, 10), range(0, 10, 20), range(7, 20, 0), range(u32::MAX - 2, 40, 50)];
        assert_eq!(il_at(&ranges, 5), None);
        assert_eq!(il_at(&ranges, 10), Some(0));
        assert_eq!(il_at(&ranges, 19), Some(0));
        assert_eq!(il_at(&ranges, 33), Some(7));
        assert!(is_behind_call(&ranges, 20, true) && is_behind_call(&ranges, 25, false));
        assert!(!is_behind_call(&ranges, 25, true));
    }
}
