//! Prompts: ways of working that a person can pick.

use hindcast_core::debug::CompletionKind;
use hindcast_services::Failure;
use serde_json::{Map, Value};

/// A prompt as it is declared.
pub(crate) struct Prompt {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) arguments: &'static [PromptArgument],
    /// The text for these arguments.
    pub(crate) render: fn(&Map<String, Value>) -> Result<String, Failure>,
}

/// A blank to be filled in.
pub(crate) struct PromptArgument {
    pub(crate) name: &'static str,
    pub(crate) description: &'static str,
    pub(crate) required: bool,
    /// What it may usefully be.
    pub(crate) suggestions: &'static [&'static str],
    /// What of the current debug session it may be.
    pub(crate) completes: Option<CompletionKind>,
}
