//! Which segments are cleaned together.

use forebay_placement::pace::Urgency;
use forebay_placement::victim::{Selection, Victim};
use forebay_segments::Composer as _;

use super::{Chosen, Moving, Window};
use crate::claim::{Claim, Floors as _};
use crate::format::Stream;
use crate::geometry::Slot;
use crate::pacing::window;
use crate::room::Room;
use crate::space::Inner;
use crate::streams::Streams;
use crate::table::SegmentTable;

/// The most bytes of segments that are cleaned together.
const WINDOW_BYTES: u64 = 32 << 20;
/// At least so many segments are looked at for those that can be cleaned with the room there is.
const LOOKED_AT: usize = 1024;
/// While no data can be moved, a segment of nodes is emptied for a gain of this part of it. Where segments of nodes cannot
/// grow, half of them is garbage (`room.rs`).
const NODES_WORTH_PART: u64 = 4;
/// Unless room is short, a segment is cleaned only for this part of it.
const WORTH_PART: u32 = 4;

impl Inner {
    /// Segments to be cleaned together: as many as gain what a window is to gain, and as can be moved with the room
    /// that there is.
    pub(super) fn choose(&self, urgency: Urgency) -> Window {
        let selection = self.placement.borrow().selection();
        let mut streams = self.commit.composer_mut();
        let room = Room::of(&streams, &self.map.borrow());
        let one_stream = room.is_tight(streams.table.queued());
        let (selection, most) = match one_stream {
            true => (Selection::Greedy, 1),
            false => {
                let most = WINDOW_BYTES / u64::from(streams.layout.segment_bytes);
                (selection, most.max(1) as usize)
            }
        };
        let mut victims = victims(&streams, selection, most, urgency == Urgency::Urgent);
        let moved = match one_stream {
            true => 1,
            false => usize::from(streams.counts.moved),
        };
        let budget = budget(&streams, &room, moved);
        if one_stream {
            prefer_old(&streams.table, &mut victims);
        }
        // Data does not hide the segments of nodes.
        if budget == 0 {
            victims = streams.table.choose_of_nodes(worth_of_nodes(&streams));
        }
        let wanted = window(&streams);
        let limits = Limits {
            budget,
            shared: shared(&streams, &room, moved),
            wanted,
            most,
        };
        let picked = pick(&mut streams, &room, victims, limits);
        let may_rescue = budget == 0 && urgency == Urgency::Urgent && room.is_stuck(&streams.table);
        if !(picked.chosen.is_empty() && may_rescue) {
            return picked.moved_by(one_stream, Claim::Cleaner);
        }
        let limits = Limits {
            budget: streams.layout.dense_sectors(),
            shared: 0,
            wanted: u64::MAX,
            most: LOOKED_AT,
        };
        let (now, worth) = (streams.clock, streams.table.worth());
        let victims = streams
            .table
            .choose(Selection::Greedy, now, u64::MAX, LOOKED_AT, worth);
        pick(&mut streams, &room, victims, limits).moved_by(true, Claim::Rescue)
    }
}

/// Segments that were chosen.
struct Picked {
    chosen: Vec<Chosen>,
    /// See [`Window::in_memory`].
    in_memory: bool,
}

impl Picked {
    fn moved_by(self, one_stream: bool, claim: Claim) -> Window {
        Window {
            chosen: self.chosen,
            in_memory: self.in_memory,
            moving: Moving { one_stream, claim },
        }
    }
}

/// Limits of one window.
#[derive(Clone, Copy)]
struct Limits {
    /// Sectors that can be moved, whatever writers take meanwhile.
    budget: u64,
    /// Sectors that can be moved, with what is gained by that: writers are let go on as if it were free.
    shared: u64,
    /// Sectors that are to be gained.
    wanted: u64,
    /// Segments.
    most: usize,
}

