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

/// As good as the processor's own.
pub(crate) fn random_number() -> u64 {
    let mut number = [0; 8];
    // SAFETY: the number is as long as is said. So few bytes always come at once.
    unsafe { libc::getrandom(number.as_mut_ptr().cast(), number.len(), 0) };
    u64::from_ne_bytes(number)
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
