//! Programs that stop themselves: `Environment.FailFast`, `Debug.Assert`, `Debugger.Break`.

use super::{Session, stack::ManagedFrame};
use crate::{
    cor::{Com, Thread},
    image::{MethodBody, Operand},
    names::method_name,
};

/// So many frames of the framework are between the program and the stop.
const NEAR: usize = 16;
/// The most of a text that is shown.
const LONGEST: u32 = 4000;

impl Session {
    /// That the program called `Environment.FailFast`, and what with; none where it did not.
    pub(super) fn fail_fast(&mut self, thread: &Com<Thread>) -> Option<String> {
        const NAME: &str = "System.Environment.FailFast";
        let (frames, _) = self.frames(thread, NEAR).ok()?;
        let said = match self.said_to(&frames, &[NAME]) {
            Some(said) => said,
            // The older runtime has no frame for it.
            None => {
                let own = frames.iter().find(|frame| frame.module.is_mine())?;
                calls(own, "FailFast").then_some(None)?
            }
        };
        Some(match said {
            Some(said) => format!("Environment.FailFast was called: {said}"),
            None => "Environment.FailFast was called; what it was given is on standard error".into(),
        })
    }

    /// Why the program stopped itself.
    pub(super) fn break_reason(&mut self, thread: &Com<Thread>) -> String {
        const NAMES: [&str; 2] = ["System.Diagnostics.Debug.Fail", "System.Diagnostics.Debug.Assert"];
        let frames = self.frames(thread, NEAR).ok().map(|(frames, _)| frames);
        match frames.and_then(|frames| self.said_to(&frames, &NAMES)) {
            // Which of them it was is not told where one is compiled into the other.
            Some(said) => {
                let said = said.map(|said| format!(": {said}")).unwrap_or_default();
                format!("Debug.Assert or Debug.Fail called Debugger.Break(){said}")
            }
            None => "Debugger.Break() was called".into(),
        }
    }

    /// The `message` that one of these methods of the framework was given, where that can still be read; none where the
    /// program called none of them.
    fn said_to(&self, frames: &[ManagedFrame], methods: &[&str]) -> Option<Option<String>> {
        let called = frames.iter().take_while(|frame| !frame.module.is_mine());
        let mut found: Option<Option<String>> = None;
        for frame in called {
            let Some(method) = frame.module.assembly().and_then(|assembly| assembly.method(frame.method))
            else {
                continue;
            };
            if method_name(method).is_some_and(|name| methods.contains(&name.as_str())) {
                found = Some(found.flatten().or_else(|| self.message_given(frame)));
            }
        }
        found
    }

    /// The argument `message` of a frame.
    fn message_given(&self, frame: &ManagedFrame) -> Option<String> {
        let method = frame.module.assembly()?.method(frame.method)?;
        let count = method.signature().ok()?.parameters.len();
        let place = method.parameter_names(count).iter().position(|name| *name == Some("message"))?;
        let place = u32::try_from(place + usize::from(!method.is_static())).ok()?;
        let value = frame.frame.as_ref()?.argument(place).ok()?;
        self.values().see(&value).ok()?.text(LONGEST).filter(|text| !text.is_empty())
    }
}

/// Whether the statement that a frame stands in calls a method of this name.
fn calls(frame: &ManagedFrame, name: &str) -> bool {
    let found = || {
        let assembly = frame.module.assembly()?;
        let body: MethodBody<'_> = assembly.method(frame.method)?.body().ok()??;
        let statement = frame.module.pdb()?.statement_at(frame.method, frame.offset)?.il;
        let mut within =
            body.instructions().map_while(Result::ok).filter(|one| statement.contains(&one.offset));
        Some(within.any(|one| match one.operand {
            Operand::Token(token) if one.name == "call" => {
                assembly.member(token).is_some_and(|member| member.name == name)
            }
            _ => false,
        }))
    };
    found().unwrap_or(false)
}
