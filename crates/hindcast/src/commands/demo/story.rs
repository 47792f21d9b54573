//! What the demo shows, step by step. The same calls are there for every MCP client.

use std::{io::Write, path::PathBuf};

use anyhow::Result;
use hindcast_core::{
    debug::{Destination, FrameRef, Movement, StopAtEntry, Streams, Watched},
    identity::Caller,
};
use hindcast_services::{
    Failure,
    debug::{DebugService, FoundWrite, LaunchOptions, Mask, Session, State, Viewport},
};

use crate::commands::usual_patience;

/// What the story is about.
pub(super) struct Scenery {
    pub(super) program: PathBuf,
    /// How the program was compiled.
    pub(super) compiled: String,
    pub(super) source: String,
    /// The value that turns out to be wrong.
    pub(super) expression: String,
}

/// Prints headings and what belongs below them.
pub(super) struct Teller<W> {
    out: W,
    chapter: u32,
}

impl<W: Write> Teller<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, chapter: 0 }
    }

    fn heading(&mut self, text: &str) -> Result<()> {
        self.chapter += 1;
        writeln!(self.out, "\n{}. {text}\n", self.chapter)?;
        Ok(self.out.flush()?)
    }

    fn say(&mut self, text: &str) -> Result<()> {
        for line in text.lines() {
            writeln!(self.out, "   {line}")?;
        }
        Ok(self.out.flush()?)
    }
}

/// Tells the whole story; false where it could not be told to its end.
pub(super) async fn tell<W: Write>(
    service: &DebugService,
    scenery: &Scenery,
    teller: &mut Teller<W>,
) -> Result<bool> {
    teller.heading("A program that corrupts its own memory")?;
    teller.say(&format!("Compiled with `{}`. This is all of it:\n\n", scenery.compiled))?;
    for (number, line) in (1..).zip(scenery.source.lines()) {
        teller.say(&format!("{number:>4} | {line}"))?;
    }
    let (session, crash) = run_to_the_crash(service, scenery, teller).await?;
    if crash.state != State::Paused {
        teller.say("It did not crash, so there is nothing to find out. That is a mistake of this demo.")?;
        return Ok(false);
    }
    let told = find_the_culprit(&session, scenery, teller).await?;
    teller.heading("The same from an MCP client")?;
    teller.say(&how_to(scenery))?;
    Ok(told)
}

async fn run_to_the_crash<W: Write>(
    service: &DebugService,
    scenery: &Scenery,
    teller: &mut Teller<W>,
) -> Result<(std::sync::Arc<Session>, Viewport)> {
    teller.heading("It runs, and is recorded (debugger/launch, debugger/continue)")?;
    let options = LaunchOptions {
        program: scenery.program.clone(),
        stop_at_entry: StopAtEntry::Main,
        // What it printed is to be seen where it crashed.
        streams: Streams::Terminal,
        record: true,
        ..LaunchOptions::default()
    };
    let caller = Caller::local();
    let (session, _) = service.launch(&caller, options, Mask::new(true), &usual_patience()).await?;
    let crash = session.travel(Movement::Continue, &usual_patience()).await?;
    let printed = session.read_output(Some(0), 4096, None).output;
    teller.say(&format!("{}{}", printed.stdout, printed.stderr))?;
    if crash.state == State::Paused {
        let autopsy = session.autopsy(5, 1).await?;
        teller.say(&format!("\nIt crashed: {}\n", autopsy.summary))?;
        show_source(&crash, teller)?;
        let summary = format!(
            "\nThat line is innocent: it only uses `{}`. Who made that value what it is?\n\
             With an ordinary debugger one would now guess, set breakpoints, and start again.",
            scenery.expression
        );
        teller.say(&summary)?;
    }
    Ok((session, crash))
}

async fn find_the_culprit<W: Write>(
    session: &Session,
    scenery: &Scenery,
    teller: &mut Teller<W>,
) -> Result<bool> {
    teller.heading(&format!("Who wrote it? (debugger/last_write `{}`)", scenery.expression))?;
    let writes = match last_write(session, scenery).await {
        Ok(writes) => writes,
        Err(failure) => {
            teller.say(&format!("It cannot be asked here: {failure}"))?;
            return Ok(false);
        }
    };
    let Some(write) = writes.first() else {
        teller.say("Nobody since the start of the recording. That is a mistake of this demo.")?;
        return Ok(false);
    };
    show_write(write, teller)?;
    teller.heading("Back to that moment (debugger/goto)")?;
    let destination = Movement::Goto(Destination::Moment(write.moment.clone()));
    let there = session.travel(destination, &usual_patience()).await?;
    show_source(&there, teller)?;
    for local in &there.locals {
        teller.say(&format!("       {}: {} = {}", local.name, local.type_name, local.value))?;
    }
    let summary = "\nNothing was run again and nothing was guessed: the program stands where it stood then, with \
                   the values of then.\nFrom here one can step back and forth (debugger/step_backward, \
                   debugger/step_forward) and look at everything.";
    teller.say(summary)?;
    Ok(true)
}

