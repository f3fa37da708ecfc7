//! Whether another order than the file's pays.

use std::fs::{File, Metadata};

use crate::delivery::{delivery_time_in, read_over, room};
use crate::describe::{Sled, shared};
use crate::level::Level;
use crate::memory::cache_capacity;
use crate::residency::{self, Presence};

use super::Plan;

/// Looking costs more than is to be gained from files up to this many bytes.
const SMALL: u64 = 1 << 20;
/// The best plan must be estimated to take less than this share of the linear one's time.
const SHARE: f64 = 0.95;
/// What is cached takes so much longer without read-ahead than by `read`, as a share of the time, where
/// the table does not say. So a few pages that are missing from a cached file are read in passing.
const COPY: f64 = 0.2;

/// How many bytes there are from byte `from` on, in a regular file if they are too few for their order
/// to matter. None at all may mean that the kernel makes them up as they are read.
pub(super) fn few(file: &File, from: u64) -> Option<u64> {
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    let left = meta.len().saturating_sub(from);
    (1..SMALL).contains(&left).then_some(left)
}

/// Where all of bytes `from` to `to` are, if that is one place, or cannot be known.
pub(super) fn presence(file: &File, from: u64, to: u64) -> Option<Presence> {
    let look = |means| residency::uniform(file, means, from, to);
    residency::means(file)
        .and_then(look)
        .unwrap_or(Some(Presence::Unknown))
}

/// Whether reading bytes `from` to `to`, which are all where `presence` says, in best order is worth it.
///
/// It is if a part is cached and the rest would evict it before linear reading gets there, and the
/// estimates agree. All cached, or nothing: the order makes no difference, and plain reading has
/// the kernel's read-ahead. With room for all of it in the cache, plain reading loses nothing, and
/// leaves more in the cache for the next one.
///
/// Who may stop at the first hit gains if there is a cached part at all.
pub(super) fn best_pays(
    file: &File,
    (from, to): (u64, u64),
    presence: impl FnOnce() -> Option<Presence>,
    may_stop: bool,
) -> bool {
    if to.saturating_sub(from) < SMALL || presence().is_some() {
        return false;
    }
    // Known without asking for what is where: a small file takes longer to describe than to read.
    if !may_stop && cache_capacity().is_some_and(|capacity| to - from <= capacity) {
        return false;
    }
    let Ok(mut sleds) = shared().describe_part(file, from, to) else {
        return false;
    };
    if sleds.iter().all(|sled| sled.level == Level::Memory) {
        return false;
    }
    if may_stop {
        return true;
    }
    let Some(room) = room(&sleds) else {
        return false;
    };
    let linear = delivery_time_in(&sleds, Plan::Linear, Some(room));
    read_over(&mut sleds);
    let best = delivery_time_in(&sleds, Plan::Best, Some(room));
    match (linear.known(), best.known()) {
        (Some(linear), Some(best)) => {
            best.median + COPY * cached_seconds(&sleds) < linear.median * SHARE
        }
        // Nothing is known of the device, but that it is not memory; what counts is how much of the
        // cached part would be lost.
        _ => sleds.iter().map(|sled| sled.length).sum::<u64>() > room,
    }
}

/// How long it takes to read what is cached, where the table does not tell the orders apart.
fn cached_seconds(sleds: &[Sled]) -> f64 {
    let cached = |sled: &&Sled| sled.level == Level::Memory && sled.linear_Bps.is_none();
    let cached = sleds.iter().filter(cached);
    let seconds = |sled: &Sled| Some(sled.length as f64 / sled.bandwidth_Bps?.median);
    cached.filter_map(seconds).sum()
}
