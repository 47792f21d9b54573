//! The assemblies that are loaded, and what their files tell.

use std::{
    cell::OnceCell,
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
};

use hindcast_mapping::MappedFile;
use sha2::{Digest, Sha256};

use crate::{
    cor::{Com, Module},
    files::{LARGEST_MAPPED, LARGEST_READ, open_plain, read_plain},
    image::{Assembly, ImageBytes, MAXIMAL_EMBEDDED_PDB, Pdb, Token},
    names::is_finally_body,
    replaced::mapped_before,
    values::KnownTypes,
    visible::visible,
};

/// A file of this size is worth a mapping.
const LARGE: u64 = 1 << 20;

/// An assembly in the debuggee.
#[derive(Debug)]
pub(crate) struct LoadedModule {
    pub(crate) module: Com<Module>,
    /// Its file; a name only where it has none.
    pub(crate) path: String,
    /// Its file name, as people can see it.
    pub(crate) name: String,
    /// The process that has it.
    process: u32,
    /// What its metadata says, read when somebody first asks.
    assembly: OnceCell<Option<Opened>>,
    /// Its symbols, and where they are from.
    symbols: OnceCell<Symbols>,
    is_mine: OnceCell<bool>,
}

/// An assembly as the debuggee runs it.
#[derive(Debug)]
struct Opened {
    assembly: Rc<Assembly>,
    /// Whether its file is another one by now.
    is_replaced: bool,
}

/// What is known of an assembly's source.
#[derive(Debug)]
pub(crate) struct Symbols {
    pub(crate) pdb: Option<Rc<Pdb>>,
    /// For people: which file, or why none.
    pub(crate) from: String,
}

impl LoadedModule {
    fn new(module: Com<Module>, process: u32) -> Self {
        let path = module.name().unwrap_or_default();
        let name = visible(path.rsplit('/').next().unwrap_or_default()).into_owned();
        let (assembly, symbols, is_mine) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { module, path, name, process, assembly, symbols, is_mine }
    }

    /// Its metadata; none for what was made in memory.
    pub(crate) fn assembly(&self) -> Option<&Rc<Assembly>> {
        self.opened().map(|opened| &opened.assembly)
    }

    fn opened(&self) -> Option<&Opened> {
        let path = Path::new(&self.path);
        let open = || match mapped_before(path, self.process) {
            Some(bytes) => {
                Some(Opened { assembly: Rc::new(Assembly::parse(bytes).ok()?), is_replaced: true })
            }
            None => Some(Opened { assembly: Rc::new(open(path)?), is_replaced: false }),
        };
        self.assembly.get_or_init(open).as_ref()
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        let find = || {
            let found = find_symbols(Path::new(&self.path), self.assembly().map(Rc::as_ref));
            if !self.opened().is_some_and(|opened| opened.is_replaced) {
                return found;
            }
            let why = "the assembly is read from the program's memory: its file was replaced, or is not here";
            let from = format!("{}; {why}", found.from);
            Symbols { from, ..found }
        };
        self.symbols.get_or_init(find)
    }

    pub(crate) fn pdb(&self) -> Option<&Rc<Pdb>> {
        self.symbols().pdb.as_ref()
    }

    /// `MoveNext` of the state machine that a method is a body of, or a `finally` of.
    pub(crate) fn move_next_of(&self, method: Token) -> Option<Token> {
        let found = self.assembly()?.method(method)?;
        match is_finally_body(found.name()?) {
            true => Some(found.declaring_type()?.methods_named("MoveNext").next()?.token()),
            false => Some(method),
        }
    }

    /// The method in the source that a state machine was made of, of whose methods this is one.
    pub(crate) fn kickoff_method(&self, method: Token) -> Option<Token> {
        self.pdb()?.kickoff_method(self.move_next_of(method)?)
    }

    /// Whether it belongs to the program rather than to the framework or a package: it has symbols, and is not made by those
    /// who make the framework. F#'s core library has its symbols inside.
    pub(crate) fn is_mine(&self) -> bool {
        let is_mine = || {
            let assembly = self.assembly().filter(|_| self.pdb().is_some());
            assembly.is_some_and(|assembly| !is_of_framework(assembly.public_key()))
        };
        *self.is_mine.get_or_init(is_mine)
    }
}

