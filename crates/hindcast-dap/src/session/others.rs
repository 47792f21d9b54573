//! Processes that the program starts and that are not followed: they are named once.

use std::fs;

use super::Session;
use crate::profile::Follows;

/// So many are named at one stop.
const MOST_NAMED: usize = 3;
/// Shells only start others, which are named in their place.
const SHELLS: [&str; 5] = ["sh", "bash", "dash", "zsh", "busybox"];

impl Session {
    /// Notes for the next stop which processes have appeared below the program and have no connection.
    pub(super) fn name_others(&mut self) {
        let Some(pid) = self.target.pid.filter(|_| !self.was_attached) else { return };
        let mut parents = vec![pid];
        parents.extend(&self.known_children);
        let mut new: Vec<(u32, String)> = Vec::new();
        while let Some(parent) = parents.pop() {
            for child in children_of(parent) {
                if self.known_children.contains(&child) {
                    continue;
                }
                let Some(name) = name_of(child) else { continue };
                if SHELLS.contains(&name.as_str()) && !children_of(child).is_empty() {
                    parents.push(child);
                } else if !self.may_be_followed(child, parent) && self.named_others.insert(child) {
                    new.push((child, name));
                }
            }
        }
        new.sort_unstable();
        let more = new.len().saturating_sub(MOST_NAMED);
        for (child, name) in new.into_iter().take(MOST_NAMED) {
            self.notes
                .push(format!("process {child} (`{name}`) was started by the program and is not followed"));
        }
        if more > 0 {
            self.notes.push(format!("{more} more processes are not followed"));
        }
    }

    /// Whether the adapter follows such processes, perhaps a moment later.
    fn may_be_followed(&self, pid: u32, parent: u32) -> bool {
        match self.profile.follows {
            Follows::Nothing => false,
            Follows::Forks => stack_of(pid) == stack_of(parent),
            Follows::Interpreters => {
                let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
                self.profile.is_interpreter(&program)
            }
        }
    }
}

/// The processes that a process has started; none where the system does not tell.
fn children_of(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let listed: Vec<String> = listed.collect();
    listed.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

/// What a process that has not ended is called.
fn name_of(pid: u32) -> Option<String> {
    let (name, fields) = status_of(pid)?;
    (!matches!(fields.first().map(String::as_str), Some("Z" | "X"))).then_some(name)
}

/// Where a process's first stack begins: a fork has it from whom it was forked, another program gets one of its own.
fn stack_of(pid: u32) -> Option<String> {
    // The 28th field; the first here is the third.
    status_of(pid)?.1.into_iter().nth(25)
}

/// The name, and all that stands behind it.
fn status_of(pid: u32) -> Option<(String, Vec<String>)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, but ends with the last parenthesis.
    let (head, rest) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    Some((name.to_owned(), rest.split_whitespace().map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processes_are_found_below_whoever_started_them() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(children_of(std::process::id()).contains(&pid));
        assert!(children_of(pid).is_empty());
        assert!(stack_of(pid).is_some());
        // Another program runs in it only a moment later.
        while name_of(pid).as_deref() != Some("cat") {
            std::thread::yield_now();
        }
        assert_ne!(stack_of(pid), stack_of(std::process::id()), "it is another program");
        drop(child.stdin.take());
        while name_of(pid).is_some() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }
}
