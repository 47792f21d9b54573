//! What the processor says of time and of itself.

use std::{io, time::Duration};

use super::Tid;

pub(crate) fn time_stamp_counter() -> u64 {
    // SAFETY: every x86-64 processor has it, and we are not made to trap on it.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// `eax`, `ebx`, `ecx`, `edx` of a leaf and its part.
pub(crate) fn processor_features(leaf: u32, part: u32) -> [u32; 4] {
    let answer = core::arch::x86_64::__cpuid_count(leaf, part);
    [answer.eax, answer.ebx, answer.ecx, answer.edx]
}

/// How long a process has computed.
pub(crate) fn cpu_time(process: Tid) -> io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: `clock` and `time` live for the calls.
    unsafe {
        let error = libc::clock_getcpuclockid(process.0, &raw mut clock);
        if error != 0 {
            return Err(io::Error::from_raw_os_error(error));
        }
        let mut time: libc::timespec = std::mem::zeroed();
        if libc::clock_gettime(clock, &raw mut time) == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

/// Something that a child of ours tries, which must end it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Trial {
    TimeStampCounter,
    ProcessorFeatures,
}

/// Whether a child that is forbidden something dies of doing it: some systems accept the
/// prohibition and do not keep it.
pub(crate) fn dies_of(trial: Trial) -> bool {
    const ARCH_CPUID_SET: libc::c_long = 0x1012;
    // SAFETY: the child only makes calls that are allowed after a fork, and exits.
    unsafe {
        match libc::fork() {
            -1 => false,
            0 => {
                let forbidden = match trial {
                    Trial::TimeStampCounter => libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) == 0,
                    Trial::ProcessorFeatures => libc::syscall(libc::SYS_arch_prctl, ARCH_CPUID_SET, 0) == 0,
                };
                // Whatever the parent does with the signal is not the child's business.
                libc::signal(libc::SIGSEGV, libc::SIG_DFL);
                if forbidden {
                    match trial {
                        Trial::TimeStampCounter => drop(std::hint::black_box(time_stamp_counter())),
                        Trial::ProcessorFeatures => drop(std::hint::black_box(processor_features(0, 0))),
                    }
                }
                libc::_exit(0)
            }
            child => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0) == child
                    && libc::WIFSIGNALED(status)
                    && libc::WTERMSIG(status) == libc::SIGSEGV
            }
        }
    }
}
