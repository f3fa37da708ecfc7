//! Work that may wait for storage that this process serves.
//!
//! Creating a loop device flushes its backing file, and clearing a loop device writes back its page cache. The
//! executor's thread answers both, so they must run on another thread. That thread must not keep `/dev/fuse` open: if
//! the process were killed while the thread waits in the kernel, the connection would never close, the wait would never
//! end, and the process could never exit. So the thread detaches from the process's descriptor table before any other
//! work.
//!
//! The thread keeps the memory of the process, and a ublk device is mapped there. So work on files that may be on a ublk
//! device of this process needs a process of its own.
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

struct IsolatedState<T> {
    result: Option<io::Result<T>>,
    waker: Option<Waker>,
}

/// Future result of work that another thread does.
pub struct IsolatedFuture<T>(Arc<Mutex<IsolatedState<T>>>);

fn lock<T>(state: &Mutex<IsolatedState<T>>) -> MutexGuard<'_, IsolatedState<T>> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the result when dropped, so that the waiting task is woken even if the work panics.
pub struct ResultSender<T> {
    to: Arc<Mutex<IsolatedState<T>>>,
    result: io::Result<T>,
}

impl<T> ResultSender<T> {
    /// Sets the result.
    pub fn fill(mut self, result: io::Result<T>) {
        self.result = result;
    }
}

/// Returns a connected pair: the report that another thread fills, and the outcome that a task waits for.
pub fn promise<T>() -> (ResultSender<T>, IsolatedFuture<T>) {
    let state = Arc::new(Mutex::new(IsolatedState {
        result: None,
        waker: None,
    }));
    let report = ResultSender {
        to: Arc::clone(&state),
        result: Err(io::Error::other("a helper thread panicked")),
    };
    (report, IsolatedFuture(state))
}

impl<T> ResultSender<T> {
    /// Returns false if the outcome has been dropped.
    pub fn is_awaited(&self) -> bool {
        Arc::strong_count(&self.to) > 1
    }
}

impl<T> Drop for ResultSender<T> {
    fn drop(&mut self) {
        let lost = Err(io::Error::other("lost"));
        let mut state = lock(&self.to);
        state.result = Some(std::mem::replace(&mut self.result, lost));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Future for IsolatedFuture<T> {
    type Output = io::Result<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = lock(&self.0);
        if let Some(result) = state.result.take() {
            Poll::Ready(result)
        } else {
            state.waker = Some(cx.waker().clone());
            Poll::Pending
        }
    }
}

/// Runs `work` on its own thread, without any of the process's open descriptors but the standard three. Descriptor
/// numbers from outside are invalid there or mean something else. So the work must not use any, and must not log (a log
/// file's number may meanwhile be the volume's).
///
/// # Errors
/// If no thread can be started, or the work panicked.
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
    // Waking the executor needs one of the process's descriptors, so another thread does it. That thread may keep
    // `/dev/fuse` open: its wait for a thread ends immediately when the process is killed.
    thread().spawn(move || {
        if let Ok(result) = worker.join() {
            report.fill(result);
        }
    })?;
    outcome.await
}

fn leave_descriptors() -> io::Result<()> {
    const CLOSE_RANGE_UNSHARE: libc::c_uint = 1 << 1;
    // SAFETY: takes numbers only. The flag first gives this thread its own descriptor table, so no descriptor that
    // other code owns is closed. This thread owns none yet.
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
