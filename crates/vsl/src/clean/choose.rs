//! Selection of the segments that are cleaned together.

use forebay_placement::pace::CleaningUrgency;
use forebay_placement::victim::{CleaningVictim, VictimSelection};
use forebay_segment_log::RecordComposer as _;

use super::{CleaningSegment, CleaningWindow, MoveMode};
use crate::claim::{ClaimFloors as _, SegmentClaim};
use crate::format::StreamNumber;
use crate::geometry::SegmentSlot;
use crate::pacing::window;
use crate::room::SpaceBudget;
use crate::space::SpaceInner;
use crate::streams::SegmentStreams;
use crate::table::SegmentTable;

/// Maximum bytes of segments that are cleaned together.
const WINDOW_BYTES: u64 = 32 << 20;
/// Minimum number of candidates to examine for segments that can be cleaned with the available space.
const LOOKED_AT: usize = 1024;
/// While no data can be moved, a segment of nodes is emptied if this fraction of the segment is gained. Where segments
/// of nodes cannot grow, half of them is garbage (`room.rs`).
const NODES_WORTH_PART: u64 = 4;
/// Minimum gain of a segment, as a fraction of the segment, unless free space is short.
const WORTH_PART: u32 = 4;

impl SpaceInner {
    /// Chooses segments to clean together: enough for the gain of one window, within the space that is available for
    /// moving.
    pub(super) fn choose(&self, urgency: CleaningUrgency) -> CleaningWindow {
        let selection = self.placement.borrow().selection();
        let mut streams = self.commit.composer_mut();
        let room = SpaceBudget::of(&streams, &self.map.borrow());
        let one_stream = room.is_tight(streams.table.queued());
        let (selection, most) = if one_stream {
            (VictimSelection::Greedy, 1)
        } else {
            let most = WINDOW_BYTES / u64::from(streams.layout.segment_bytes);
            (selection, most.max(1) as usize)
        };
        let mut victims = victims(
            &streams,
            selection,
            most,
            urgency == CleaningUrgency::Urgent,
        );
        let moved = if one_stream {
            1
        } else {
            usize::from(streams.counts.moved)
        };
        let budget = budget(&streams, &room, moved);
        if one_stream {
            prefer_old(&streams.table, &mut victims);
        }
        // Segments of data must not hide segments of nodes.
        if budget == 0 {
            victims = streams.table.choose_of_nodes(worth_of_nodes(&streams));
        }
        let wanted = window(&streams);
        let limits = WindowLimits {
            budget,
            shared: shared(&streams, &room, moved),
            wanted,
            most,
        };
        let picked = pick(&mut streams, &room, victims, limits);
        let may_rescue =
            budget == 0 && urgency == CleaningUrgency::Urgent && room.is_stuck(&streams.table);
        if !(picked.chosen.is_empty() && may_rescue) {
            return picked.moved_by(one_stream, SegmentClaim::Cleaner);
        }
        let limits = WindowLimits {
            budget: streams.layout.dense_sectors(),
            shared: 0,
            wanted: u64::MAX,
            most: LOOKED_AT,
        };
        let (now, worth) = (streams.clock, streams.table.worth());
        let victims =
            streams
                .table
                .choose(VictimSelection::Greedy, now, u64::MAX, LOOKED_AT, worth);
        pick(&mut streams, &room, victims, limits).moved_by(true, SegmentClaim::Rescue)
    }
}

/// Segments that were chosen.
struct WindowChoice {
    chosen: Vec<CleaningSegment>,
    /// See [`CleaningWindow::in_memory`].
    in_memory: bool,
}

impl WindowChoice {
    fn moved_by(self, one_stream: bool, claim: SegmentClaim) -> CleaningWindow {
        CleaningWindow {
            chosen: self.chosen,
            in_memory: self.in_memory,
            moving: MoveMode { one_stream, claim },
        }
    }
}

/// Limits of one window.
#[derive(Clone, Copy)]
struct WindowLimits {
    /// Sectors that can be moved, whatever writers take meanwhile.
    budget: u64,
    /// Sectors that can be moved if the gain is reused for moving. Writers are admitted as if this space were free.
    shared: u64,
    /// Sectors to gain.
    wanted: u64,
    /// Segments.
    most: usize,
}

