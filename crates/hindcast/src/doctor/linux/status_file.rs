//! What `/proc/self/status` says about this process.

use super::read_setting;

/// Bit of CAP_SYS_PTRACE in a capability mask.
const CAP_SYS_PTRACE: u32 = 19;

pub(super) struct StatusFile {
    text: String,
}

impl StatusFile {
    pub(super) fn of_this_process() -> Self {
        Self { text: read_setting("/proc/self/status").unwrap_or_default() }
    }

    /// CAP_SYS_PTRACE: other users' processes too, whatever Yama says short of 3.
    pub(super) fn may_trace_anything(&self) -> bool {
        let mask = self.field("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        mask.is_some_and(|mask| mask >> CAP_SYS_PTRACE & 1 == 1)
    }

    /// 0: none, 1: strict, 2: a filter. `None` when the kernel has no seccomp.
    pub(super) fn seccomp_mode(&self) -> Option<u8> {
        self.field("Seccomp")?.parse().ok()
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(field, _)| *field == name).map(|(_, value)| value.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "Name:\tcat\nCapEff:\t0000000000080000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let status = StatusFile { text: text.to_owned() };
        assert!(status.may_trace_anything());
        assert_eq!(status.seccomp_mode(), Some(2));
        let without = StatusFile { text: "CapEff:\t0000000000000000\n".to_owned() };
        assert!(!without.may_trace_anything());
        assert_eq!(without.seccomp_mode(), None);
    }

    #[test]
    fn this_process_has_a_status() {
        assert!(StatusFile::of_this_process().field("Pid").is_some());
    }
}
