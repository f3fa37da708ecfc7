//! Waits for one future while others keep making progress.

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

/// Waits for `what` and drives the futures in `under_way` meanwhile. Passes each of their results to `each`.
pub(crate) async fn drive_while_waiting<F: Future + Unpin, W: Future>(
    mut what: F,
    under_way: &mut FuturesUnordered<W>,
    mut each: impl FnMut(W::Output),
) -> F::Output {
    while !under_way.is_empty() {
        match select(what, under_way.next()).await {
            Either::Left((out, _)) => return out,
            Either::Right((done, still)) => {
                done.into_iter().for_each(&mut each);
                what = still;
            }
        }
    }
    what.await
}
