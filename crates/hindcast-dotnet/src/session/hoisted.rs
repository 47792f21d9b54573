//! Which variables of an async method or an iterator have their names where a frame is.

use super::stack::ManagedFrame;
use crate::image::{Operand, Token, pdb::HoistedScope};

/// Where the variables that a state machine holds have their names, and where a frame is among them.
#[derive(Debug)]
pub(super) struct HoistedScopes {
    scopes: Vec<HoistedScope>,
    /// Where the frame is in the method that moves the state machine.
    at: Option<u32>,
    /// Whether it is in a `finally` that has a method of its own.
    is_finally: bool,
}

impl HoistedScopes {
    pub(super) fn of(frame: &ManagedFrame) -> Self {
        let move_next = frame.module.move_next_of(frame.method).unwrap_or(frame.method);
        let scopes = frame.module.pdb().and_then(|pdb| pdb.hoisted_scopes(move_next).ok());
        let is_finally = move_next != frame.method;
        let at = if is_finally { call_of(frame, move_next) } else { Some(frame.offset) };
        Self { scopes: scopes.unwrap_or_default(), at, is_finally }
    }

    /// Whether the variable has its name there that has a number in its field's name.
    pub(super) fn has(&self, number: usize) -> bool {
        match number.checked_sub(1).and_then(|at| self.scopes.get(at)) {
            // The variables of such a `finally` have their names nowhere else.
            Some(scope) if scope.il.is_empty() => self.is_finally,
            Some(scope) => self.at.is_some_and(|at| scope.il.contains(&at)),
            None => true,
        }
    }
}

/// Where the method that moves a state machine calls the one that a frame is in.
fn call_of(frame: &ManagedFrame, move_next: Token) -> Option<u32> {
    let assembly = frame.module.assembly()?;
    let body = assembly.method(move_next)?.body().ok()??;
    let name = assembly.method(frame.method)?.name()?;
    // A generic state machine calls its own methods through references.
    let is_meant = |token: Token| {
        token == frame.method
            || assembly.member_reference(token).is_some_and(|reference| reference.name == name)
    };
    let mut instructions = body.instructions().map_while(Result::ok);
    let call = instructions.find(|instruction| match instruction.operand {
        Operand::Token(token) => instruction.name == "call" && is_meant(token),
        _ => false,
    });
    Some(call?.offset)
}