async fn last_write(session: &Session, scenery: &Scenery) -> Result<Vec<FoundWrite>, Failure> {
    let frame: FrameRef = session.frame(None, None)?;
    let watched = Watched::Expression { text: scenery.expression.clone(), frame };
    session.last_write(watched, 1, &usual_patience()).await?.found()
}

fn show_write<W: Write>(write: &FoundWrite, teller: &mut Teller<W>) -> Result<()> {
    let function = write.location.function.as_deref().unwrap_or("??");
    let line = write.location.line.map(|line| line.to_string()).unwrap_or_default();
    teller.say(&format!("`{function}`, on line {line}:\n\n"))?;
    teller.say(&format!("{line:>4} | {}", write.text.as_deref().unwrap_or("(no source)")))?;
    teller.say(&format!("\nbefore: {}\nafter:  {}", write.old, write.new))?;
    if let Some(caller) = write.stack.get(1) {
        let line = caller.line.map(|line| format!(" on line {line}")).unwrap_or_default();
        teller.say(&format!("called by `{}`{line}", caller.function))?;
    }
    Ok(())
}

fn show_source<W: Write>(view: &Viewport, teller: &mut Teller<W>) -> Result<()> {
    for line in &view.source {
        let mark = if line.current { '>' } else { ' ' };
        teller.say(&format!("{mark}{:>4} | {}", line.line, line.text))?;
    }
    Ok(())
}

fn how_to(scenery: &Scenery) -> String {
    format!(
        "hindcast mcp install --client claude-code     (or claude-desktop, vscode, cursor)\n\n\
         Then ask the agent: \"/path/to/program crashes. Find out why with hindcast.\" It calls:\n\n  \
         debugger/launch      {{\"program\": \"/path/to/program\"}}\n  \
         debugger/continue    {{}}\n  \
         debugger/autopsy     {{}}\n  \
         debugger/last_write  {{\"expression\": \"{}\"}}\n  \
         debugger/goto        {{\"moment\": \"…\"}}\n  \
         debugger/step_backward {{\"granularity\": \"over\"}}\n\n\
         `hindcast record -- PROGRAM ARGS…` does the first three from the command line.",
        scenery.expression
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hindcast_core::debug::fake::{FakeEngine, FakeProgram};
    use hindcast_services::{Events, debug::TargetPolicy};

    use super::*;
    use crate::wiring::SystemClock;

    async fn told(program: FakeProgram) -> (bool, String) {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(FakeEngine::new(program));
        let policy = TargetPolicy::default();
        let service =
            DebugService::new(policy, Some(engine.clone()), Events::default(), Arc::new(SystemClock));
        let scenery = Scenery {
            program: folder.path().join("program"),
            compiled: "cc -g".into(),
            source: "int main(void)\n{\n}\n".into(),
            expression: "currency".into(),
        };
        std::fs::write(&scenery.program, "").unwrap();
        let mut text = Vec::new();
        let told = tell(&service, &scenery, &mut Teller::new(&mut text)).await.unwrap();
        service.end_all().await;
        assert_eq!(engine.alive(), 0);
        (told, String::from_utf8(text).unwrap())
    }

    #[tokio::test]
    async fn the_story_goes_from_the_crash_to_the_guilty_line() {
        let (ended_well, text) = told(FakeProgram::overrun()).await;
        assert!(ended_well, "{text}");
        let expected = [
            "2. It runs, and is recorded",
            "   renamed",
            "It crashed: SIGSEGV",
            "3. Who wrote it? (debugger/last_write `currency`)",
            "`rename_owner`, on line 20:",
            "before: 0x500000 \"EUR\"",
            "after:  0x42424242",
            "called by `main` on line 11",
            "4. Back to that moment",
            "5. The same from an MCP client",
        ];
        let mut rest = text.as_str();
        for part in expected {
            let at = rest.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{text}"));
            rest = &rest[at..];
        }
    }

    #[tokio::test]
    async fn a_story_that_cannot_be_told_says_so() {
        let (ended_well, text) = told(FakeProgram::counter("/src/counter.c")).await;
        assert!(!ended_well && text.contains("It did not crash"), "{text}");
    }
}
