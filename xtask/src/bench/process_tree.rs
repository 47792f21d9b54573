//! A process and everything it started, as `/proc` shows them.

use std::path::Path;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::machine;

/// Process numbers of `root` and its living descendants, parents before children.
pub(super) fn members(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in std::fs::read_dir("/proc").context("cannot list /proc")? {
        let Some(process) = entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // Whoever ends meanwhile is no member.
        if let Ok(stat) = std::fs::read_to_string(format!("/proc/{process}/stat")) {
            parents.extend(parent(&stat).map(|parent| (process, parent)));
        }
    }
    Ok(descendants(root, &parents))
}

fn parent(stat: &str) -> Option<u32> {
    // The name is in brackets and may contain anything; after it come state and parent.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut found = vec![root];
    let mut index = 0;
    while let Some(&parent) = found.get(index) {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(process, _)| *process));
        index += 1;
    }
    found
}

/// The most memory each of the tree ever had resident, added up, in kB. Whoever runs `debuggee` is left out.
pub(super) fn peak_memory_without(root: u32, debuggee: &Path) -> Result<u64> {
    let runs_debuggee = |process: u32| {
        std::fs::read_link(format!("/proc/{process}/exe")).is_ok_and(|program| program == debuggee)
    };
    let debuggers = members(root)?.into_iter().filter(|process| !runs_debuggee(*process));
    Ok(debuggers.filter_map(|process| machine::memory(process).ok()).map(|memory| memory.peak).sum())
}

/// Ends the whole tree at once. The root is left for its owner to wait for.
pub(super) fn kill_all(root: u32) {
    for process in members(root).unwrap_or_else(|_| vec![root]) {
        if let Ok(process) = i32::try_from(process) {
            // Fails only when it has already ended.
            let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_walked_from_its_root() {
        let parents = [(2, 1), (3, 2), (4, 9), (5, 3), (6, 2)];
        assert_eq!(descendants(2, &parents), [2, 3, 6, 5]);
    }

    #[test]
    fn the_parent_follows_a_name_with_brackets() {
        assert_eq!(parent("7 (a) b) S 41 7 7 0"), Some(41));
    }

    #[test]
    fn we_are_in_our_own_tree() {
        let own = std::process::id();
        assert_eq!(members(own).expect("we are running").first(), Some(&own));
    }
}
