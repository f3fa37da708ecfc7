//! Reaper: releases the data of subtrees that large trims detached from the map.

use std::rc::Rc;

use forebay_extent_map::{MapChanges, NeededNode};

use super::retry::ReadRetry;
use crate::error::SpaceError;
use crate::space::SpaceInner;

/// Number of reads before a node with a wrong checksum counts as damaged.
const READS_OF_DAMAGED: u32 = 3;

/// Walks detached subtrees of the map, and releases the places that they refer to.
pub(crate) async fn reaper(inner: Rc<SpaceInner>) {
    let (mut retry, mut damaged) = (ReadRetry::new(), 0);
    loop {
        let asked = inner.reap_asked.listen();
        let mut changes = MapChanges::default();
        let tried = inner.map.borrow_mut().reap(&mut changes);
        let need = match tried {
            Ok(true) => {
                inner.commit.composer_mut().table.count(&changes);
                inner.commit.notify();
                inner.rt.yield_now().await;
                continue;
            }
            Ok(false) => {
                asked.await;
                continue;
            }
            Err(need) => need,
        };
        drop(asked);
        match inner.load(&need).await {
            Ok(()) => {
                (retry, damaged) = (ReadRetry::new(), 0);
                inner.reaper_fault.replace(None);
            }
            Err(_) if inner.commit.failure().is_some() => return,
            Err(SpaceError::Node(..)) if damaged + 1 >= READS_OF_DAMAGED => {
                damaged = 0;
                inner.abandon(&need);
            }
            Err(error) => {
                damaged += u32::from(matches!(error, SpaceError::Node(..)));
                if matches!(error, SpaceError::Device(_)) {
                    inner.note_fault(&inner.reaper_fault, &error);
                }
                if retry.failures == 0 {
                    tracing::warn!(%error, "trimmed data cannot be reclaimed; will retry");
                }
                retry.failed(inner.rt.now());
                inner.rt.sleep_until(retry.at.expect("it failed")).await;
                // Clear the time, so that the next failure sets another time.
                retry.is_due(inner.rt.now());
            }
        }
    }
}

impl SpaceInner {
    /// Forgets a detached subtree whose root is damaged. The places below this root are unknown, and count as live
    /// until live data is counted again. A checkpoint makes the next attach count again, also after a crash.
    fn abandon(self: &Rc<Self>, need: &NeededNode) {
        if self.map.borrow_mut().abandon_detached(need) {
            tracing::error!(
                place = need.place.0,
                "a node of the map in a trimmed range is damaged; the next attach frees the space below this node"
            );
            self.ask_for_checkpoint();
        }
        self.commit.notify();
    }
}
