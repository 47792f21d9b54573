//! Stops a replica after some time.

use std::{
    sync::{
        Arc,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::Duration,
};

use crate::sys::{self, ALARM_MARK, ProcessInterrupt, Tid};

/// A thread that waits. Dropped, it does so no longer; its signal may be under way all the same.
pub(super) struct Alarm {
    cancel: Option<Sender<()>>,
    timer: Option<JoinHandle<()>>,
}

impl Alarm {
    /// Once the process has computed for so long, not counting when others run.
    pub(super) fn set(interrupt: Arc<ProcessInterrupt>, process: Tid, time: Duration) -> Self {
        let (cancel, cancelled) = channel::<()>();
        let end = sys::cpu_time(process).unwrap_or_default() + time;
        let timer = std::thread::spawn(move || {
            let mut left = time;
            while cancelled.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                left = sys::cpu_time(process).map_or(Duration::ZERO, |now| end.saturating_sub(now));
                if left.is_zero() {
                    interrupt.send(ALARM_MARK);
                    return;
                }
            }
        });
        Self { cancel: Some(cancel), timer: Some(timer) }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        drop(self.cancel.take());
        if let Some(timer) = self.timer.take() {
            let _ = timer.join();
        }
    }
}
