//! Signals while a program is recorded.
//!
//! What a terminal sends (Ctrl-C, Ctrl-\, Ctrl-Z, a hang-up) the program gets as well, because it is in our process group, and
//! it decides what becomes of both of us. What somebody sends to us alone is passed on to it.

use std::fs::File;

use anyhow::{Context, Result};
use nix::{
    sys::{
        signal::{SigSet, Signal, kill, raise},
        signalfd::{SfdFlags, SignalFd, siginfo},
    },
    unistd::Pid,
};
use tokio::sync::mpsc;

const TAKEN: [Signal; 8] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
    Signal::SIGTSTP,
];

/// Those of them that end a program which does not catch them. SIGTSTP stops it.
const ENDING: usize = 7;

/// Where a signal comes from that no process sent; the nix crate does not name it.
const KERNEL: i32 = 0x80;

/// Signals that are sent to us. They do not act on us.
pub(super) struct Signals(mpsc::UnboundedReceiver<siginfo>);

/// One that the program did not get.
pub(super) struct Missed(Signal);

impl Signals {
    /// Takes them from this thread and those that it starts.
    pub(super) fn take() -> Result<Self> {
        let set: SigSet = TAKEN.into_iter().collect();
        set.thread_block().context("cannot hold back signals")?;
        let sent = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC).context("cannot wait for signals")?;
        let (sender, signals) = mpsc::unbounded_channel();
        let listen = move || {
            while let Ok(Some(signal)) = sent.read_signal()
                && sender.send(signal).is_ok()
            {}
        };
        std::thread::Builder::new().name("signals".into()).spawn(listen)?;
        Ok(Self(signals))
    }

    /// The next one that the program did not get from a terminal together with us.
    pub(super) async fn for_the_program(&mut self) -> Missed {
        loop {
            let (signal, from_terminal) = self.next().await;
            if !from_terminal {
                return Missed(signal);
            }
        }
    }

    /// The number of the next one that asks us to end.
    pub(super) async fn ending(&mut self) -> i32 {
        loop {
            let (signal, _) = self.next().await;
            if TAKEN[..ENDING].contains(&signal) {
                return signal as i32;
            }
        }
    }

    /// The next one, and whether the kernel sent it on behalf of a terminal.
    async fn next(&mut self) -> (Signal, bool) {
        loop {
            let Some(sent) = self.0.recv().await else { return std::future::pending().await };
            if let Ok(signal) = Signal::try_from(sent.ssi_signo.cast_signed()) {
                return (signal, sent.ssi_code == KERNEL);
            }
        }
    }
}

impl Missed {
    /// The program may be about to end.
    pub(super) fn pass_on(self, program: u32) {
        if let Ok(pid) = i32::try_from(program) {
            let _ = kill(Pid::from_raw(pid), self.0);
        }
    }
}

/// Stops us as the signal stops the program, so that our shell sees it; returns when we go on. Other signals do nothing.
pub(super) fn stop_with(signal: Option<&str>) {
    let Some(signal) = signal.and_then(|name| name.parse::<Signal>().ok()) else { return };
    if !matches!(signal, Signal::SIGTSTP | Signal::SIGTTIN | Signal::SIGTTOU | Signal::SIGSTOP) {
        return;
    }
    // Without a terminal there is no shell that would let us go on, and whoever lets the program go on does not mean us.
    if File::open("/dev/tty").is_err() {
        return;
    }
    let set: SigSet = [signal].into_iter().collect();
    // Sent while it is held back, so that it acts once, also where the terminal has sent us one. Where nobody could let us
    // go on again, the system does not stop us.
    let _ = set.thread_block().and_then(|()| raise(signal)).and_then(|()| set.thread_unblock());
    if TAKEN.contains(&signal) {
        let _ = set.thread_block();
    }
}
