//! The start of a request.

use std::future::Future;
use std::task::{Context, Waker};

use forebay_rt::Rt;

/// Polls `request` once, and makes it a task only if it is then still pending. A cache answers most requests at once,
/// and a task costs an allocation and a detour through the queue while the request's data leaves the CPU's caches. The
/// task may outlive its creator, because a device's request is always driven to its end.
pub fn start(rt: &Rt, request: impl Future<Output = ()> + 'static) {
    let mut request = Box::pin(request);
    // The future can forget this waker: the first poll of the task registers the real waker.
    let mut nobody = Context::from_waker(Waker::noop());
    if request.as_mut().poll(&mut nobody).is_pending() {
        rt.spawn(request).detach();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use forebay_rt::{Event, Executor, VirtualTime};

    use super::*;

    #[test]
    fn requests_that_need_no_wait_finish_at_once_and_others_continue_as_tasks() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let (done, told) = (Rc::new(Cell::new(0)), Rc::new(Event::new()));
        executor.block_on(async move {
            let add = |done: &Rc<Cell<u32>>| done.set(done.get() + 1);
            let at_once = Rc::clone(&done);
            start(&rt, async move { add(&at_once) });
            assert_eq!(done.get(), 1);
            let (later, tell) = (Rc::clone(&done), Rc::clone(&told));
            start(&rt, async move {
                add(&later);
                tell.listen().await;
                add(&later);
                tell.notify_all();
            });
            assert_eq!(done.get(), 2);
            // The task is polled for the first time and registers its waker.
            rt.yield_now().await;
            told.notify_all();
            told.until(|| (done.get() == 3).then_some(())).await;
        });
    }
}
