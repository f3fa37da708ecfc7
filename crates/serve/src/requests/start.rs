//! Beginning a request.

use std::future::Future;
use std::task::{Context, Waker};

use forebay_rt::Rt;

/// Lets `request` go as far as it gets without waiting, and makes a task of it only if that is not
/// to its end: a cache answers most requests at once, and a task costs an allocation and a detour
/// through the queue while the request's data goes cold. The task outlives whoever started it, if it
/// must: a device's request is driven to its end.
pub(crate) fn start(rt: &Rt, request: impl Future<Output = ()> + 'static) {
    let mut request = Box::pin(request);
    // What it waits for may forget this waker: a task's first turn leaves the real one.
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
    fn what_need_not_wait_is_over_at_once_and_the_rest_goes_on_as_a_task() {
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
            // The task takes its first turn, and then hears of it.
            rt.yield_now().await;
            told.notify_all();
            told.until(|| (done.get() == 3).then_some(())).await;
        });
    }
}
