//! HyLog: hot pages are logged, cold pages are overwritten in place (Wang, Zhao and Bunt, FAST 2004).
//!
//! A cold page that becomes hot is appended to the log, and leaves a hole at its old place. A hot page that cleaning
//! finds cold plugs a hole. So all free space belongs to the hot log, and accumulates there. `placement/heat.rs`
//! classifies the pages.
//!
//! Any other policy can control the hot log; in the paper it is `lfs`. Its streams come first. One stream follows for
//! cold data without a place: the first writes of clients, and moved data that fits no hole.

use super::heat::PageHeat;
use super::{
    CollectedSegment, FillLevel, MovedExtent, MovedPlace, Placement, PlacementAnswer,
    PlacementKind, PlacementOptions, PolicyFact, PolicyNeeds, UserPlace, UserWrite, saved,
};
use crate::victim::VictimSelection;

/// HyLog, with the policy of its hot log.
#[derive(Debug)]
pub(super) struct HyLog<L> {
    kind: PlacementKind,
    heat: PageHeat,
    log: L,
    plugs: bool,
    /// Hot and cold sectors that clients wrote, and that cleaning found.
    written: [u64; 2],
    found: [u64; 2],
}

impl<L: Placement> HyLog<L> {
    pub(super) fn new(kind: PlacementKind, options: &PlacementOptions, log: L) -> HyLog<L> {
        HyLog {
            kind,
            heat: PageHeat::new(options),
            log,
            plugs: options.plugs,
            written: [0; 2],
            found: [0; 2],
        }
    }
}

fn add(sum: &mut [u64; 2], hot: bool, sectors: u32) {
    let sum = &mut sum[usize::from(!hot)];
    *sum = sum.saturating_add(u64::from(sectors));
}

fn hot_share([hot, cold]: [u64; 2]) -> f64 {
    hot as f64 / hot.saturating_add(cold).max(1) as f64
}

impl<L: Placement> Placement for HyLog<L> {
    fn kind(&self) -> PlacementKind {
        self.kind
    }

    fn needs(&self) -> PolicyNeeds {
        let log = self.log.needs();
        PolicyNeeds {
            user: log.user + 1,
            moved: log.moved + 1,
            in_place: true,
            order: log.order,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace> {
        let age = write.overwrites.map(|old| write.now.since(old.born));
        let (hot, sectors) = self.heat.judge(write.at, write.sectors, age);
        let part = UserWrite { sectors, ..*write };
        let placed = if hot {
            self.log.place_user(&part)
        } else {
            PlacementAnswer {
                place: UserPlace::InPlace(self.log.needs().user),
                sectors,
            }
        };
        add(&mut self.written, hot, placed.sectors);
        if age.is_some() {
            self.heat.wrote(write.at, placed.sectors, hot);
        }
        placed
    }

    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace> {
        let age = piece.now.since(piece.born);
        let (hot, sectors) = self.heat.judge(piece.at, piece.sectors, Some(age));
        let part = MovedExtent { sectors, ..*piece };
        let placed = if hot {
            self.log.place_moved(&part)
        } else {
            PlacementAnswer {
                place: MovedPlace::Plug(self.log.needs().moved),
                sectors,
            }
        };
        add(&mut self.found, hot, placed.sectors);
        self.heat.moved(placed.sectors);
        placed
    }

    /// Returns the selection of the log's policy. But if holes between cold pages are plugged, selection by age would
    /// move cold pages for nothing, so the selection is greedy. If holes are not plugged, selection by age returns the
    /// holes' space to the log.
    fn selection(&self) -> VictimSelection {
        if self.plugs && self.heat.divides() {
            VictimSelection::Greedy
        } else {
            self.log.selection()
        }
    }

    fn collected(&mut self, segment: &CollectedSegment) {
        self.log.collected(segment);
    }

    fn filled(&mut self, fill: FillLevel) {
        self.heat.filled(fill);
        self.log.filled(fill);
    }

    fn describe(&self) -> Vec<PolicyFact> {
        let best = self.heat.best();
        let fact = |name, value, unit| PolicyFact { name, value, unit };
        let mut facts = vec![
            fact("hot share", best.share, "of pages"),
            fact("expected of them", best.received, "of writes"),
            fact("logged", hot_share(self.written), "of writes"),
            fact("found hot while cleaning", hot_share(self.found), "of data"),
            fact("in place", self.heat.home_cost(), "segment writes"),
            fact("expected cost", best.cost, "segment writes"),
        ];
        if let Some(room) = self.heat.room() {
            facts.push(fact("usable by the hot log", room, "of free space"));
        }
        if let Some(bar) = self.heat.bar() {
            facts.push(fact("hot from", f64::from(bar), "writes in four epochs"));
        }
        facts.extend(self.log.describe());
        facts
    }

    fn save(&self) -> Vec<u8> {
        let heat = [
            self.heat.best().share.to_bits(),
            self.heat.lifetime(),
            self.heat.measured().to_bits(),
        ];
        let mut bytes = saved::encode(self.kind, &heat);
        bytes.extend(self.log.save());
        bytes
    }

    fn restore(&mut self, bytes: &[u8]) -> bool {
        let own = saved::len(3).min(bytes.len());
        let (heat, log) = bytes.split_at(own);
        let Some([share, lifetime, measured]) = saved::decode(self.kind, heat) else {
            return false;
        };
        let (share, measured) = (f64::from_bits(share), f64::from_bits(measured));
        if !(0.0..=1.0).contains(&share) {
            return false;
        }
        self.heat.restore(share, lifetime, measured);
        self.log.restore(log);
        true
    }
}
