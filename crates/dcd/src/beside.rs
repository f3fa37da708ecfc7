//! Waiting for one thing without letting others stand still.

use futures_util::future::{Either, select};
use futures_util::stream::{FuturesUnordered, StreamExt};

/// Waits for `what` and drives what is under way meanwhile, telling `each` what comes of that.
pub(crate) async fn beside<F: Future + Unpin, W: Future>(
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
