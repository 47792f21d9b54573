//! How a session stands.

use std::sync::Arc;

use hindcast_core::debug::{Breakpoint, HowBegun, Layer, Loss, Recording, Streams, Target, Trigger};

use super::{
    failures,
    search::Search,
    seen_threads::CapturedThreads,
    viewport::{Scene, State},
};
use crate::{Failure, FailureKind};

/// How a session stands, for everybody to see without asking its thread.
#[derive(Debug, Clone)]
pub struct Standing {
    /// What the program does.
    pub state: State,
    /// How many movements were begun.
    pub moves: u64,
    /// What the session is about; none before it has begun.
    pub target: Option<Arc<Target>>,
    /// What keeps the program in; empty where nothing does.
    pub layers: Arc<[Layer]>,
    /// What was to be seen at the last stop.
    pub scene: Option<Arc<Scene>>,
    /// The threads as they were when the program last stood still.
    pub threads: Option<Arc<CapturedThreads>>,
    /// All breakpoints.
    pub breakpoints: Arc<Vec<Breakpoint>>,
    /// What is recorded, as of the last stop; none where the engine never records.
    pub recording: Option<Arc<Recording>>,
    /// Whether somebody asked for a recording.
    pub is_to_be_recorded: bool,
    /// What the program's standard streams are, where it was launched.
    pub streams: Option<Streams>,
    /// The last search through the past that was made from here.
    pub search: Option<Arc<Search>>,
    /// Why that movement could not be made.
    pub problem: Option<(u64, Failure)>,
    /// Why the session ended, where it was not the program that ended.
    pub fault: Option<Arc<Loss>>,
}

impl Standing {
    /// Whether what happens is recorded, as far as that is known.
    pub(super) fn is_recorded(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.active)
    }

    /// What breakpoints have counted that only count, or with `all` any of them.
    pub(super) fn what_was_counted(&self, all: bool) -> Vec<String> {
        /// So many values are told of one; the others are in the list of breakpoints.
        const VALUES: usize = 12;
        let counted = self.breakpoints.iter().filter(|breakpoint| {
            let only_counts = matches!(&breakpoint.trigger, Trigger::Code(code) if code.count_only);
            only_counts || all && breakpoint.hit_count > 0
        });
        let told = |breakpoint: &Breakpoint| {
            let values = breakpoint.counts.iter().take(VALUES);
            let values: Vec<_> = values.map(|count| format!("{} ×{}", count.value, count.hits)).collect();
            let others = breakpoint.counts.len().saturating_sub(VALUES);
            let more = if others > 0 { format!(", {others} other values") } else { String::new() };
            let values = if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) };
            format!("breakpoint {}: {} hits{values}{more}", breakpoint.id, breakpoint.hit_count)
        };
        counted.map(told).collect()
    }

    /// Why the history ends before the present, where it does.
    pub(super) fn why_unrecorded(&self) -> Option<String> {
        let recording = self.recording.as_ref().filter(|recording| !recording.active)?;
        let reason = recording.reason.as_ref().filter(|_| recording.start.is_some())?;
        Some(format!("{reason}; what comes after cannot be visited"))
    }

    /// Whether the session is about a program that another one started.
    pub(super) fn is_followed(&self) -> bool {
        self.target.as_ref().is_some_and(|target| target.followed.is_some())
    }

    /// Where the program came from, where another one was launched.
    pub fn where_followed(&self) -> Option<String> {
        let target = self.target.as_deref()?;
        let from = target.followed.as_ref()?;
        let number = target.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        Some(format!(
            "{}{number} was followed: process {} (`{}`) started it, and `{}` was launched; all other processes run on, \
             untraced",
            target.name, from.parent_pid, from.parent, from.launched
        ))
    }

    /// Whether the session has this process.
    ///
    /// One that can be gone back in may have ended long ago, and its number be another's. As long as it has not it is traced,
    /// which everybody sees. The number of a confined process means nothing to others.
    pub(super) fn holds(&self, pid: u32) -> bool {
        let is_process = |target: &&Arc<Target>| matches!(target.how, HowBegun::Launch | HowBegun::Attach);
        let target = self.target.as_ref().filter(is_process);
        self.state != State::Exited
            && self.layers.is_empty()
            && !self.has_history()
            && target.is_some_and(|target| target.pid == Some(pid))
    }

    /// Whether one can go back.
    pub fn has_history(&self) -> bool {
        self.recording.as_ref().is_some_and(|recording| recording.start.is_some())
    }

    /// Whether the session has ended and what it was attached to has not, as far as anybody knows.
    pub fn has_left_it_running(&self) -> bool {
        let was_attached = self.target.as_ref().is_some_and(|target| target.how == HowBegun::Attach);
        self.fault.as_ref().is_some_and(|loss| !loss.program_ended) && was_attached
    }

    /// Why nothing can be looked at until it stands still.
    pub(super) fn why_busy(&self) -> Failure {
        match self.search.as_ref().and_then(|search| search.running()) {
            Some(number) => failures::searching(number),
            None => failures::running(),
        }
    }

    /// Why there is nothing to look at any more.
    pub(super) fn why_ended(&self) -> Failure {
        if let Some(fault) = &self.fault {
            return Failure::new(FailureKind::NotAttached, format!("the session has ended: {}", fault.why)).hint(
                "begin again with `debugger/launch` or `debugger/attach`; the server's log has the details",
            );
        }
        let ending = self.scene.as_ref().map(|scene| &scene.stop);
        let mut failure = failures::ended();
        if let Some(code) = ending.and_then(|stop| stop.exit_code) {
            failure.details = format!("the program has ended with exit code {code}");
        } else if let Some(signal) = ending.and_then(|stop| stop.signal.as_ref()) {
            failure.details = format!("the program was ended by {}", signal.name);
        }
        let raised = ending.filter(|stop| stop.exception.is_some()).and_then(|stop| stop.detail.as_deref());
        if let Some(raised) = raised.filter(|raised| raised.contains("raised at moment")) {
            failure = failure.hint(format!("{raised}; `debugger/goto` that moment, then ask again"));
        } else if self.has_history() {
            failure = failure.hint(
                "its past is there: `debugger/reverse_continue` or `debugger/step_backward` go back before its end; \
                 `debugger/restart` starts it again",
            );
        }
        failure
    }
}
