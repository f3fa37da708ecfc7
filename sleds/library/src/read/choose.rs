//! Decides if an order other than file order pays.

use std::fs::{File, Metadata};

use crate::delivery::{delivery_time_in, read_over, room};
use crate::describe::{Sled, shared};
use crate::level::StorageLevel;
use crate::memory::cache_capacity;
use crate::residency::{self, Presence};

use crate::plan::ReadPlan;

/// File size below which the lookup costs more than the best order can gain.
const SMALL: u64 = 1 << 20;
/// The best plan must take less than this share of the linear plan's time, by the estimates.
const SHARE: f64 = 0.95;
/// Additional time for reading cached parts without read-ahead instead of with `read`, as a share, if the table has no
/// rates for both orders. Because of this cost, a few missing pages of a cached file are read in passing.
const COPY: f64 = 0.2;

/// Returns the number of bytes from byte `from` on if the file is regular and their order does not matter, because they
/// are few. A length of 0 returns `None`: the kernel may generate the content during the read.
pub(super) fn few(file: &File, from: u64) -> Option<u64> {
    let meta = file.metadata().ok().filter(Metadata::is_file)?;
    let left = meta.len().saturating_sub(from);
    (1..SMALL).contains(&left).then_some(left)
}

/// Returns the presence of bytes `from` to `to` if it is the same for all of them, or cannot be determined.
pub(super) fn presence(file: &File, from: u64, to: u64) -> Option<Presence> {
    let look = |means| residency::uniform(file, means, from, to);
    residency::means(file)
        .and_then(look)
        .unwrap_or(Some(Presence::Unknown))
}

/// Returns true if reading bytes `from` to `to` in best order pays. `presence` returns the common presence of all
/// bytes, if they have one.
///
/// Best order pays if a part is cached, if the rest would evict that part before linear reading reaches it, and if the
/// estimates agree. If all bytes are cached, or none, the order makes no difference, and plain reading has the kernel's
/// read-ahead. If the cache has space for the whole file, plain reading loses nothing, and leaves more in the cache for
/// the next reader.
///
/// A caller that may stop at the first hit gains from any cached part.
pub(super) fn best_pays(
    file: &File,
    (from, to): (u64, u64),
    presence: impl FnOnce() -> Option<Presence>,
    may_stop: bool,
) -> bool {
    if to.saturating_sub(from) < SMALL || presence().is_some() {
        return false;
    }
    // Decided without a lookup of each part: a small file takes longer to describe than to read.
    if !may_stop && cache_capacity().is_some_and(|capacity| to - from <= capacity) {
        return false;
    }
    let Ok(mut sleds) = shared().describe_part(file, from, to) else {
        return false;
    };
    if sleds.iter().all(|sled| sled.level == StorageLevel::Memory) {
        return false;
    }
    if may_stop {
        return true;
    }
    let Some(room) = room(&sleds) else {
        return false;
    };
    let linear = delivery_time_in(&sleds, ReadPlan::Linear, Some(room));
    read_over(&mut sleds);
    let best = delivery_time_in(&sleds, ReadPlan::Best, Some(room));
    match (linear.known(), best.known()) {
        (Some(linear), Some(best)) => {
            best.median + COPY * cached_seconds(&sleds) < linear.median * SHARE
        }
        // The device's rates are unknown. The decision depends on the amount of cached data that would be lost.
        _ => sleds.iter().map(|sled| sled.length).sum::<u64>() > room,
    }
}

/// Returns the time to read the cached parts, if the table has no rates for both orders.
fn cached_seconds(sleds: &[Sled]) -> f64 {
    let cached = |sled: &&Sled| sled.level == StorageLevel::Memory && sled.linear_Bps.is_none();
    let cached = sleds.iter().filter(cached);
    let seconds = |sled: &Sled| Some(sled.length as f64 / sled.bandwidth_Bps?.median);
    cached.filter_map(seconds).sum()
}
