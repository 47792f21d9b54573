//! Steps, and looks at variables.

use std::time::Instant;

use anyhow::Result;
use hindcast_fixtures::dotnet::{DotnetProgram, Runtime};

use super::{
    Bench,
    figures::{Figures, Looks},
    session::Session,
};
use crate::bench::series::Series;

/// Whom `Hello` greets: enough rounds of its loop for all steps.
const NAMES: [&str; 8] = ["Ann", "Bob", "Cid", "Dan", "Eve", "Fay", "Gus", "Hal"];
/// Steps that stay within the loop of `Hello`, which has five for each name.
const STEPS_IN_LOOP: usize = 30;
/// Steps that stay in the frame with collections.
const STEPS_WITH_COLLECTIONS: usize = 8;

/// How often a condition is tried in a session.
const HITS: u32 = 200;

/// One session with each program, and one with a condition.
pub(super) fn measure(bench: &Bench, runtime: &Runtime, figures: &mut Figures) -> Result<()> {
    let simple = Frame { program: &bench.hello, arguments: &NAMES, mark: "greeting", variable: "args" };
    simple.look(bench, runtime, STEPS_IN_LOOP, &mut figures.simple)?;
    let collections = Frame {
        program: &bench.values,
        arguments: &[],
        mark: "collections",
        variable: "immutableDictionary",
    };
    figures.peak_memory =
        collections.look(bench, runtime, STEPS_WITH_COLLECTIONS, &mut figures.collections)?;
    condition(bench, runtime, &mut figures.condition)
}

/// A breakpoint in a loop that stops in the last round.
fn condition(bench: &Bench, runtime: &Runtime, series: &mut Series) -> Result<()> {
    let mut session = Session::start(bench, runtime)?;
    session.launch(&bench.hello, &["Ann"; HITS as usize + 1])?;
    session.break_if(&bench.hello, "greeting", &format!("index == {HITS}"))?;
    let begin = Instant::now();
    session.run()?;
    series.push(begin.elapsed() / HITS);
    session.disconnect()
}

/// A frame that is looked at.
struct Frame<'a> {
    program: &'a DotnetProgram,
    arguments: &'a [&'a str],
    /// Where it is first stopped in.
    mark: &'a str,
    /// One that it always has.
    variable: &'a str,
}

impl Frame<'_> {
    /// Returns the most memory that was resident meanwhile, in kB.
    fn look(&self, bench: &Bench, runtime: &Runtime, steps: usize, looks: &mut Looks) -> Result<u64> {
        let mut session = Session::start(bench, runtime)?;
        session.launch(self.program, self.arguments)?;
        session.run_to(self.program, self.mark)?;
        looks.first_locals.time(|| session.locals(self.variable))?;
        for _ in 0..steps {
            looks.step.time(|| session.step())?;
            looks.locals.time(|| session.locals(self.variable))?;
        }
        let peak_memory = session.peak_memory(runtime)?;
        session.disconnect()?;
        Ok(peak_memory)
    }
}
