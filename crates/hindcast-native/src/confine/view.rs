//! The files that a confined program sees: a root of its own, in memory, with what it may read mounted into it.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
};

use hindcast_core::debug::Confinement;
use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::stat::{Mode, umask},
    unistd::sethostname,
};

use crate::sys;

/// Where the old root is while the new one is built.
const OLD: &str = "/.old";
/// What programs write into the workspace, until the session ends.
const WRITTEN: &str = "/.written";
/// Devices that belong to nobody.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// How many files programs may make.
const MOST_FILES: u32 = 65_536;

/// What failed, and how.
type Failed = (&'static str, io::Error);

fn at<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Failed {
    move |error| (what, error.into())
}

/// Builds the view, and enters it. To be called by the first process of new mount and pid namespaces.
///
/// `user` is who the programs will run as, where that is another than who builds it.
pub(super) fn build(confinement: &Confinement, user: Option<u32>) -> Result<(), Failed> {
    // All can look at the view's own folders, whatever mask the server was started with.
    let usual = umask(Mode::S_IWGRP | Mode::S_IWOTH);
    enter_empty_root(confinement.limits.files).map_err(at("make a root"))?;
    make_own_files().map_err(at("make files"))?;
    for path in super::system_paths() {
        show(&path).map_err(at("mount the system's files"))?;
    }
    for path in sorted(&confinement.readable) {
        show(&path).map_err(at("mount readable files"))?;
    }
    for path in &confinement.hidden {
        hide(path).map_err(at("hide folders"))?;
    }
    if let Some(workspace) = &confinement.workspace {
        show_workspace(workspace, user).map_err(at("mount the workspace"))?;
    }
    make_devices().map_err(at("make devices"))?;
    let own = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), own, None::<&str>).map_err(at("mount /proc"))?;
    sethostname("hindcast").map_err(at("name the machine"))?;
    umount2(OLD, MntFlags::MNT_DETACH).map_err(at("leave the old root"))?;
    fs::remove_dir(OLD).map_err(at("leave the old root"))?;
    umask(usual);
    std::env::set_current_dir("/").map_err(at("enter the root"))
}

/// A root in memory, below which the old one is.
fn enter_empty_root(most_bytes: u64) -> io::Result<()> {
    // Nothing that is mounted here is to be seen outside.
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    let options = format!("size={most_bytes},nr_inodes={MOST_FILES},mode=755");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let base = Path::new("/tmp");
    mount(Some("hindcast"), base, Some("tmpfs"), flags, Some(options.as_str()))?;
    let old = base.join(OLD.trim_start_matches('/'));
    fs::create_dir(&old)?;
    sys::change_root(base, &old)?;
    std::env::set_current_dir("/")?;
    for (folder, mode) in
        [("/tmp", 0o1777), ("/var/tmp", 0o1777), ("/dev/shm", 0o1777), ("/proc", 0o755), ("/etc", 0o755)]
    {
        fs::create_dir_all(folder)?;
        fs::set_permissions(folder, fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Where a path of the old root is now.
fn outside(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Those that are above others first.
fn sorted(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = paths.to_vec();
    paths.sort();
    paths
}

/// Shows a file, folder or link where it was, to be read. What is not there is not shown, and what is shown already stays.
fn show(path: &Path) -> io::Result<()> {
    let source = outside(path);
    let Ok(found) = source.symlink_metadata() else { return Ok(()) };
    if path.symlink_metadata().is_ok_and(|there| !there.is_dir()) || is_mounted(path) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    if found.is_symlink() {
        return symlink(fs::read_link(&source)?, path);
    }
    make_place(path, found.is_dir())?;
    bind(&source, path)?;
    sys::make_read_only(path)
}

/// Whether it is a part of something that is shown: the view's own folders are on another device.
fn is_mounted(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let device = |path: &Path| path.metadata().ok().map(|found| found.dev());
    device(path).is_some() && device(path) != device(Path::new("/"))
}

fn make_place(path: &Path, is_folder: bool) -> io::Result<()> {
    if is_folder {
        return fs::create_dir_all(path);
    }
    fs::File::create(path).map(drop)
}

fn bind(source: &Path, path: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    Ok(mount(Some(source), path, None::<&str>, flags, None::<&str>)?)
}

/// Covers a folder that is within what is shown.
fn hide(path: &Path) -> io::Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("hidden"), path, Some("tmpfs"), flags, Some("size=64k,nr_inodes=64,mode=755"))?;
    Ok(())
}

/// Shows the workspace so that programs can write into it, if the system can put something over it; else to be read.
fn show_workspace(path: &Path, user: Option<u32>) -> io::Result<()> {
    let source = outside(path);
    fs::create_dir_all(path)?;
    let (over, work) = (Path::new(WRITTEN).join("over"), Path::new(WRITTEN).join("work"));
    for folder in [&over, &work] {
        fs::create_dir_all(folder)?;
    }
    chown(&over, user, user)?;
    let plain = source.to_str().filter(|text| !text.contains([',', ':', '\\']));
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let is_over = plain.is_some_and(|source| {
        ["", ",userxattr"].iter().any(|more| {
            let options =
                format!("lowerdir={source},upperdir={},workdir={}{more}", over.display(), work.display());
            mount(Some("workspace"), path, Some("overlay"), flags, Some(options.as_str())).is_ok()
        })
    });
    if is_over {
        return Ok(());
    }
    bind(&source, path)?;
    sys::make_read_only(path)
}

fn make_devices() -> io::Result<()> {
    for device in DEVICES {
        let path = Path::new("/dev").join(device);
        if outside(&path).exists() {
            fs::File::create(&path)?;
            bind(&outside(&path), &path)?;
        }
    }
    fs::create_dir_all("/dev/pts")?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = "newinstance,ptmxmode=0666,mode=620";
    mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, Some(options))?;
    symlink("pts/ptmx", "/dev/ptmx")?;
    for (link, target) in [("fd", "fd"), ("stdin", "fd/0"), ("stdout", "fd/1"), ("stderr", "fd/2")] {
        symlink(Path::new("/proc/self").join(target), Path::new("/dev").join(link))?;
    }
    Ok(())
}

/// The users and the host that a program finds are none of this machine's.
fn make_own_files() -> io::Result<()> {
    let (root, nobody) = ("root:x:0:0:root:/:/bin/sh\n", "nobody:x:65534:65534:nobody:/:/bin/sh\n");
    fs::write("/etc/passwd", format!("{root}{nobody}tenant:x:1000:1000:tenant:/tmp:/bin/sh\n"))?;
    fs::write("/etc/group", "root:x:0:\nnogroup:x:65534:\ntenant:x:1000:\n")?;
    fs::write("/etc/hosts", "127.0.0.1 localhost hindcast\n::1 localhost\n")?;
    fs::write("/etc/hostname", "hindcast\n")
}
