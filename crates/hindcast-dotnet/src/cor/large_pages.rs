//! Large pages for the library that reads the debuggee's memory.
//!
//! `libmscordaccore.so` notes what it has read in a block of 4 MB. It gives the block back whenever the program goes on, and
//! touches all of a new one at the next stop. With pages of 4 kB these are 1,024 page faults, twice in every step, and more
//! than half of the time that a step takes. So its calls of `mmap` come to us, and we ask the kernel for large pages.

use std::{
    ffi::{c_int, c_void},
    fs::File,
    io,
    ops::RangeInclusive,
    path::Path,
};

use object::{
    Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    elf::FileHeader64,
    read::{ReadCache, elf::ElfFile},
};

use super::com::Raw;

/// Which blocks get large pages. Longer ones are addresses that the library only reserves.
const BLOCKS: RangeInclusive<usize> = (2 << 20)..=(16 << 20);

type Map = unsafe extern "C" fn(Raw, usize, c_int, c_int, c_int, i64) -> Raw;

/// Why a library keeps its small pages.
#[derive(Debug, thiserror::Error)]
pub(super) enum LargePagesError {
    #[error(transparent)]
    File(#[from] io::Error),
    #[error("the library cannot be read: {0}")]
    Library(#[from] object::Error),
    #[error("the library's file is not the one that is loaded, or does not call `mmap`")]
    NotCalled,
}

/// Lets a library that is open, and whose file this is, have large pages.
///
/// # Safety
/// The library is open, and none of its code runs in another thread.
pub(super) unsafe fn give_to(library: Raw, path: &Path) -> Result<(), LargePagesError> {
    // SAFETY: by contract.
    let base = unsafe { base_of(library) }?;
    let mut found = false;
    for place in places_of_mmap(path)? {
        // SAFETY: by contract.
        found |= unsafe { redirect((base + place) as *mut Map) }?;
    }
    if found { Ok(()) } else { Err(LargePagesError::NotCalled) }
}

/// Where a library, were it loaded at address 0, keeps the address of `mmap`.
fn places_of_mmap(path: &Path) -> Result<Vec<usize>, LargePagesError> {
    let file = ReadCache::new(File::open(path)?);
    let library = ElfFile::<FileHeader64<object::Endianness>, _>::parse(&file)?;
    let (Some(symbols), Some(relocations)) = (library.dynamic_symbol_table(), library.dynamic_relocations())
    else {
        return Ok(Vec::new());
    };
    let mmap: Vec<_> = symbols
        .symbols()
        .filter(|symbol| matches!(symbol.name(), Ok("mmap" | "mmap64")))
        .map(|symbol| RelocationTarget::Symbol(symbol.index()))
        .collect();
    let places = relocations.filter(|(_, relocation)| mmap.contains(&relocation.target()));
    Ok(places.filter_map(|(place, _)| usize::try_from(place).ok()).collect())
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

/// Puts our `mmap` where a library keeps the address of that of the system; says whether it is there.
///
/// # Safety
/// The place is one of a library that is open, and nothing reads it meanwhile.
unsafe fn redirect(place: *mut Map) -> io::Result<bool> {
    const PAGE: usize = 4096;
    let page = (place as usize & !(PAGE - 1)) as *mut c_void;
    let (system, ours): (Map, Map) = (libc::mmap, map);
    // SAFETY: by contract; the loader makes the page read-only when it has filled in the addresses, and it is so again.
    unsafe {
        let now = place.cast::<usize>().read();
        if now != system as usize {
            return Ok(now == ours as usize);
        }
        if libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return Err(io::Error::last_os_error());
        }
        place.write(ours);
        libc::mprotect(page, PAGE, libc::PROT_READ);
    }
    Ok(true)
}

/// As `mmap`, with large pages where the kernel has them.
///
/// # Safety
/// As that of `mmap`.
unsafe extern "C" fn map(
    address: Raw,
    length: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> Raw {
    // SAFETY: by contract.
    let mapped = unsafe { libc::mmap(address, length, protection, flags, file, offset) };
    if mapped != libc::MAP_FAILED && flags & libc::MAP_ANONYMOUS != 0 && BLOCKS.contains(&length) {
        // SAFETY: the mapping was just made; the advice changes nothing that a program sees.
        unsafe { libc::madvise(mapped, length, libc::MADV_HUGEPAGE) };
    }
    mapped
}
