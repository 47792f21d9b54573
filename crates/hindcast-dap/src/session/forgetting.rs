//! Breakpoints that an adapter keeps although it is told of others: the program itself takes them out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Session, ask::Refusal};
use crate::{protocol::DapVariable, transport::ConnectionId};

/// A function that is written in the language is not far from the innermost one.
const MOST_FRAMES: usize = 20;

impl Session {
    /// Takes out what is at lines of a file, as far as that is to be another now. While the program runs, only conditions
    /// matter: stops at what was removed are passed over.
    pub(super) fn forget_lines(
        &mut self,
        connection: ConnectionId,
        file: &str,
        told: &[Value],
    ) -> Result<(), Refusal> {
        if self.profile.forget_line.is_empty() {
            return Ok(());
        }
        let line_of = |one: &Value| one["line"].as_u64().and_then(|line| u32::try_from(line).ok());
        let condition_of = |one: &Value| one["condition"].as_str().map(str::to_owned);
        let now: BTreeMap<_, _> =
            told.iter().filter_map(|one| Some((line_of(one)?, condition_of(one)))).collect();
        let key = (connection, file.to_owned());
        let mut there = self.told_lines.remove(&key).unwrap_or_default();
        let others: Vec<u32> = there
            .iter()
            .filter(|(line, condition)| now.get(line) != Some(*condition))
            .map(|(line, _)| *line)
            .collect();
        let mut refused = Ok(());
        if self.standing.contains_key(&connection) {
            for line in others {
                match self.forget_line(connection, file, line) {
                    Ok(()) => drop(there.remove(&line)),
                    Err(why) => refused = Err(why),
                }
            }
        } else if others.iter().any(|line| now.contains_key(line)) {
            refused = Err(Refusal::Refused(
                "it changes the condition of a breakpoint only while the program stands: pause it first"
                    .into(),
            ));
        }
        there.extend(now.into_iter().filter(|_| refused.is_ok()));
        self.told_lines.insert(key, there);
        refused
    }

    fn forget_line(&mut self, connection: ConnectionId, file: &str, line: u32) -> Result<(), Refusal> {
        let Some(dap) = self.standing.get(&connection).copied() else { return Ok(()) };
        let thread = self.threads.number(connection, dap);
        let frames = self.frames(thread, MOST_FRAMES).unwrap_or_default();
        // Nothing is evaluated in functions that are not written in the language.
        let frame = frames.iter().find(|frame| !frame.name.starts_with("[C]")).map(|frame| frame.id);
        let text = json!(file).to_string().replace('#', "\\#");
        let question = self.profile.forget_line.replace("{file}", &text).replace("{line}", &line.to_string());
        let asked = json!({ "expression": question, "frameId": frame, "context": "watch" });
        self.ask::<DapVariable>(connection, "evaluate", asked).map(drop)
    }
}
