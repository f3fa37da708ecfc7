use super::*;
use crate::cost::Disk;
use forebay_rng::Rng;

const PAGES: u64 = 4000;
const PAGE: u32 = 16;

fn medium() -> Medium {
    Medium {
        disk: Disk::OF_2003,
        in_place: true,
        page_bytes: 8 << 10,
        segment_bytes: 1 << 20,
    }
}

/// A volume with a certain utilisation and cost of cleaning, and its tuner.
struct Rig {
    tuner: Tuner,
    rng: Rng,
    present: Kind,
    full: f64,
    /// Bytes moved for each byte written while everything is logged.
    moves: f64,
    done: Done,
}

impl Rig {
    fn new(present: Kind, full: f64, moves: f64) -> Rig {
        Rig {
            tuner: Tuner::new(medium()),
            rng: Rng::new(7),
            present,
            full,
            moves,
            done: Done::default(),
        }
    }

    /// Runs an epoch of writes, of which `hot` percent go to a fifth of the pages.
    fn epoch(&mut self, hot: u64) -> Option<Look> {
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
        let fill = Fill {
            live,
            capacity: (live as f64 / self.full) as u64,
        };
        let look = self
            .tuner
            .look(self.present, (fill, live), self.done, |_| true)?;
        if let Some(kind) = look.change {
            self.present = kind;
            self.tuner.changed();
        }
        Some(look)
    }

    fn changes(&mut self, hot: u64, epochs: u32) -> Vec<Kind> {
        let looks = (0..epochs).filter_map(|_| self.epoch(hot));
        looks.filter_map(|look| look.change).collect()
    }
}

#[test]
fn a_log_that_fills_up_becomes_a_hybrid_once_and_stays_one() {
    let mut rig = Rig::new(Kind::Lfs, 0.97, 12.0);
    assert_eq!(rig.changes(80, 30), [Kind::HyLog]);
    assert!(rig.tuner.said().why.is_some());
}

#[test]
fn what_is_best_is_kept() {
    assert_eq!(Rig::new(Kind::Lfs, 0.5, 0.3).changes(80, 20), []);
    assert_eq!(Rig::new(Kind::HyLog, 0.97, 12.0).changes(80, 20), []);
}

#[test]
fn nothing_is_changed_before_several_looks_agree() {
    let mut rig = Rig::new(Kind::Overwrite, 0.5, 0.3);
    let looks: Vec<Option<Look>> = (0..8).map(|_| rig.epoch(80)).collect();
    let first = looks.iter().position(Option::is_some).unwrap();
    let changed = looks
        .iter()
        .position(|look| look.as_ref().is_some_and(|look| look.change.is_some()))
        .unwrap();
    assert_eq!(changed - first + 1, LOOKS as usize);
    assert_eq!(rig.present, Kind::Lfs);
}

#[test]
fn a_log_that_cleans_at_less_than_is_expected_is_kept_longer() {
    // A fill level at which the model alone finds a hybrid cheaper.
    let cheap = Rig::new(Kind::Lfs, 0.93, 1.0).changes(80, 20);
    let dear = Rig::new(Kind::Lfs, 0.93, 12.0).changes(80, 20);
    assert_eq!((cheap, dear), (vec![], vec![Kind::HyLog]));
}

#[test]
fn what_does_not_fit_is_not_changed_to() {
    let mut rig = Rig::new(Kind::Lfs, 0.97, 12.0);
    let live = PAGES * u64::from(PAGE);
    let fill = Fill {
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
            .look(Kind::Lfs, (fill, live), rig.done, |kind| kind == Kind::Lfs);
        assert!(look.is_none_or(|look| look.change.is_none()));
    }
}
