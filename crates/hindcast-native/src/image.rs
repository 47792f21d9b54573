//! Which executables and libraries are in a process, and where.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::{Path, PathBuf},
};

use hindcast_symbols::{Memory, SymbolError, Symbols, types::ModuleId};
use object::{
    LittleEndian, elf,
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use crate::sys::{Mapping, Tid};

/// What is loaded.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// By the address where each begins.
    loaded: BTreeMap<u64, Loaded>,
    /// Where the executable can be read also when another file has taken its place.
    executable: Option<PathBuf>,
    /// Files that are others by now than those that were loaded.
    replaced: BTreeSet<String>,
}

/// A file in a process.
#[derive(Debug, Clone)]
pub(crate) struct Loaded {
    pub(crate) module: ModuleId,
    pub(crate) path: String,
    pub(crate) range: Range<u64>,
    /// Size and alignment of its thread-local storage.
    pub(crate) thread_local: Option<(u64, u64)>,
}

/// Whether a library is where the system keeps its own.
fn is_systems(path: &str) -> bool {
    const FOLDERS: [&str; 6] = ["/lib/", "/lib32/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/libexec/"];
    path.starts_with('[') || FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Whether a source file is one that programs are made from but do not have: a header of the system's, or what a
/// language or its packages bring.
fn is_library_source(file: &str) -> bool {
    const BEGINNINGS: [&str; 4] = ["/rustc/", "/usr/include/", "/usr/local/include/", "/usr/lib/"];
    const FOLDERS: [&str; 2] = ["/.cargo/registry/", "/lib/rustlib/"];
    BEGINNINGS.iter().any(|beginning| file.starts_with(beginning))
        || FOLDERS.iter().any(|folder| file.contains(folder))
}

/// The parts of a file header that say where its parts went.
struct Layout {
    /// Lowest address that the file wants, on a page boundary.
    lowest: u64,
    highest: u64,
    thread_local: Option<(u64, u64)>,
    build_id: Option<Vec<u8>>,
}

/// More program headers than any linker writes.
const MOST_HEADERS: usize = 256;
const PAGE: u64 = 4096;
const LARGEST_NOTES: usize = 64 << 10;

impl Image {
    /// That of a running process.
    pub(crate) fn of_process(process: Tid) -> Self {
        Self { executable: Some(PathBuf::from(format!("/proc/{}/exe", process.0))), ..Self::default() }
    }

    /// The file name of what the code at `address` is part of, and whether that is not the program's own: code of the
    /// system's libraries, or made from a source file of the system's, the language's or a package's.
    pub(crate) fn whose(
        &self,
        address: u64,
        main: Option<ModuleId>,
        file: Option<&str>,
    ) -> (Option<String>, bool) {
        let loaded = self.at(address);
        let is_system = loaded.is_some_and(|loaded| Some(loaded.module) != main && is_systems(&loaded.path));
        let name = loaded.map(|loaded| crate::look::file_name(&loaded.path));
        (name, is_system || file.is_some_and(is_library_source))
    }

    /// What is to be said of files whose symbols would be wrong.
    pub(crate) fn complaint(&self) -> Option<String> {
        let replaced: Vec<_> = self.replaced.iter().map(|path| format!("`{path}`")).collect();
        (!replaced.is_empty()).then(|| {
            format!(
                "no symbols of {}: what runs is another build than the file there by now",
                replaced.join(", ")
            )
        })
    }

    /// Brings itself and the symbols in line with what is mapped; returns whether something changed.
    pub(crate) fn update(
        &mut self,
        mappings: &[Mapping],
        memory: &dyn Memory,
        symbols: &mut Symbols,
    ) -> bool {
        let mut seen = Vec::new();
        let mut changed = false;
        for mapping in mappings.iter().filter(|mapping| is_beginning(mapping)) {
            if self.loaded.get(&mapping.start).is_some_and(|loaded| loaded.path == mapping.name) {
                seen.push(mapping.start);
                continue;
            }
            let Some(layout) = layout(memory, mapping.start) else { continue };
            let bias = mapping.start.wrapping_sub(layout.lowest);
            let range = mapping.start..layout.highest.wrapping_add(bias);
            // Two mappings of a file's beginning without code between are somebody reading it.
            let has_code = mappings.iter().any(|other| {
                other.name == mapping.name && range.contains(&other.start) && other.permissions.contains('x')
            });
            if !has_code {
                continue;
            }
            let added = if mapping.name == "[vdso]" {
                let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
                if memory.read(mapping.start, &mut bytes).is_err() {
                    continue;
                }
                symbols.add_image("[vdso]", bytes, bias, mapping.start..mapping.end).map(Some)
            } else {
                self.add_file(symbols, &mapping.name, bias, &range, &layout)
            };
            match added {
                Ok(None) => {}
                Ok(Some(module)) => {
                    let path = mapping.name.clone();
                    let loaded = Loaded { module, path, range, thread_local: layout.thread_local };
                    // Another program can be where this one was, before or after an exec.
                    if let Some(replaced) = self.loaded.insert(mapping.start, loaded) {
                        symbols.remove(replaced.module);
                    }
                    seen.push(mapping.start);
                    changed = true;
                }
                Err(error) => tracing::debug!(file = mapping.name, %error, "a loaded file cannot be read"),
            }
        }
        let gone: Vec<_> = self.loaded.keys().copied().filter(|start| !seen.contains(start)).collect();
        for start in gone {
            if let Some(loaded) = self.loaded.remove(&start) {
                symbols.remove(loaded.module);
                changed = true;
            }
        }
        changed
    }

    /// Reads the symbols of a file, if that is the one that was loaded.
    fn add_file(
        &mut self,
        symbols: &mut Symbols,
        path: &str,
        bias: u64,
        range: &Range<u64>,
        layout: &Layout,
    ) -> Result<Option<ModuleId>, SymbolError> {
        let mut add = |file: &Path| {
            let module = symbols.add(file, bias, range.clone())?;
            let build_id = symbols.build_id(module);
            if layout.build_id.is_none() || build_id.is_none() || layout.build_id == build_id {
                return Ok(Some(module));
            }
            symbols.remove(module);
            Ok(None)
        };
        let found = add(Path::new(path));
        if let Ok(Some(_)) = found {
            return found;
        }
        if let Some(Ok(Some(module))) = self.executable.as_deref().map(add) {
            return Ok(Some(module));
        }
        if found.is_ok() {
            self.replaced.insert(path.to_owned());
        }
        found
    }

    /// Forgets everything, as after an exec.
    pub(crate) fn clear(&mut self, symbols: &mut Symbols) {
        self.replaced.clear();
        for (_, loaded) in std::mem::take(&mut self.loaded) {
            symbols.remove(loaded.module);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Loaded> {
        self.loaded.values()
    }

    /// The file that contains `address`.
    pub(crate) fn at(&self, address: u64) -> Option<&Loaded> {
        let (_, loaded) = self.loaded.range(..=address).next_back()?;
        loaded.range.contains(&address).then_some(loaded)
    }

    /// Where `offset` in a module's thread-local storage is for the thread with this `fs_base`.
    /// `main` is the executable: its storage lies right below the thread's own record.
    pub(crate) fn thread_local(
        &self,
        module: ModuleId,
        offset: u64,
        fs_base: u64,
        main: Option<ModuleId>,
        memory: &dyn Memory,
    ) -> Option<u64> {
        let with_storage = |loaded: &&Loaded| loaded.thread_local.is_some();
        if Some(module) == main {
            let (size, alignment) =
                self.loaded.values().find(|loaded| loaded.module == module)?.thread_local?;
            let below = size.checked_next_multiple_of(alignment.max(1))?;
            return fs_base.checked_sub(below)?.checked_add(offset);
        }
        // The others are numbered in the order of their loading, after the executable; the dynamic
        // linker maps downwards, so that what was loaded first has the highest address.
        let mut others: Vec<_> =
            self.loaded.values().filter(with_storage).filter(|loaded| Some(loaded.module) != main).collect();
        others.reverse();
        let main_has = self.loaded.values().filter(with_storage).any(|loaded| Some(loaded.module) == main);
        let index =
            others.iter().position(|loaded| loaded.module == module)? as u64 + 1 + u64::from(main_has);
        let vector = memory.read_pointer(fs_base.checked_add(8)?).ok()?;
        let block = memory.read_pointer(vector.checked_add(index * 16)?).ok()?;
        // All ones: this thread has not used it yet.
        (block != u64::MAX && block != 0).then(|| block.checked_add(offset)).flatten()
    }
}

fn is_beginning(mapping: &Mapping) -> bool {
    mapping.offset == 0 && (mapping.name.starts_with('/') || mapping.name == "[vdso]")
}

/// Reads the file header where it is mapped: the file itself may be another by now.
fn layout(memory: &dyn Memory, start: u64) -> Option<Layout> {
    let mut header = [0; size_of::<elf::FileHeader64<LittleEndian>>()];
    memory.read(start, &mut header).ok()?;
    let (file, _) = object::pod::from_bytes::<elf::FileHeader64<LittleEndian>>(&header).ok()?;
    let endian = LittleEndian;
    if !file.is_supported() || file.e_ident.class != elf::ELFCLASS64 {
        return None;
    }
    let count = usize::from(file.e_phnum(endian)).min(MOST_HEADERS);
    let mut bytes = vec![0; count * size_of::<elf::ProgramHeader64<LittleEndian>>()];
    memory.read(start.checked_add(file.e_phoff(endian))?, &mut bytes).ok()?;
    let (headers, _) =
        object::pod::slice_from_bytes::<elf::ProgramHeader64<LittleEndian>>(&bytes, count).ok()?;
    let (mut lowest, mut highest, mut thread_local) = (u64::MAX, 0, None);
    let mut notes = Vec::new();
    for header in headers {
        let end = header.p_vaddr(endian).checked_add(header.p_memsz(endian))?;
        match header.p_type(endian) {
            elf::PT_LOAD => {
                lowest = lowest.min(header.p_vaddr(endian) & !(PAGE - 1));
                highest = highest.max(end);
            }
            elf::PT_NOTE => notes.push((header.p_vaddr(endian), header.p_filesz(endian))),
            elf::PT_TLS => thread_local = Some((header.p_memsz(endian), header.p_align(endian))),
            _ => {}
        }
    }
    let build_id = notes.into_iter().find_map(|(address, size)| {
        let mut bytes = vec![0; usize::try_from(size).ok().filter(|&size| size <= LARGEST_NOTES)?];
        memory.read(start.checked_add(address.checked_sub(lowest)?)?, &mut bytes).ok()?;
        hindcast_symbols::build_id_in(&bytes)
    });
    (lowest < highest).then_some(Layout { lowest, highest, thread_local, build_id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_libraries_are_not_the_programs_own() {
        for file in [
            "/rustc/abc/library/core/src/panicking.rs",
            "/home/ada/.cargo/registry/src/x/serde/src/lib.rs",
            "/home/ada/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/io.rs",
            "/usr/include/c++/12/vector",
            "/usr/lib/gcc/x86_64-linux-gnu/12/include/emmintrin.h",
        ] {
            assert!(is_library_source(file), "{file}");
        }
        for file in ["/home/ada/project/src/main.rs", "/usr/src/app/main.c", "/build/app/main.c", "main.c"] {
            assert!(!is_library_source(file), "{file}");
        }
        assert!(is_systems("/usr/lib/x86_64-linux-gnu/libc.so.6") && is_systems("[vdso]"));
        assert!(!is_systems("/usr/src/app/libplugin.so") && !is_systems("/home/ada/lib/libplugin.so"));
    }
}
