//! The functions of libraries that threads wait in.

use hindcast_core::debug::WaitKind;

use crate::look::{Scene, Walk};

/// A function by which threads wait.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    name: Name,
    pub(super) kind: WaitKind,
    /// The type of what it waits at.
    pub(super) object: &'static str,
    pub(super) layout: Layout,
}

/// How a function is recognised.
#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// It begins with this, once the underscores before it are taken away.
    Starts(&'static str),
    /// It contains all of these.
    Has(&'static [&'static str]),
}

/// What is known of the memory at which a thread waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// A `pthread_mutex_t` begins with the word.
    Mutex,
    /// The word is in a `pthread_rwlock_t`.
    RwLock,
    /// The word is in a `pthread_cond_t`.
    Condition,
    /// The object begins so far before the word.
    Word(u64),
    /// The word is somewhere in the object.
    Part,
    /// The same, with a lock that does not say who holds it.
    Silent,
    /// The word belongs to the thread that waits.
    Elsewhere,
}

/// Functions that wait at a word of memory.
const FUNCTIONS: [Function; 31] = {
    use Layout::{Condition, Elsewhere, Mutex, Part, RwLock, Silent, Word};
    use Name::{Has, Starts};
    use WaitKind::{Barrier, Lock, Signal, Thread, Unpark};
    const CONDITION: WaitKind = WaitKind::Condition;
    const fn of(name: Name, kind: WaitKind, object: &'static str, layout: Layout) -> Function {
        Function { name, kind, object, layout }
    }
    [
        of(Starts("pthread_mutex_"), Lock, "pthread_mutex_t", Mutex),
        of(Starts("pthread_cond_"), CONDITION, "pthread_cond_t", Condition),
        of(Starts("pthread_rwlock_"), Lock, "pthread_rwlock_t", RwLock),
        of(Starts("pthread_barrier_wait"), Barrier, "pthread_barrier_t", Word(4)),
        of(Starts("pthread_once"), Signal, "pthread_once_t", Word(0)),
        of(Starts("sem_"), Signal, "sem_t", Word(0)),
        of(Starts("new_sem_"), Signal, "sem_t", Word(0)),
        of(Starts("pthread_join"), Thread, "pthread_t", Elsewhere),
        of(Starts("pthread_timedjoin"), Thread, "pthread_t", Elsewhere),
        of(Starts("pthread_clockjoin"), Thread, "pthread_t", Elsewhere),
        of(Starts("cxa_guard_acquire"), Lock, "static variable", Silent),
        of(Has(&["std::__atomic_futex_unsigned_base::"]), Signal, "std::future", Elsewhere),
        of(Has(&["std::__detail::__platform_wait"]), Signal, "std::atomic", Part),
        of(Has(&["std::sys::", "mutex", "::lock_contended"]), Lock, "std::sync::Mutex", Silent),
        of(Has(&["std::sys::", "rwlock", "::read_contended"]), Lock, "std::sync::RwLock", Silent),
        of(Has(&["std::sys::", "rwlock", "::write_contended"]), Lock, "std::sync::RwLock", Silent),
        of(Has(&["std::sys::", "condvar", "::wait"]), CONDITION, "std::sync::Condvar", Part),
        of(Has(&["std::sys", "::once::"]), Signal, "std::sync::Once", Part),
        of(Has(&["std::sys::", "thread_park"]), Unpark, "std::thread::Thread", Elsewhere),
        of(Has(&["std::sys_common::", "thread_park"]), Unpark, "std::thread::Thread", Elsewhere),
        of(Has(&["parking_lot::raw_mutex::", "lock_slow"]), Lock, "parking_lot::Mutex", Elsewhere),
        of(Has(&["parking_lot::raw_rwlock::", "lock_"]), Lock, "parking_lot::RwLock", Elsewhere),
        of(Has(&["parking_lot::raw_rwlock::", "wait_for_readers"]), Lock, "parking_lot::RwLock", Elsewhere),
        of(Has(&["parking_lot::condvar::"]), CONDITION, "parking_lot::Condvar", Elsewhere),
        of(Has(&["parking_lot::once::"]), Signal, "parking_lot::Once", Elsewhere),
        of(Has(&["std::thread::park"]), Unpark, "std::thread::Thread", Elsewhere),
        of(Has(&["std::thread::", "JoinHandle", "::join"]), Thread, "std::thread::JoinHandle", Elsewhere),
        of(Has(&["std::condition_variable"]), CONDITION, "std::condition_variable", Part),
        of(Has(&["std::mutex::lock"]), Lock, "std::mutex", Mutex),
        of(Has(&["std::shared_mutex::"]), Lock, "std::shared_mutex", RwLock),
        of(Has(&["std::thread::join"]), Thread, "std::thread", Elsewhere),
    ]
};

