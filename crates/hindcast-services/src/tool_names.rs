//! What the client calls the tools, and remedies in those words.

use std::borrow::Cow;

use hindcast_core::debug::Remedy;

/// How tool names are listed. Both spellings are always understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNames {
    /// `debugger/attach`, the contract's.
    #[default]
    Slash,
    /// `debugger_attach`, for clients that refuse a slash.
    Underscore,
}

impl ToolNames {
    /// `name` as it is listed.
    pub fn spell(self, name: &'static str) -> Cow<'static, str> {
        match self {
            Self::Slash => name.into(),
            Self::Underscore => name.replace('/', "_").into(),
        }
    }

    /// A text of ours that names tools between backquotes, with the names as they are listed.
    pub fn spell_in(self, text: &str) -> Cow<'_, str> {
        const GROUPS: [&str; 3] = ["debugger", "knowledge", "workspace"];
        match self {
            Self::Slash => text.into(),
            Self::Underscore => GROUPS
                .iter()
                .fold(text.to_owned(), |text, group| {
                    text.replace(&format!("`{group}/"), &format!("`{group}_"))
                })
                .into(),
        }
    }

    /// A remedy as part of a sentence, with the tool as it is listed.
    pub fn say(self, remedy: &Remedy) -> Cow<'_, str> {
        let with = |what: &str, tool| format!("{what} with `{}`", self.spell(tool)).into();
        let tool = |tool, does: &str| format!("`{}` {does}", self.spell(tool)).into();
        match remedy {
            Remedy::Launch => with("launch the program", "debugger/launch"),
            Remedy::LaunchRecorded => tool("debugger/launch", "it again with `record` true"),
            Remedy::Restart => with("start it again", "debugger/restart"),
            Remedy::Autopsy => with("look at it", "debugger/autopsy"),
            Remedy::ListBreakpoints => tool("debugger/status", "lists them"),
            Remedy::ListThreads => tool("debugger/get_threads", "lists them"),
            Remedy::ListVariables => tool(
                "debugger/get_variables",
                "lists the names that are known here; each `frame` has its own",
            ),
            Remedy::ListModules => tool("debugger/get_modules", "shows what is loaded"),
            Remedy::ListMoments => tool("debugger/timeline", "lists some"),
            Remedy::ShowStack => tool("debugger/get_stack_trace", "lists them"),
            Remedy::ShowCode => tool("debugger/disassemble", "shows where code is"),
            Remedy::GoToPresent => with("go to the present first,", "debugger/goto"),
            Remedy::AskAt(moment) => tool("debugger/goto", &format!("with moment {moment} and ask there")),
            Remedy::AskWhen(when) => {
                tool("debugger/goto", &format!("a moment at which {when} and ask there"))
            }
            Remedy::GoBack => {
                let goto = self.spell("debugger/goto");
                format!("go back with `{}` or `{goto}`", self.spell("debugger/reverse_continue")).into()
            }
            Remedy::GoBackToBreakpoint => {
                let back = self.spell("debugger/reverse_continue");
                format!("set a breakpoint there, and `{back}`").into()
            }
            Remedy::ExportTrace => tool("debugger/export_trace", "writes one with `format` binary"),
            Remedy::RunDoctor => "`hindcast doctor` says what this machine allows".into(),
            Remedy::Advice(text) => self.spell_in(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Failure, FailureKind};

    #[test]
    fn a_remedy_names_the_tool_as_the_client_lists_it() {
        let failure = Failure::new(FailureKind::NotAttached, "the program has ended")
            .remedied(vec![Remedy::Restart, Remedy::advice("or do without")]);
        let said = |names| failure.advice(names).unwrap();
        assert_eq!(said(ToolNames::Slash), "start it again with `debugger/restart`; or do without");
        assert_eq!(said(ToolNames::Underscore), "start it again with `debugger_restart`; or do without");
        let text = "`debugger/wait` for it, or `knowledge/search`; not `debugger://session`";
        assert_eq!(ToolNames::Slash.spell_in(text), text);
        let spelled = "`debugger_wait` for it, or `knowledge_search`; not `debugger://session`";
        assert_eq!(ToolNames::Underscore.spell_in(text), spelled);
        assert_eq!(
            failure.to_string(),
            "the program has ended · hint: start it again with `debugger/restart`; or do without"
        );
    }
}
