//! The second choice: where there are no namespaces, a process can still give up most files, signals and sockets.

use std::path::PathBuf;

use hindcast_core::debug::Confinement;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// What may be written in any case; all of it belongs to nobody.
const WRITTEN: [&str; 6] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts"];

/// Gives up all files but those that the confinement names. None can be made: whoever made them would have to remove them.
pub(super) fn restrict(confinement: &Confinement) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let abi = ABI::V6;
    let all = AccessFs::from_all(abi);
    let read = AccessFs::from_read(abi);
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .map_err(|error| told(&error))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)
        .map_err(|error| told(&error))?
        .scope(Scope::from_all(abi))
        .map_err(|error| told(&error))?;
    if !confinement.network {
        ruleset = ruleset.handle_access(AccessNet::from_all(abi)).map_err(|error| told(&error))?;
    }
    let mut created = ruleset.create().map_err(|error| told(&error))?;
    let system = super::system_paths().chain(["/proc", "/dev/random", "/dev/urandom"].map(Into::into));
    let readable = system.chain(confinement.readable.iter().cloned()).chain(confinement.workspace.clone());
    let written = WRITTEN.iter().map(PathBuf::from);
    let rules = readable.map(|path| (path, read)).chain(written.map(|path| (path, all)));
    for (path, access) in rules {
        created = allow(created, &path, access)?;
    }
    let status = created.restrict_self().map_err(|error| told(&error))?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("the kernel does not enforce it".into()),
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
    }
}

fn allow(
    ruleset: landlock::RulesetCreated,
    path: &std::path::Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, String> {
    // What is not there needs no rule.
    let Ok(file) = PathFd::new(path) else { return Ok(ruleset) };
    let is_folder = path.is_dir();
    let access = if is_folder { access } else { access & AccessFs::from_file(ABI::V6) };
    ruleset.add_rule(PathBeneath::new(file, access)).map_err(|error| error.to_string())
}
