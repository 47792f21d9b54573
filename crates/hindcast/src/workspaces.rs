//! The folder with the workspaces of key owners.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::{config::Config, data_folder::private_folder};

/// Where it is, without links: policies compare real paths.
pub(crate) fn folder(config: &Config) -> PathBuf {
    match &config.debug.workspaces {
        Some(folder) => real(folder),
        None => real(&config.data_dir).join("workspaces"),
    }
}

/// Where a path leads to, links and all.
pub(crate) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Makes the folder, or checks the one that is there: what is wrong with it is said at the start, not to the first tenant.
pub(crate) fn prepare(config: &Config) -> Result<()> {
    let folder = folder(config);
    let shown = folder.display();
    if real(&config.data_dir).starts_with(&folder) {
        bail!("`{shown}` contains the data folder · hint: set `debug.workspaces` to a folder of its own");
    }
    private_folder(&folder).with_context(|| {
        format!("cannot make the folder of workspaces `{shown}` · hint: set `debug.workspaces` to another")
    })?;
    if is_writable_by_others(&folder)? {
        bail!(
            "others can write to the folder of workspaces, `{shown}` · hint: `chmod go-w {shown}`, or set `debug.workspaces` \
             to another"
        );
    }
    tempfile::tempfile_in(&folder).map(drop).with_context(|| {
        format!("cannot write to the folder of workspaces, `{shown}` · hint: give it to the server's user")
    })
}

/// A workspace to try a confinement with, which goes when it is dropped; none where there is no folder for it yet.
pub(crate) fn for_trial(config: &Config) -> Result<Option<tempfile::TempDir>> {
    let folder = folder(config);
    if !folder.is_dir() {
        return Ok(None);
    }
    let made = tempfile::Builder::new().prefix("trial-").tempdir_in(&folder);
    let made = made.with_context(|| format!("cannot write to `{}`", folder.display()))?;
    // As workspaces are: the folder above keeps others away.
    #[cfg(unix)]
    std::fs::set_permissions(made.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    Ok(Some(made))
}

#[cfg(unix)]
fn is_writable_by_others(folder: &Path) -> Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(folder.metadata()?.permissions().mode() & 0o022 != 0)
}

#[cfg(not(unix))]
fn is_writable_by_others(_folder: &Path) -> Result<bool> {
    Ok(false)
}

/// Whether confined programs run as users of their own: root has others to run them as.
#[cfg(unix)]
pub(crate) fn programs_have_own_users() -> bool {
    nix::unistd::geteuid().is_root()
}

#[cfg(not(unix))]
pub(crate) fn programs_have_own_users() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(data: &Path, workspaces: Option<PathBuf>) -> Config {
        let mut config = Config { data_dir: data.to_owned(), ..Config::default() };
        config.debug.workspaces = workspaces;
        config
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_will_not_do_is_refused_at_the_start() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let (data, open) = (folder.path().join("data"), folder.path().join("open"));
        std::fs::create_dir(&data).unwrap();
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        std::fs::write(folder.path().join("file"), "").unwrap();
        let around = folder.path().to_owned();
        for (bad, why) in [
            (around.clone(), "contains the data folder"),
            (data.clone(), "contains the data folder"),
            (open, "others can write"),
            (around.join("file"), "cannot make"),
        ] {
            let error = prepare(&config(&data, Some(bad))).unwrap_err();
            assert!(error.to_string().contains(why) && error.to_string().contains("hint"), "{error}");
        }
        for good in [None, Some(around.join("new/workspaces"))] {
            let config = config(&data, good);
            prepare(&config).unwrap();
            let mode = super::folder(&config).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
        }
    }
}
