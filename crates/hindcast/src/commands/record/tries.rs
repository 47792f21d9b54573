//! `hindcast record --until-failure`: runs a program again and again, each time with another schedule of its threads, until
//! one run fails.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use hindcast_core::{
    debug::{Movement, Stdin, Streams},
    identity::Caller,
};
use hindcast_services::debug::{DebugService, LaunchOptions, Mask, Session, State, Until, Viewport};

use super::{is_crash, signals::Signals};
use crate::commands::patience;

/// How long to try.
pub(super) struct Limits {
    /// The seed of the first schedule; each next one is greater by one.
    pub(super) first_seed: u64,
    pub(super) tries: u64,
    /// A program that has not ended after so long hangs.
    pub(super) hang_after: Duration,
}

/// What came of all tries.
pub(super) enum Tried {
    Failed(Box<Failed>),
    AllPassed,
    /// Somebody sent us this signal.
    Ended(i32),
}

/// A run that failed.
pub(super) struct Failed {
    pub(super) session: Arc<Session>,
    pub(super) view: Viewport,
    pub(super) seed: u64,
    pub(super) hangs: bool,
    /// How long this run took.
    pub(super) took: Duration,
}

/// Runs the program until it exits with another code than 0, is ended by a signal, fails an assertion, or hangs.
pub(super) async fn until_failure(
    service: &DebugService,
    caller: &Caller,
    launch: LaunchOptions,
    limits: &Limits,
    signals: &mut Signals,
) -> Result<Tried> {
    let launch = LaunchOptions { streams: Streams::Pipes, stdin: Stdin::Text(String::new()), ..launch };
    for seed in (0..limits.tries).map(|tried| limits.first_seed.wrapping_add(tried)) {
        let launch = LaunchOptions { chaos: Some(seed), ..launch.clone() };
        let started = Instant::now();
        let (session, _) = service.launch(caller, launch, Mask::new(false), &patience(0)).await?;
        let ended = tokio::select! {
            view = to_its_end(&session) => Some(view?),
            () = tokio::time::sleep(limits.hang_after) => None,
            signal = signals.ending() => return Ok(Tried::Ended(signal)),
        };
        let (view, hangs) = match ended {
            Some(view) if view.state == State::Exited && view.exit_code == Some(0) => {
                service.disconnect(caller, None, None).await?;
                continue;
            }
            Some(view) => (view, false),
            None => (session.pause().await?, true),
        };
        let took = started.elapsed();
        return Ok(Tried::Failed(Box::new(Failed { session, view, seed, hangs, took })));
    }
    Ok(Tried::AllPassed)
}

async fn to_its_end(session: &Arc<Session>) -> Result<Viewport> {
    loop {
        let view = session.wait(Until::Stopped, &patience(u64::MAX)).await;
        match view.state {
            State::Running => {}
            State::Exited => return Ok(view),
            State::Paused if is_crash(session, &view) => return Ok(view),
            State::Paused => drop(session.depart(Movement::Continue).await?),
        }
    }
}
