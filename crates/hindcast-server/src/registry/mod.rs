//! Where tools, resources and prompts are declared once and everything else is derived.

mod prompt;
mod resource;
mod schema;
mod tool;
mod window;

use std::collections::HashMap;

pub(crate) use prompt::{Prompt, PromptArgument};
pub(crate) use resource::{Content, ResourceEntry, ResourceRoom, TemplateEntry};
pub(crate) use tool::{
    Answer, Attachment, Call, Declaration, Effects, Finished, Manner, RegisteredTool, Reply, Tool,
};
pub(crate) use window::Window;

/// Longer names are not compared with those of the tools.
const LONGEST_COMPARED: usize = 100;

/// Everything that can be asked for.
#[derive(Default)]
pub(crate) struct Registry {
    tools: Vec<RegisteredTool>,
    by_name: HashMap<String, usize>,
    /// By the name without its group, as the contract writes `export_trace`; none where two groups have it.
    by_short_name: HashMap<&'static str, Option<usize>>,
    rooms: Vec<Box<dyn ResourceRoom>>,
    prompts: Vec<Prompt>,
}

impl Registry {
    /// Adds a tool under both spellings of its name.
    ///
    /// # Panics
    ///
    /// When the name is taken: two declarations of one tool are a mistake in the program.
    pub(crate) fn add_tool(&mut self, tool: impl Tool) {
        let tool = RegisteredTool::new(tool);
        let index = self.tools.len();
        let name = tool.declaration.name;
        for spelling in [name.to_owned(), name.replace('/', "_")] {
            let taken = self.by_name.insert(spelling, index);
            assert!(taken.is_none_or(|taken| taken == index), "tool `{name}` is declared twice");
        }
        if let Some((_, short)) = name.split_once('/') {
            self.by_short_name.entry(short).and_modify(|taken| *taken = None).or_insert(Some(index));
        }
        self.tools.push(tool);
    }

    pub(crate) fn add_room(&mut self, room: impl ResourceRoom) {
        self.rooms.push(Box::new(room));
    }

    pub(crate) fn add_prompt(&mut self, prompt: Prompt) {
        self.prompts.push(prompt);
    }

    pub(crate) fn tools(&self) -> &[RegisteredTool] {
        &self.tools
    }

    pub(crate) fn rooms(&self) -> &[Box<dyn ResourceRoom>] {
        &self.rooms
    }

    pub(crate) fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// The tool of that name, in either spelling, with its group or without.
    pub(crate) fn tool(&self, name: &str) -> Option<&RegisteredTool> {
        let short = || self.by_short_name.get(name).copied().flatten();
        self.by_name.get(name).copied().or_else(short).map(|index| &self.tools[index])
    }

    /// The known tool whose name is most like `name`.
    pub(crate) fn nearest_tool(&self, name: &str) -> Option<&'static str> {
        // No tool is like a long one, and comparing takes as long as both are.
        if name.len() > LONGEST_COMPARED {
            return None;
        }
        let likeness = |known: &str| strsim::normalized_damerau_levenshtein(known, &name.replace('_', "/"));
        self.tools
            .iter()
            .map(|tool| tool.declaration.name)
            .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
            .filter(|nearest| likeness(nearest) > 0.5)
    }
}
