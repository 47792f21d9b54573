//! Work that is finished whether or not somebody still waits for it.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Runs where it is waited for, which costs less than a task; when nobody waits for it any more it
/// becomes one.
pub(crate) struct Finishing<W: Future<Output: Send> + Send + 'static> {
    /// None when it is done.
    work: Option<Pin<Box<W>>>,
}

impl<W: Future<Output: Send> + Send + 'static> Finishing<W> {
    pub(crate) fn new(work: W) -> Self {
        Self { work: Some(Box::pin(work)) }
    }
}

impl<W: Future<Output: Send> + Send + 'static> Future for Finishing<W> {
    type Output = W::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<W::Output> {
        // Taken out, so that work that panics is not gone on with.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let polled = work.as_mut().poll(context);
        if polled.is_pending() {
            self.work = Some(work);
        }
        polled
    }
}

impl<W: Future<Output: Send> + Send + 'static> Drop for Finishing<W> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{sync::oneshot, time::timeout};

    use super::*;

    #[tokio::test]
    async fn work_goes_on_when_nobody_waits_for_it() {
        let (go, told) = oneshot::channel::<u8>();
        let (say, heard) = oneshot::channel();
        let work = Finishing::new(async move { say.send(told.await).ok() });
        assert!(timeout(Duration::ZERO, work).await.is_err());
        go.send(7).unwrap();
        assert_eq!(heard.await, Ok(Ok(7)));
    }

    #[tokio::test]
    async fn work_that_is_waited_for_gives_its_result() {
        let work = Finishing::new(async {
            tokio::task::yield_now().await;
            7
        });
        assert_eq!(work.await, 7);
    }
}