/// Whether a public key is one of those that the framework, the compilers and F#'s core library are signed with.
fn is_of_framework(public_key: &[u8]) -> bool {
    /// How the SHA-256 of the keys begin, whose tokens are those in the comments.
    const KEYS: [[u8; 8]; 4] = [
        // b03f5f7f11d50a3a
        [0x93, 0x35, 0x98, 0x63, 0x9c, 0xba, 0xa1, 0xde],
        // cc7b13ffcd2ddd51
        [0xfb, 0x87, 0x30, 0x96, 0x2b, 0xbc, 0xdc, 0xae],
        // 7cec85d7bea7798e
        [0x77, 0xef, 0x28, 0x53, 0x10, 0xa7, 0x9c, 0x8f],
        // 31bf3856ad364e35
        [0x6f, 0xe0, 0x3f, 0x0b, 0xbe, 0x16, 0x2b, 0x4b],
    ];
    !public_key.is_empty() && KEYS.iter().any(|key| Sha256::digest(public_key).starts_with(key))
}

/// Opens the assembly in a file.
fn open(path: &Path) -> Option<Assembly> {
    map_framework(path).or_else(|| Assembly::parse(read_plain(path, LARGEST_READ).ok()?).ok())
}

/// Maps a large assembly that has no symbols: most of the framework is never asked for, and reading it takes longer than
/// everything else at the first stop.
///
/// An assembly with symbols is the program's own, and may be built again meanwhile: what was loaded must stay.
fn map_framework(path: &Path) -> Option<Assembly> {
    let file = open_plain(path, LARGEST_MAPPED).ok()?;
    if file.metadata().ok()?.len() < LARGE {
        return None;
    }
    let mapped = MappedFile::new(&file).ok()?;
    let assembly = Assembly::parse(ImageBytes::new(mapped)).ok()?;
    find_symbols(path, Some(&assembly)).pdb.is_none().then_some(assembly)
}

