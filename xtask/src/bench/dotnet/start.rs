//! From the start of a program to `Main`, alone and with a debugger.

use std::time::Instant;

use anyhow::Result;
use hindcast_fixtures::dotnet::Runtime;

use super::{Bench, debuggee::Debuggee, figures::Figures, session::Session};

/// How often each is started in a round: these times scatter the most.
const STARTS: usize = 3;

/// Alone and debugged in turns.
pub(super) fn measure(bench: &Bench, runtime: &Runtime, figures: &mut Figures) -> Result<()> {
    for _ in 0..STARTS {
        figures.undebugged.time(|| Debuggee::start(runtime, &bench.begin, "begun"))?;
        let start = Instant::now();
        let mut session = Session::start(bench, runtime)?;
        let launch = Instant::now();
        session.launch(&bench.begin, &[])?;
        figures.stop_from_launch.push(launch.elapsed());
        figures.stop_from_start.push(start.elapsed());
        session.run_to(&bench.begin, "end")?;
        figures.breakpoint_from_launch.push(launch.elapsed());
        session.disconnect()?;
    }
    Ok(())
}
