//! What comes with a signal.

use libc::{c_int, pid_t};

/// All that the system knows of a signal.
#[derive(Clone, Copy)]
pub(crate) struct SignalInfo(pub(super) libc::siginfo_t);

impl SignalInfo {
    pub(crate) fn number(&self) -> c_int {
        self.0.si_signo
    }

    /// What of it can be told.
    pub(crate) fn details(&self) -> SignalDetails {
        let info = &self.0;
        let faults = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP];
        // A positive code comes from the kernel; then these signals carry an address.
        let carries_address = info.si_code > 0 && info.si_code != libc::SI_KERNEL;
        let address = (carries_address && faults.contains(&info.si_signo))
            // SAFETY: the union holds an address for these signals, and the bytes are initialised.
            .then(|| unsafe { info.si_addr() } as u64);
        // SAFETY: as above; only looked at for signals that a process sent.
        let (sender, value) = unsafe { (info.si_pid(), info.si_value().sival_ptr as u64) };
        let sent = info.si_code <= 0;
        SignalDetails {
            signal: info.si_signo,
            code: info.si_code,
            address,
            sender: sent.then_some(sender),
            value: (info.si_code == libc::SI_QUEUE).then_some(value),
        }
    }
}

/// What is known of a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignalDetails {
    pub(crate) signal: c_int,
    pub(crate) code: c_int,
    /// The address that could not be accessed, or whose instruction failed.
    pub(crate) address: Option<u64>,
    /// The process that sent it.
    pub(crate) sender: Option<pid_t>,
    /// What that process sent along.
    pub(crate) value: Option<u64>,
}

impl SignalDetails {
    /// Whether a timer sent it.
    pub(crate) fn is_by_timer(&self) -> bool {
        const BY_CLOCK: [c_int; 3] = [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF];
        self.code == libc::SI_TIMER || self.code == libc::SI_KERNEL && BY_CLOCK.contains(&self.signal)
    }

    /// Whether we sent it.
    pub(crate) fn is_ours(&self) -> bool {
        self.sender.is_some_and(|sender| sender.unsigned_abs() == std::process::id())
    }
}

/// Such as `SIGSEGV`.
pub(crate) fn signal_name(signal: c_int) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) if signal >= libc::SIGRTMIN() => format!("SIGRTMIN+{}", signal - libc::SIGRTMIN()),
        // Two are kept by the C library for itself.
        Err(_) => format!("SIG{signal}"),
    }
}
