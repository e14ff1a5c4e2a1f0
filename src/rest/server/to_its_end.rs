//! Calls that must not end in the middle.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A call that goes on to its end when whoever waits for it does not: dropped before that, it becomes a task of its own.
/// It may be the one that has to close a file, or to take it away.
pub(in crate::rest) struct ToItsEnd<T: Send + 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send + 'static> ToItsEnd<T> {
    /// Nothing happens before it is awaited for the first time.
    pub(in crate::rest) fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Some(Box::pin(call)))
    }
}

impl<T: Send + 'static> Future for ToItsEnd<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let call = self.0.as_mut().expect("a call that has ended is not asked again");
        let polled = call.as_mut().poll(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for ToItsEnd<T> {
    fn drop(&mut self) {
        // A call that panicked has ended, too.
        if let Some(call) = self.0.take()
            && !std::thread::panicking()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(call));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_call_that_nobody_waits_for_goes_on() {
        let (go_on, wait) = tokio::sync::oneshot::channel::<()>();
        let (ended, mut end) = tokio::sync::mpsc::channel(1);
        let mut call = Box::pin(ToItsEnd::new(async move {
            wait.await.unwrap();
            ended.send("ended").await.unwrap();
        }));
        assert!(tokio::time::timeout(Duration::from_millis(10), &mut call).await.is_err());
        drop(call);
        go_on.send(()).unwrap();
        let said = tokio::time::timeout(Duration::from_secs(30), end.recv()).await;
        assert_eq!(said.expect("it goes on"), Some("ended"));
    }

    #[tokio::test]
    async fn a_call_that_ended_is_answered() {
        assert_eq!(ToItsEnd::new(async { 7 }).await, 7);
    }
}
