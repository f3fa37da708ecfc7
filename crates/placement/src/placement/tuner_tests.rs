use super::*;
use crate::cost::DiskParameters;
use forebay_rng::Rng;

const PAGES: u64 = 4000;
const PAGE: u32 = 16;

fn medium() -> DeviceProperties {
    DeviceProperties {
        disk: DiskParameters::OF_2003,
        in_place: true,
        page_bytes: 8 << 10,
        segment_bytes: 1 << 20,
    }
}

/// A volume with a certain utilisation and cost of cleaning, and its tuner.
struct TunerRig {
    tuner: Tuner,
    rng: Rng,
    present: PlacementKind,
    full: f64,
    /// Bytes moved for each byte written while everything is logged.
    moves: f64,
    done: WorkTotals,
}

impl TunerRig {
    fn new(present: PlacementKind, full: f64, moves: f64) -> TunerRig {
        TunerRig {
            tuner: Tuner::new(medium()),
            rng: Rng::new(7),
            present,
            full,
            moves,
            done: WorkTotals::default(),
        }
    }

    /// Runs an epoch of writes, of which `hot` percent go to a fifth of the pages.
    fn epoch(&mut self, hot: u64) -> Option<TunerDecision> {
        let live = PAGES * u64::from(PAGE);
        while !self.tuner.wants_look(live) {
            let page = if self.rng.below(100) < hot {
                self.rng.below(PAGES / 5)
            } else {
                PAGES / 5 + self.rng.below(PAGES - PAGES / 5)
            };
            let at = Sector(page * u64::from(PAGE));
            self.tuner.wrote(at, PAGE, |_| true);
            self.done.written += u64::from(PAGE) * SECTOR_BYTES;
        }
        self.done.moved = (self.done.written as f64 * self.moves) as u64;
        let fill = FillLevel {
            live,
            capacity: (live as f64 / self.full) as u64,
        };
        let look = self
            .tuner
            .look(self.present, fill, live, self.done, |_| true)?;
        if let Some(kind) = look.change {
            self.present = kind;
            self.tuner.changed();
        }
        Some(look)
    }

    fn changes(&mut self, hot: u64, epochs: u32) -> Vec<PlacementKind> {
        let looks = (0..epochs).filter_map(|_| self.epoch(hot));
        looks.filter_map(|look| look.change).collect()
    }
}

#[test]
fn a_log_that_fills_up_becomes_a_hybrid_once() {
    let mut rig = TunerRig::new(PlacementKind::Lfs, 0.97, 12.0);
    assert_eq!(rig.changes(80, 30), [PlacementKind::HyLog]);
    assert!(rig.tuner.said().why.is_some());
}

#[test]
fn the_best_placement_is_kept() {
    assert_eq!(
        TunerRig::new(PlacementKind::Lfs, 0.5, 0.3).changes(80, 20),
        []
    );
    assert_eq!(
        TunerRig::new(PlacementKind::HyLog, 0.97, 12.0).changes(80, 20),
        []
    );
}

#[test]
fn the_placement_changes_only_after_several_decisions_agree() {
    let mut rig = TunerRig::new(PlacementKind::Overwrite, 0.5, 0.3);
    let looks: Vec<Option<TunerDecision>> = (0..8).map(|_| rig.epoch(80)).collect();
    let first = looks.iter().position(Option::is_some).unwrap();
    let changed = looks
        .iter()
        .position(|look| look.as_ref().is_some_and(|look| look.change.is_some()))
        .unwrap();
    assert_eq!(changed - first + 1, LOOKS as usize);
    assert_eq!(rig.present, PlacementKind::Lfs);
}

#[test]
fn a_log_that_cleans_more_cheaply_than_the_model_is_kept_longer() {
    // A fill level at which the model alone finds a hybrid cheaper.
    let cheap = TunerRig::new(PlacementKind::Lfs, 0.93, 1.0).changes(80, 20);
    let dear = TunerRig::new(PlacementKind::Lfs, 0.93, 12.0).changes(80, 20);
    assert_eq!((cheap, dear), (vec![], vec![PlacementKind::HyLog]));
}

#[test]
fn a_placement_that_does_not_fit_is_not_chosen() {
    let mut rig = TunerRig::new(PlacementKind::Lfs, 0.97, 12.0);
    let live = PAGES * u64::from(PAGE);
    let fill = FillLevel {
        live,
        capacity: (live as f64 / 0.97) as u64,
    };
    for _ in 0..3 {
        rig.epoch(80);
    }
    for _ in 0..12 {
        for n in 0..PAGES {
            let at = Sector(n % (PAGES / 5) * u64::from(PAGE));
            rig.tuner.wrote(at, PAGE, |_| true);
        }
        let look = rig
            .tuner
            .look(PlacementKind::Lfs, fill, live, rig.done, |kind| {
                kind == PlacementKind::Lfs
            });
        assert!(look.is_none_or(|look| look.change.is_none()));
    }
}
