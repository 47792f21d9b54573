//! Threads that searches do not wait for: they embed passages that are taken in.

use std::sync::OnceLock;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// How much these threads step back. Measured with as many of them as cores: others that wake up run at once, as they do on an idle
/// machine. Where others take all the time there is, a tenth is left for these.
#[cfg(target_os = "linux")]
const STEP_BACK: i32 = 10;

/// Does something, and what it spreads over threads, on threads of their own with a low priority. Questions and other searches have
/// the usual ones, so that they neither stand in line behind passages nor share the cores with them.
pub(super) fn in_background<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    static THREADS: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let threads = THREADS.get_or_init(|| {
        let threads = ThreadPoolBuilder::new().thread_name(|number| format!("passages-{number}"));
        match threads.start_handler(|_| step_back()).build() {
            Ok(threads) => Some(threads),
            Err(error) => {
                tracing::warn!("passages are embedded on the usual threads: {error}");
                None
            }
        }
    });
    match threads {
        Some(threads) => threads.install(work),
        None => work(),
    }
}

/// Lowers the priority of the calling thread, and only of that, as Linux has it.
#[cfg(target_os = "linux")]
fn step_back() {
    if let Err(error) = rustix::process::nice(STEP_BACK) {
        tracing::debug!("threads for passages keep their priority: {error}");
    }
}

/// Elsewhere they keep their priority.
#[cfg(not(target_os = "linux"))]
fn step_back() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn passages_have_a_lower_priority_than_the_threads_that_search() {
        let of_this_thread = || rustix::process::getpriority_process(None).unwrap();
        let before = of_this_thread();
        let below = in_background(of_this_thread);
        assert_eq!(below, (before + STEP_BACK).min(19));
        assert_eq!(of_this_thread(), before);
    }
}
