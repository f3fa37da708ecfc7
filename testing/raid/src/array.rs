//! The state of an array with parity.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use forebay_device::DeviceGeometry;
use forebay_rt::{RangeLock, Rt, Task};

use crate::member::ArrayMember;
use crate::rotation::ParityLayout;
use crate::stats::ParityStats;

pub(crate) struct ParityState {
    pub(crate) rt: Rt,
    pub(crate) rotation: ParityLayout,
    pub(crate) geometry: DeviceGeometry,
    /// Locks on bytes of the members, held during writes and during reads from all members.
    pub(crate) lock: Rc<RangeLock>,
    pub(crate) members: RefCell<Vec<ArrayMember>>,
    pub(crate) stats: RefCell<ParityStats>,
}

impl ParityState {
    pub(crate) fn count(&self, count: impl FnOnce(&mut ParityStats)) {
        count(&mut self.stats.borrow_mut());
    }
}

/// A task that continues when its future is dropped.
struct DetachingTask<T>(Option<Task<T>>);

impl<T> Future for DetachingTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let task = self.0.as_mut().expect("polled until it is done");
        let result = Pin::new(task).poll(cx);
        if result.is_ready() {
            self.0 = None;
        }
        result
    }
}

impl<T> Drop for DetachingTask<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
    }
}

impl ParityState {
    /// Runs `work` in a task of its own, which begins when the returned future is first awaited. A dropped request must
    /// not leave a row partly written, since its parity would be wrong.
    pub(crate) async fn driven<T: 'static, F: Future<Output = T> + 'static>(
        self: &Rc<Self>,
        work: impl FnOnce(Rc<ParityState>) -> F,
    ) -> T {
        let work = work(Rc::clone(self));
        DetachingTask(Some(self.rt.spawn(work))).await
    }
}