/// Takes victims in their order, within the limits.
fn pick(
    streams: &mut SegmentStreams,
    room: &SpaceBudget,
    victims: Vec<CleaningVictim>,
    limits: WindowLimits,
) -> WindowChoice {
    let (mut moved, mut gained, mut rewritten) = (0, 0, 0);
    let mut chosen: Vec<CleaningSegment> = Vec::new();
    let (mut in_memory, mut passed_over) = (false, false);
    for victim in victims {
        if gained >= limits.wanted || chosen.len() >= limits.most {
            break;
        }
        let slot = SegmentSlot(victim.segment);
        let known = *streams.table.get(slot);
        if streams.flight().segment(known.seq).is_some() {
            in_memory = true;
            continue;
        }
        // Nodes leave with the next checkpoint, so they take no space from the cleaner.
        let nodes = known.stream == StreamNumber::META;
        let live = if nodes { 0 } else { u64::from(victim.live) };
        let gain = u64::from(victim.gain);
        let after = rewritten + if nodes { u64::from(known.live) } else { 0 };
        let affordable = if nodes {
            room.can_rewrite(&streams.layout, streams.table.queued(), after)
        } else {
            moved + live <= limits.budget || moved + live + gained + gain <= limits.shared
        };
        if !affordable || !streams.table.begin_cleaning(slot) {
            passed_over = true;
            continue;
        }
        (moved, gained, rewritten) = (moved + live, gained + gain, after);
        streams.table.pin(slot);
        chosen.push(CleaningSegment {
            slot,
            segment: known.seq,
            live: victim.live,
            gain: victim.gain,
        });
    }
    WindowChoice {
        chosen,
        in_memory: in_memory && !passed_over,
    }
}

/// Sorts segments first that can be reused without a checkpoint. A segment that was written since the newest checkpoint
/// comes earlier only if it gains twice as much. With few spare segments, soon all of them wait for a checkpoint, and
/// each checkpoint takes segments as well.
fn prefer_old(table: &SegmentTable, victims: &mut [CleaningVictim]) {
    let rank = |victim: &CleaningVictim| {
        if table.needs_checkpoint(SegmentSlot(victim.segment)) {
            victim.gain / 2
        } else {
            victim.gain
        }
    };
    victims.sort_by_key(|victim| std::cmp::Reverse(rank(victim)));
}

/// Returns the segments that are worth cleaning, best first.
fn victims(
    streams: &SegmentStreams,
    selection: VictimSelection,
    most: usize,
    urgent: bool,
) -> Vec<CleaningVictim> {
    let (table, now) = (&streams.table, streams.clock);
    let (segment, worth) = (streams.layout.dense_sectors() as u32, table.worth());
    let least = if urgent {
        worth
    } else {
        worth.max(segment / WORTH_PART)
    };
    let candidates = LOOKED_AT.max(most + streams.flight().segments().count());
    // A nearly empty segment costs little to clean, however young it is. A segment that gains less than `worth` is
    // never chosen: the cleaner cannot fill a segment to its last sector, so a segment that it has just filled seems to
    // gain a few sectors.
    let mut victims = table.choose(
        VictimSelection::Greedy,
        now,
        window(streams),
        most,
        segment / 4 * 3,
    );
    victims.extend(table.choose(selection, now, u64::MAX, candidates, least));
    victims
}

/// Returns the sectors that emptying a segment of nodes must gain while no data can be moved.
fn worth_of_nodes(streams: &SegmentStreams) -> u32 {
    (streams.layout.dense_sectors() / NODES_WORTH_PART) as u32
}

/// Returns the sectors that can be moved to `moved` streams with the segments that writers leave.
fn budget(streams: &SegmentStreams, room: &SpaceBudget, moved: usize) -> u64 {
    let segment = streams.layout.dense_sectors();
    let queued = streams.table.queued();
    let kept = queued.min(room.floor(SegmentClaim::Writers));
    let budget = above(kept, room.floor_at_most(), moved) * segment;
    // If writers wait, the cleaner may fill one segment.
    match above(queued, room.floor(SegmentClaim::Cleaner), moved) {
        0 => budget,
        _ => budget.max(segment),
    }
}

/// Returns the sectors that can be moved to `moved` streams, if writers take no more than the resulting gain.
fn shared(streams: &SegmentStreams, room: &SpaceBudget, moved: usize) -> u64 {
    above(streams.table.queued(), room.floor_at_most(), moved) * streams.layout.dense_sectors()
}

/// Returns the number of segments that `streams` streams can fill, with `queued` segments queued and one open segment.
fn above(queued: usize, floor: usize, streams: usize) -> u64 {
    match queued.checked_sub(floor) {
        Some(above) => (above + 1).saturating_sub(streams) as u64,
        None => 0,
    }
}