/// Takes victims in their order, as far as the limits go.
fn pick(streams: &mut Streams, room: &Room, victims: Vec<Victim>, limits: Limits) -> Picked {
    let (mut moved, mut gained, mut rewritten) = (0, 0, 0);
    let mut chosen: Vec<Chosen> = Vec::new();
    let (mut in_memory, mut passed_over) = (false, false);
    for victim in victims {
        if gained >= limits.wanted || chosen.len() >= limits.most {
            break;
        }
        let slot = Slot(victim.segment);
        let known = *streams.table.get(slot);
        if streams.flight().segment(known.seq).is_some() {
            in_memory = true;
            continue;
        }
        // Nodes leave with the next checkpoint, and take no room of the cleaner's.
        let nodes = known.stream == Stream::META;
        let live = if nodes { 0 } else { u64::from(victim.live) };
        let gain = u64::from(victim.gain);
        let after = rewritten + if nodes { u64::from(known.live) } else { 0 };
        let affordable = match nodes {
            true => room.can_rewrite(&streams.layout, streams.table.queued(), after),
            false => moved + live <= limits.budget || moved + live + gained + gain <= limits.shared,
        };
        if !affordable || !streams.table.begin_cleaning(slot) {
            passed_over = true;
            continue;
        }
        (moved, gained, rewritten) = (moved + live, gained + gain, after);
        streams.table.pin(slot);
        chosen.push(Chosen {
            slot,
            segment: known.seq,
            live: victim.live,
            gain: victim.gain,
        });
    }
    Picked {
        chosen,
        in_memory: in_memory && !passed_over,
    }
}

/// Puts segments first that can be used again without a checkpoint. A segment that was written since the newest checkpoint
/// is cleaned before them only if it gains twice as much: where few segments are spare, those that wait for a checkpoint soon
/// are all of them, and each checkpoint takes segments as well.
fn prefer_old(table: &SegmentTable, victims: &mut [Victim]) {
    let rank = |victim: &Victim| match table.needs_checkpoint(Slot(victim.segment)) {
        true => victim.gain / 2,
        false => victim.gain,
    };
    victims.sort_by_key(|victim| std::cmp::Reverse(rank(victim)));
}

/// Segments that are worth cleaning, best first.
fn victims(streams: &Streams, selection: Selection, most: usize, urgent: bool) -> Vec<Victim> {
    let (table, now) = (&streams.table, streams.clock);
    let (segment, worth) = (streams.layout.dense_sectors() as u32, table.worth());
    let least = match urgent {
        true => worth,
        false => worth.max(segment / WORTH_PART),
    };
    let looked_at = LOOKED_AT.max(most + streams.flight().segments().count());
    // A nearly empty segment costs little to clean, however young it is. A segment that gains less than `worth` is never
    // chosen: the cleaner cannot fill a segment to its last sector, so one that it has just filled seems to gain a few.
    let mut victims = table.choose(
        Selection::Greedy,
        now,
        window(streams),
        most,
        segment / 4 * 3,
    );
    victims.extend(table.choose(selection, now, u64::MAX, looked_at, least));
    victims
}

/// Sectors that emptying a segment of nodes must gain while no data can be moved.
fn worth_of_nodes(streams: &Streams) -> u32 {
    (streams.layout.dense_sectors() / NODES_WORTH_PART) as u32
}

/// Sectors that can be moved to so many streams with what writers leave.
fn budget(streams: &Streams, room: &Room, moved: usize) -> u64 {
    let segment = streams.layout.dense_sectors();
    let queued = streams.table.queued();
    let kept = queued.min(room.floor(Claim::Writers));
    let budget = above(kept, room.floor_at_most(), moved) * segment;
    // Where writers wait, there is room for one.
    match above(queued, room.floor(Claim::Cleaner), moved) {
        0 => budget,
        _ => budget.max(segment),
    }
}

/// Sectors that can be moved to so many streams, if writers take no more than what is gained by that.
fn shared(streams: &Streams, room: &Room, moved: usize) -> u64 {
    above(streams.table.queued(), room.floor_at_most(), moved) * streams.layout.dense_sectors()
}

/// Segments that so many streams can fill where so many are queued, with one that is open.
fn above(queued: usize, floor: usize, streams: usize) -> u64 {
    match queued.checked_sub(floor) {
        Some(above) => (above + 1).saturating_sub(streams) as u64,
        None => 0,
    }
}