/// Functions that wait by parking their thread or at a condition variable, and what for.
const MADE_OF_OTHERS: [Function; 9] = {
    use Name::Has;
    use WaitKind::{Barrier, Message, Thread};
    const fn of(name: Name, kind: WaitKind, object: &'static str) -> Function {
        Function { name, kind, object, layout: Layout::Elsewhere }
    }
    [
        of(Has(&["std::sync::mpsc::Receiver", "::recv"]), Message, "std::sync::mpsc::Receiver"),
        of(Has(&["std::sync::mpsc::SyncSender", "::send"]), Message, "std::sync::mpsc::SyncSender"),
        of(Has(&["std::sync::mpmc::Receiver", "::recv"]), Message, "std::sync::mpmc::Receiver"),
        of(Has(&["std::sync::mpmc::Sender", "::send"]), Message, "std::sync::mpmc::Sender"),
        of(Has(&["crossbeam_channel::", "::recv"]), Message, "crossbeam_channel::Receiver"),
        of(Has(&["crossbeam_channel::", "::send"]), Message, "crossbeam_channel::Sender"),
        of(Has(&["std::sync::", "Barrier", "::wait"]), Barrier, "std::sync::Barrier"),
        of(Has(&["std::barrier", "::arrive_and_wait"]), Barrier, "std::barrier"),
        of(Has(&["std::thread::scoped::scope"]), Thread, "std::thread::Scope"),
    ]
};

impl Name {
    fn fits(&self, function: &str) -> bool {
        match self {
            Self::Starts(start) => function.trim_start_matches('_').starts_with(start),
            Self::Has(parts) => parts.iter().all(|part| function.contains(part)),
        }
    }
}

/// A function on the stack.
pub(super) struct Called {
    name: String,
    /// The frame that it is in.
    pub(super) physical: usize,
}

/// The functions that one's own code has called, innermost first; all where none is one's own.
pub(super) fn up_to_own(scene: &Scene<'_>, walk: &Walk) -> Vec<Called> {
    let mut functions = Vec::new();
    for (frame, logical) in walk.frames(scene).into_iter().zip(&walk.logical) {
        if frame.location.file.is_some() && !frame.location.library {
            // A function that jumps to another one as the last thing that it does has no frame.
            let return_address = walk.physical.get(logical.physical).filter(|physical| physical.is_return);
            let name = return_address.and_then(|frame| called_before(scene, frame.pc));
            functions.extend(name.map(|name| Called { name, physical: logical.physical }));
            break;
        }
        let name = frame.location.function;
        functions.extend(name.map(|name| Called { name, physical: logical.physical }));
    }
    functions
}

