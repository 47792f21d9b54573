//! Having a loaded library call functions of ours in place of the system's.
//!
//! A library keeps the addresses of the functions that it calls in a table, which the loader fills in. We change entries of the
//! table of that one library; nobody else's calls are touched.

use std::{ffi::c_void, fs::File, io, path::Path};

use object::{
    Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    elf::FileHeader64,
    read::{ReadCache, elf::ElfFile},
};

use super::com::Raw;

/// A function of the system, and the one that is called in its place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Redirection {
    /// What libraries call it.
    pub(super) names: &'static [&'static str],
    pub(super) system: usize,
    pub(super) ours: usize,
}

/// Why a library goes on calling the system.
#[derive(Debug, thiserror::Error)]
pub(super) enum RedirectError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("the library cannot be read: {0}")]
    Library(#[from] object::Error),
    #[error("the library's file is not the one that is loaded, or does not call `{function}`")]
    NotCalled { function: &'static str },
}

/// Redirects calls of a library that is open, and whose file this is.
///
/// # Safety
/// The library is open, none of its code runs in another thread, and our functions do what those of the system do.
pub(super) unsafe fn redirect(
    library: Raw,
    path: &Path,
    redirections: &[Redirection],
) -> Result<(), RedirectError> {
    // SAFETY: by contract.
    let base = unsafe { base_of(library) }?;
    let file = ReadCache::new(File::open(path)?);
    let file = ElfFile::parse(&file)?;
    for redirection in redirections {
        let mut found = false;
        for place in places_of(&file, redirection.names) {
            // SAFETY: by contract.
            found |= unsafe { redirection.put((base + place) as *mut usize) }?;
        }
        if !found {
            return Err(RedirectError::NotCalled { function: redirection.names[0] });
        }
    }
    Ok(())
}

type Library<'f> = ElfFile<'f, FileHeader64<object::Endianness>, &'f ReadCache<File>>;

/// Where a library, were it loaded at address 0, keeps the address of a function.
fn places_of(library: &Library<'_>, names: &[&str]) -> Vec<usize> {
    let (Some(symbols), Some(relocations)) = (library.dynamic_symbol_table(), library.dynamic_relocations())
    else {
        return Vec::new();
    };
    let called: Vec<_> = symbols
        .symbols()
        .filter(|symbol| symbol.name().is_ok_and(|name| names.contains(&name)))
        .map(|symbol| RelocationTarget::Symbol(symbol.index()))
        .collect();
    let places = relocations.filter(|(_, relocation)| called.contains(&relocation.target()));
    places.filter_map(|(place, _)| usize::try_from(place).ok()).collect()
}

/// What the loader knows of a library: the beginning of its `struct link_map`.
#[repr(C)]
struct Loaded {
    base: usize,
}

/// # Safety
/// The library is open.
unsafe fn base_of(library: Raw) -> io::Result<usize> {
    let mut loaded: *const Loaded = std::ptr::null();
    // SAFETY: the request stores one pointer, to what lives as long as the library is open.
    unsafe {
        if libc::dlinfo(library, libc::RTLD_DI_LINKMAP, (&raw mut loaded).cast()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((*loaded).base)
    }
}

impl Redirection {
    /// Puts our function where a library keeps the address of that of the system; says whether it is there.
    ///
    /// # Safety
    /// The place is one of a library that is open, and nothing reads it meanwhile.
    unsafe fn put(self, place: *mut usize) -> io::Result<bool> {
        const PAGE: usize = 4096;
        let page = (place as usize & !(PAGE - 1)) as *mut c_void;
        // SAFETY: by contract; the loader makes the page read-only when it has filled in the addresses, and it is so again.
        unsafe {
            let now = place.read();
            if now != self.system {
                return Ok(now == self.ours);
            }
            if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return Err(io::Error::last_os_error());
            }
            place.write(self.ours);
            libc::mprotect(page, PAGE, libc::PROT_READ);
        }
        Ok(true)
    }
}