/// Looks beside the assembly, inside it, and where it says that its symbols are.
fn find_symbols(path: &Path, assembly: Option<&Assembly>) -> Symbols {
    let none = |from: String| Symbols { pdb: None, from };
    let Some(assembly) = assembly else { return none("its file cannot be read".into()) };
    let view = assembly.code_view();
    let mut rejected = None;
    let recorded = view.as_ref().map(|view| PathBuf::from(&view.path)).filter(|path| path.is_absolute());
    for candidate in [Some(path.with_extension("pdb")), recorded].into_iter().flatten() {
        let bytes = match read_plain(&candidate, LARGEST_READ) {
            Ok(bytes) => bytes,
            Err(error) if error.is_missing() => continue,
            Err(error) => {
                rejected = Some(format!("`{}` cannot be read: {error}", candidate.display()));
                continue;
            }
        };
        match Pdb::parse(bytes) {
            Ok(pdb) if view.as_ref().is_none_or(|view| view.pdb_id() == pdb.id()) => {
                return Symbols { pdb: Some(Rc::new(pdb)), from: candidate.display().to_string() };
            }
            Ok(_) => rejected = Some(format!("`{}` is of another build", candidate.display())),
            Err(error) => rejected = Some(format!("`{}` cannot be used: {error}", candidate.display())),
        }
    }
    match assembly.embedded_pdb(MAXIMAL_EMBEDDED_PDB) {
        Ok(None) => none(rejected.unwrap_or_else(|| "there is no symbol file".into())),
        Ok(Some(bytes)) => match Pdb::parse(bytes) {
            Ok(pdb) => Symbols { pdb: Some(Rc::new(pdb)), from: "embedded".into() },
            Err(error) => none(format!("the embedded symbols cannot be read: {error}")),
        },
        Err(error) => none(format!("the embedded symbols cannot be read: {error}")),
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Modules {
    process: u32,
    loaded: Vec<Rc<LoadedModule>>,
    /// By the object that stands for them in the debugging interface.
    by_identity: HashMap<usize, Rc<LoadedModule>>,
    /// Their types.
    pub(crate) types: KnownTypes,
}

impl Modules {
    /// Of a process, of which none is known yet.
    pub(crate) fn of_process(process: u32) -> Self {
        Self { process, loaded: Vec::new(), by_identity: HashMap::new(), types: KnownTypes::default() }
    }

    /// Takes in a module; the one that is there already where it was known.
    pub(crate) fn add(&mut self, module: Com<Module>) -> Rc<LoadedModule> {
        let identity = module.identity();
        if let Some(known) = self.by_identity.get(&identity) {
            return known.clone();
        }
        let loaded = Rc::new(LoadedModule::new(module, self.process));
        self.by_identity.insert(identity, loaded.clone());
        self.loaded.push(loaded.clone());
        loaded
    }

    pub(crate) fn remove(&mut self, module: &Com<Module>) {
        let identity = module.identity();
        self.by_identity.remove(&identity);
        self.loaded.retain(|loaded| loaded.module.identity() != identity);
    }

    /// The one behind an object of the debugging interface.
    pub(crate) fn of(&self, module: &Com<Module>) -> Option<&Rc<LoadedModule>> {
        self.by_identity.get(&module.identity())
    }

    /// In the order in which they were loaded.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<LoadedModule>> {
        self.loaded.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] = include_bytes!("../tests/data/sample.dll");
    const SYMBOLS: &[u8] = include_bytes!("../tests/data/sample.pdb");
    const EMBEDDED: &[u8] = include_bytes!("../tests/data/embedded.dll");

    /// Writes an assembly with zeros behind it, which say nothing.
    fn write_large(path: &Path, assembly: &[u8]) {
        let mut bytes = assembly.to_vec();
        bytes.resize(LARGE as usize, 0);
        std::fs::write(path, bytes).unwrap();
    }

    fn name_in(path: &Path) -> Option<String> {
        open(path)?.name().map(str::to_owned)
    }

    #[test]
    fn only_large_assemblies_without_symbols_are_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.dll");
        std::fs::write(&path, SAMPLE).unwrap();
        assert!(map_framework(&path).is_none(), "it is small");
        let name = name_in(&path);
        assert!(name.is_some());

        write_large(&path, SAMPLE);
        assert!(map_framework(&path).is_some());
        assert_eq!(name_in(&path), name);

        std::fs::write(path.with_extension("pdb"), SYMBOLS).unwrap();
        assert!(map_framework(&path).is_none(), "it has symbols beside it");
        assert_eq!(name_in(&path), name);

        let embedded = folder.path().join("embedded.dll");
        write_large(&embedded, EMBEDDED);
        assert!(map_framework(&embedded).is_none(), "it has symbols inside");
    }

    #[test]
    fn symbols_that_are_refused_are_not_said_to_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.dll");
        let symbols = path.with_extension("pdb");
        std::fs::write(&path, SAMPLE).unwrap();
        let assembly = open(&path).unwrap();
        let said = || find_symbols(&path, Some(&assembly)).from;
        assert_eq!(said(), "there is no symbol file");

        let pipe = nix::sys::stat::Mode::S_IRUSR;
        nix::unistd::mkfifo(&symbols, pipe).unwrap();
        let refused = format!("`{}` cannot be read: it is not a plain file", symbols.display());
        assert_eq!(said(), refused);
        std::fs::remove_file(&symbols).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &symbols).unwrap();
        assert_eq!(said(), refused);
        std::fs::remove_file(&symbols).unwrap();
        std::fs::File::create(&symbols).unwrap().set_len(3 << 30).unwrap();
        assert!(said().ends_with("cannot be read: it is larger than 512 MB"), "{}", said());
        std::fs::remove_file(&symbols).unwrap();
        std::os::unix::fs::symlink("sample.pdb", &symbols).unwrap();
        assert!(said().contains("cannot be read"), "{}", said());
    }

    #[test]
    fn assemblies_that_are_no_plain_files_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.dll");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap();
        assert!(open(&path).is_none());
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(open(&path).is_none());
    }

    #[test]
    fn an_assembly_of_the_program_stays_as_it_was_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.dll");
        write_large(&path, SAMPLE);
        std::fs::write(path.with_extension("pdb"), SYMBOLS).unwrap();
        let assembly = open(&path).unwrap();
        // What a build does: the same file, cut short and written anew.
        std::fs::write(&path, vec![0; LARGE as usize]).unwrap();
        assert!(assembly.name().is_some_and(|name| !name.is_empty()));
    }
}