/// The function that the call right before an address calls, directly or through the table of other modules' functions.
fn called_before(scene: &Scene<'_>, address: u64) -> Option<String> {
    /// `endbr64`, which marks a place that may be jumped to.
    const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let relative =
        |from: u64, distance: [u8; 4]| from.wrapping_add_signed(i32::from_le_bytes(distance).into());
    let mut code = [0; 6];
    scene.memory.read(address.wrapping_sub(6), &mut code).ok()?;
    let target = match code {
        // call [rip+distance]
        [0xff, 0x15, distance @ ..] => scene.memory.read_pointer(relative(address, distance)).ok()?,
        // call distance
        [_, 0xe8, distance @ ..] => relative(address, distance),
        _ => return None,
    };
    let mut entry = [0; 11];
    scene.memory.read(target, &mut entry).ok()?;
    let mark = if entry.starts_with(&LANDING) { LANDING.len() } else { 0 };
    // There may be a prefix before the jump.
    let start = mark + usize::from(entry[mark] == 0xf2);
    let function = match entry.get(start..start + 6) {
        // jmp [rip+distance]
        Some(&[0xff, 0x25, a, b, c, d]) => {
            let next = target.wrapping_add(start as u64 + 6);
            scene.memory.read_pointer(relative(next, [a, b, c, d])).ok()?
        }
        _ => target,
    };
    scene.symbols.place(function).function
}

/// The innermost function that is known to wait, and where it is in the list.
pub(super) fn innermost(functions: &[Called]) -> Option<(usize, &'static Function)> {
    functions
        .iter()
        .enumerate()
        .find_map(|(at, called)| Some((at, FUNCTIONS.iter().find(|known| known.name.fits(&called.name))?)))
}

/// The outermost function that waits by other ones.
pub(super) fn made_of_others(functions: &[Called]) -> Option<&'static Function> {
    functions
        .iter()
        .rev()
        .find_map(|called| MADE_OF_OTHERS.iter().find(|known| known.name.fits(&called.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(names: &[&str]) -> Vec<Called> {
        names.iter().map(|name| Called { name: (*name).to_owned(), physical: 0 }).collect()
    }

    #[track_caller]
    fn check(names: &[&str], object: &str) {
        let functions = called(names);
        assert_eq!(innermost(&functions).map(|(_, found)| found.object), Some(object), "{names:?}");
    }

    #[test]
    fn functions_are_known_under_the_names_that_libraries_of_several_years_give_them() {
        check(&["__futex_abstimed_wait_common", "___pthread_cond_wait"], "pthread_cond_t");
        check(&["__lll_lock_wait", "___pthread_mutex_lock"], "pthread_mutex_t");
        check(&["__lll_lock_wait", "__pthread_mutex_cond_lock", "___pthread_cond_wait"], "pthread_mutex_t");
        check(&["__new_sem_wait_slow64"], "sem_t");
        check(&["syscall", "std::sys::sync::mutex::futex::Mutex::lock_contended"], "std::sync::Mutex");
        check(&["std::sys::unix::locks::futex_mutex::Mutex::lock_contended"], "std::sync::Mutex");
        check(&["std::sys::sync::condvar::futex::Condvar::wait_optional_timeout"], "std::sync::Condvar");
        check(&["<std::sys::sync::condvar::futex::Condvar>::wait_optional_timeout"], "std::sync::Condvar");
        check(&["std::sys::sync::rwlock::futex::RwLock::read_contended"], "std::sync::RwLock");
        check(&["std::sys::sync::thread_parking::futex::Parker::park"], "std::thread::Thread");
        check(
            &["parking_lot_core::park", "parking_lot::raw_mutex::RawMutex::lock_slow"],
            "parking_lot::Mutex",
        );
        assert!(innermost(&called(&["main", "compute"])).is_none());
    }

    #[test]
    fn what_is_made_of_parked_threads_is_told_by_its_outermost_function() {
        let functions = called(&[
            "std::sys::sync::thread_parking::futex::Parker::park",
            "std::thread::park",
            "std::sync::mpmc::context::Context::wait_until",
            "std::sync::mpmc::Receiver<u32>::recv",
            "std::sync::mpsc::Receiver<u32>::recv<u32>",
        ]);
        let found = made_of_others(&functions).map(|found| found.object);
        assert_eq!(found, Some("std::sync::mpsc::Receiver"));
    }
}
