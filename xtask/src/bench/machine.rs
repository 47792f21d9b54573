//! Facts about the machine and its processes, as the kernel tells them.

use anyhow::{Context, Result};

use super::process_tree;
use crate::workspace::DIST;

/// Resident memory of a process.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    /// Now, in kB.
    pub(super) resident: u64,
    /// The part of that which is no file that is mapped, in kB.
    pub(super) anonymous: u64,
    /// The most it ever was, in kB.
    pub(super) peak: u64,
}

/// Reads `/proc/<process>/status`.
pub(super) fn memory(process: u32) -> Result<Memory> {
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let field = |name| field(&status, name).with_context(|| format!("{path} has no {name}"));
    Ok(Memory { resident: field("VmRSS:")?, anonymous: field("RssAnon:")?, peak: field("VmHWM:")? })
}

fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Cores, processor and kernel, and the profile of what is measured, in one line; nothing that names the machine.
pub(super) fn describe() -> Result<String> {
    describe_with(DIST)
}

/// The same where what is measured was built with another profile.
pub(super) fn describe_with(profile: &str) -> Result<String> {
    let cores = std::thread::available_parallelism()?;
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").context("cannot read /proc/cpuinfo")?;
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| rest.trim_start_matches([' ', '\t', ':']));
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").context("cannot read the kernel's release")?;
    // What follows the numbers can name a provider or a machine.
    let kernel: String =
        release.chars().take_while(|character| character.is_ascii_digit() || *character == '.').collect();
    let kernel = kernel.trim_end_matches('.');
    Ok(format!("{cores} cores, {model}, Linux {kernel}, built with the `{profile}` profile"))
}

/// Watches how much of the processor goes to neither us nor anything below us that is still alive: for whoever starts
/// more than one process.
pub(super) struct TreeWatch {
    begin: Ticks,
}

impl TreeWatch {
    /// Starts watching.
    pub(super) fn start() -> Result<Self> {
        Ok(Self { begin: Ticks::read_tree()? })
    }

    /// The neighbours' share since the start, from 0 to 1.
    pub(super) fn share(&self) -> Result<f64> {
        Ok(Ticks::read_tree()?.neighbours_share_since(&self.begin))
    }
}

/// Time in the kernel's ticks.
struct Ticks {
    /// Of all processors, whatever they did.
    total: u64,
    /// Of all processors, doing something or being taken away by the host.
    busy: u64,
    /// Of this process, those below it, and their children that have ended.
    ours: u64,
}

impl Ticks {
    fn read_tree() -> Result<Self> {
        let stat = std::fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        // Whoever ends meanwhile is counted by its parent, or not at all.
        let processes = process_tree::members(std::process::id())?
            .into_iter()
            .filter_map(|process| std::fs::read_to_string(format!("/proc/{process}/stat")).ok());
        Self::parse(&stat, processes).context("the kernel's times have an unknown form")
    }

    fn parse(stat: &str, processes: impl IntoIterator<Item = String>) -> Option<Self> {
        let (total, busy) = machine_times(stat)?;
        let times = processes.into_iter().filter_map(|stat| process_times(&stat));
        Some(Self { total, busy, ours: times.flatten().sum() })
    }

    fn neighbours_share_since(&self, begin: &Self) -> f64 {
        let total = self.total.saturating_sub(begin.total).max(1);
        let busy = self.busy.saturating_sub(begin.busy);
        let ours = self.ours.saturating_sub(begin.ours);
        busy.saturating_sub(ours) as f64 / total as f64
    }
}

/// All time of all processors, then the part in which they did something, from `/proc/stat`.
fn machine_times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let [user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen, ..] = ticks[..] else {
        return None;
    };
    // Interrupts are the loopback network's, and so belong to the load. Guests are already in `user`.
    let busy = user + nice + system + stolen;
    Some((busy + idle + waiting + interrupts + soft_interrupts, busy))
}

/// User and system time of a process, then those of its children that have ended, from `/proc/<process>/stat`.
fn process_times(stat: &str) -> Option<[u64; 4]> {
    // The name is in brackets and may contain anything; after it come state and numbers.
    let (_, fields) = stat.rsplit_once(") ")?;
    let times: Vec<u64> =
        fields.split(' ').skip(11).take(4).map(str::parse).collect::<Result<_, _>>().ok()?;
    times.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_what_is_neither_idle_nor_ours() {
        let process = |times: &str| format!("7 (a) b) S 1 7 7 0 -1 4194560 1 2 3 4 {times} 20 0 1 0 5 6 7");
        let ticks = |cpu: &str, server: &str, own: &str| {
            Ticks::parse(&format!("cpu  {cpu}\ncpu0 1\n"), [process(server), process(own)])
                .expect("known forms")
        };
        let begin = ticks("100 0 100 700 0 0 0 0 0 0", "50 50 9 9", "1 1 1 1");
        let end = ticks("150 0 120 710 0 5 5 10 0 0", "70 60 9 9", "2 2 8 12");
        // 100 ticks went by, 80 of them busy; the server had 30, we and our children 20.
        assert!((end.neighbours_share_since(&begin) - 0.3).abs() < 1e-9);
    }

    #[test]
    fn our_own_times_can_be_read() {
        let watch = TreeWatch::start().expect("we are running");
        assert!((0.0..=1.0).contains(&watch.share().expect("still running")));
    }

    #[test]
    fn a_field_is_read_without_its_unit() {
        assert_eq!(field("Name:\tx\nVmRSS:\t   18232 kB\n", "VmRSS:"), Some(18232));
        assert_eq!(field("Name:\tx\n", "VmRSS:"), None);
    }

    #[test]
    fn our_own_memory_can_be_read() {
        let memory = memory(std::process::id()).expect("we are running");
        assert!(memory.anonymous > 0 && memory.resident > memory.anonymous);
        assert!(memory.peak >= memory.resident);
    }
}
