//! Serving a request: in place if it can be answered at once, on the runtime if it has to wait.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::Handle;

/// Runs `request` until it has to wait, then hands it to the runtime.
///
/// A panic costs the caller an EIO (fuser answers that for a reply that is dropped) and nothing else.
pub(super) fn serve(runtime: &Handle, request: impl Future<Output = ()> + Send + 'static) {
    let mut request: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(request);
    // Timers need to know their runtime also when they are polled here.
    let _entered = runtime.enter();
    let polled =
        catch_unwind(AssertUnwindSafe(|| request.as_mut().poll(&mut Context::from_waker(Waker::noop()))));
    match polled {
        Ok(Poll::Ready(())) => {}
        // Polled again at once by the runtime, with a waker that counts.
        Ok(Poll::Pending) => drop(runtime.spawn(request)),
        Err(_) => tracing::error!("a request failed unexpectedly; its caller got EIO"),
    }
}

/// The same for work that never waits.
pub(super) fn serve_now(work: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(work)).is_err() {
        tracing::error!("a request failed unexpectedly; its caller got EIO");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn waiting_requests_finish_on_the_runtime_and_panics_stay_inside() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (sender, receiver) = mpsc::channel();
        let here = std::thread::current().id();
        let at_once = sender.clone();
        serve(runtime.handle(), async move {
            let _ = at_once.send(std::thread::current().id());
        });
        assert_eq!(receiver.recv().unwrap(), here, "answered in place");
        serve(runtime.handle(), async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            let _ = sender.send(std::thread::current().id());
        });
        assert_ne!(receiver.recv_timeout(Duration::from_secs(5)).unwrap(), here, "answered by the runtime");
        serve(runtime.handle(), async { panic!("expected by this test") });
        serve_now(|| panic!("expected by this test"));
    }
}
