//! Work that may wait for what this process serves.
//!
//! Making a loop device flushes the file it is made of; clearing one writes back its page cache.
//! Both are answered by the executor's thread, so they must happen on another. And that other thread
//! must not keep `/dev/fuse` open: if the process is killed while it waits in the kernel, the
//! connection would never close, the wait never end, and the process stay for ever. So the thread
//! takes leave of the process's descriptors before it does anything.
#![allow(
    unsafe_code,
    reason = "one system call that no safe wrapper exists for"
)]

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tracing::subscriber::{NoSubscriber, with_default};

struct State<T> {
    result: Option<io::Result<T>>,
    waker: Option<Waker>,
}

/// What comes of work that another thread does.
pub struct Outcome<T>(Arc<Mutex<State<T>>>);

fn lock<T>(state: &Mutex<State<T>>) -> MutexGuard<'_, State<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the result when dropped, so that whoever waits is woken even if the work panics.
pub struct Report<T> {
    to: Arc<Mutex<State<T>>>,
    result: io::Result<T>,
}

impl<T> Report<T> {
    /// Sets the result.
    pub fn fill(mut self, result: io::Result<T>) {
        self.result = result;
    }
}

/// What another thread fills, and what waits for it.
pub fn promise<T>() -> (Report<T>, Outcome<T>) {
    let state = Arc::new(Mutex::new(State {
        result: None,
        waker: None,
    }));
    let report = Report {
        to: Arc::clone(&state),
        result: Err(io::Error::other("a helper thread panicked")),
    };
    (report, Outcome(state))
}

impl<T> Report<T> {
    /// False if nobody waits for it any more.
    pub fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.to) > 1
    }
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        let lost = Err(io::Error::other("lost"));
        let mut state = lock(&self.to);
        state.result = Some(std::mem::replace(&mut self.result, lost));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Future for Outcome<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        match state.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Runs `work` on a thread of its own, without any of the process's open descriptors but the
/// standard three. Descriptors opened outside mean something else to it, or nothing: so it must use
/// none, and nothing is logged from there (a log file's number may be the volume's by then).
///
/// # Errors
/// If there is no thread to be had, or the work panicked.
pub async fn isolated<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (report, outcome) = promise();
    let thread = || std::thread::Builder::new().name("forebay-helper".into());
    let worker = thread().spawn(move || {
        leave_descriptors()?;
        Ok(with_default(NoSubscriber::new(), work))
    })?;
    // Waking the executor takes one of the process's descriptors, so another thread does that. It
    // may keep `/dev/fuse` open: a wait for a thread ends at once when the process is killed.
    thread().spawn(move || {
        if let Ok(result) = worker.join() {
            report.fill(result);
        }
    })?;
    outcome.await
}

fn leave_descriptors() -> io::Result<()> {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: takes numbers only. The flag gives this thread a table of its own first, so no
    // descriptor that other code owns is closed; this thread owns none yet.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3 as libc::c_uint,
            libc::c_uint::MAX,
            CLOSE_RANGE_UNSHARE,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
