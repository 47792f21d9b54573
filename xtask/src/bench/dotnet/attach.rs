//! Attaching to a program that runs, and letting it go.

use anyhow::Result;
use hindcast_fixtures::dotnet::Runtime;

use super::{Bench, debuggee::Debuggee, figures::Figures, session::Session};

/// How often one program is attached to in a round.
const ATTACHMENTS: usize = 3;

/// To one program again and again, which must go on each time.
pub(super) fn measure(bench: &Bench, runtime: &Runtime, figures: &mut Figures) -> Result<()> {
    let mut debuggee = Debuggee::start(runtime, &bench.server, "ready")?;
    let mut session = Session::start(bench, runtime)?;
    for _ in 0..ATTACHMENTS {
        figures.attach.time(|| session.attach(debuggee.process()))?;
        figures.detach.time(|| session.disconnect())?;
        debuggee.check()?;
    }
    Ok(())
}
