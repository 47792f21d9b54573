//! The second choice: where there are no namespaces, a process can still give up most files, signals and sockets.

use std::path::{Path, PathBuf};

use hindcast_core::debug::Confinement;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::ConfineError;

/// Devices that swallow what is written. Terminals are not among them: those of other users of the machine are in the same folder.
const WRITTEN: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// The newest interface of the kernel that we know.
const NEWEST: ABI = ABI::V6;

/// Refuses a confinement that Landlock cannot keep.
pub(super) fn check(confinement: &Confinement) -> Result<(), ConfineError> {
    let readable: Vec<_> = readable(confinement).collect();
    for hidden in &confinement.hidden {
        if let Some(around) = readable.iter().find(|folder| hidden.starts_with(folder)) {
            let (hidden, readable) = (hidden.clone(), around.clone());
            return Err(ConfineError::CannotHide { hidden, readable });
        }
    }
    match &confinement.workspace {
        Some(workspace) if workspace.read_dir().is_err() => Err(ConfineError::ClosedWorkspace),
        _ => Ok(()),
    }
}

/// Gives up all files but those that the confinement names. Programs cannot make files, because nobody would remove them.
///
/// `has_own_user`: whether the system keeps signals from other processes already.
pub(super) fn restrict(confinement: &Confinement, has_own_user: bool) -> Result<(), String> {
    let in_words = |error: &dyn std::fmt::Display| error.to_string();
    let all = AccessFs::from_all(NEWEST);
    let read = AccessFs::from_read(NEWEST);
    let signals = if has_own_user { CompatLevel::BestEffort } else { CompatLevel::HardRequirement };
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(|error| in_words(&error))?
        .set_compatibility(signals)
        .scope(Scope::from_all(NEWEST))
        .map_err(|error| in_words(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(|error| in_words(&error))?;
    if !confinement.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(|error| in_words(&error))?;
    }
    let mut created = ruleset.create().map_err(|error| in_words(&error))?;
    let written = WRITTEN.iter().map(PathBuf::from);
    let readable = readable(confinement).chain(confinement.workspace.clone());
    let rules = readable.map(|path| (path, read)).chain(written.map(|path| (path, all)));
    // The engine writes to the memory of the program by a file there. That of other processes is closed: who may not trace
    // them may not open it.
    let rules = rules.chain([(PathBuf::from("/proc"), read | AccessFs::WriteFile)]);
    // Our own program, which the engine starts again to find out what it can do here.
    let rules = rules.chain([(PathBuf::from("/proc/self/exe"), read)]);
    for (path, access) in rules {
        created = allow(created, &path, access)?;
    }
    let status = created.restrict_self().map_err(|error| in_words(&error))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce it".into()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

/// What can be read besides the workspace. What is inside of a hidden folder stays hidden.
fn readable(confinement: &Confinement) -> impl Iterator<Item = PathBuf> {
    let system = super::system_paths().chain(["/dev/random", "/dev/urandom"].map(Into::into));
    let is_hidden = |path: &Path| confinement.hidden.iter().any(|hidden| path.starts_with(hidden));
    system.chain(confinement.readable.iter().filter(move |path| !is_hidden(path)).cloned())
}

fn allow(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, String> {
    // What is not there needs no rule.
    let Ok(file) = PathFd::new(path) else { return Ok(ruleset) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEWEST) };
    ruleset.add_rule(PathBeneath::new(file, access)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::ConfinementLimits;

    use super::*;

    #[test]
    fn a_folder_that_cannot_be_hidden_is_refused() {
        let confinement = |readable: &str| Confinement {
            tenant: "t".into(),
            readable: vec![readable.into()],
            hidden: vec!["/srv/data".into()],
            workspace: None,
            network: false,
            limits: ConfinementLimits { memory: 0, processes: 0, files: 0 },
        };
        for around in ["/srv", "/"] {
            assert!(check(&confinement(around)).is_err(), "{around}");
        }
        for beside in ["/srv/builds", "/srv/data2"] {
            check(&confinement(beside)).unwrap();
        }
        let inside = confinement("/srv/data/programs");
        check(&inside).unwrap();
        assert!(!readable(&inside).any(|path| path.starts_with("/srv/data")), "it stays hidden");
    }
}
