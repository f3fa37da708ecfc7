//! What a volume may hold after a crash: the state after some prefix of what was asked of it.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_rt::Rt;

use super::{Rng, stamp};

const SECTOR: usize = 512;

/// What a request leaves in its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    /// As it was when the history began.
    Base,
    /// The stamp of this number.
    Data(u64),
    Zero,
    /// Anything.
    Open,
}

/// What a script asks of a volume.
#[derive(Clone, Debug)]
pub enum Action {
    Write { range: Range<u64>, fua: bool },
    Zero(Range<u64>),
    Discard(Range<u64>),
    Flush,
    Pause(Duration),
}

impl Action {
    /// The range it changes.
    pub fn range(&self) -> Option<Range<u64>> {
        match self {
            Action::Write { range, .. } | Action::Zero(range) | Action::Discard(range) => {
                Some(range.clone())
            }
            Action::Flush | Action::Pause(_) => None,
        }
    }
}

/// Everything asked of a region of a volume, in order, and how far it is durable.
#[derive(Clone)]
pub struct History {
    region: Range<u64>,
    base: Vec<u8>,
    /// Sectors of the base that may read as anything.
    open: Vec<bool>,
    steps: Vec<(Range<u64>, What)>,
    acknowledged: usize,
    durable: usize,
    id: u64,
}

pub type Shared = Rc<RefCell<History>>;

impl History {
    /// A history that begins with `base` and looks at `region`; `id` tells its stamps from others'.
    pub fn new(base: Vec<u8>, region: Range<u64>, id: u64) -> History {
        let open = vec![false; base.len() / SECTOR];
        History {
            region,
            base,
            open,
            steps: Vec::new(),
            acknowledged: 0,
            durable: 0,
            id: id << 32,
        }
    }

    pub fn whole(base: Vec<u8>, id: u64) -> History {
        let region = 0..base.len() as u64;
        History::new(base, region, id)
    }

    pub fn region(&self) -> Range<u64> {
        self.region.clone()
    }

    /// How far it is acknowledged, in steps.
    pub fn acknowledged(&self) -> usize {
        self.acknowledged
    }

    /// Everything up to this step is durable.
    pub fn set_durable(&mut self, upto: usize) {
        self.durable = self.durable.max(upto);
    }

    /// Nothing of it is durable for certain.
    pub fn forget_durability(&mut self) {
        self.durable = 0;
    }

    /// What each sector of the region held after every step that touched it.
    fn versions(&self, sector: u64) -> Vec<(usize, What)> {
        let touches = |range: &Range<u64>| {
            range.start <= sector * SECTOR as u64 && sector * (SECTOR as u64) < range.end
        };
        let mut versions = vec![(0, What::Base)];
        for (n, (range, what)) in self.steps.iter().enumerate() {
            if touches(range) {
                versions.push((n + 1, *what));
            }
        }
        versions
    }

    fn fits(&self, what: What, sector: u64, seen: &[u8]) -> bool {
        let at = sector as usize * SECTOR;
        match what {
            What::Base => self.open[sector as usize] || self.base[at..at + SECTOR] == *seen,
            What::Data(id) => stamp(id, at as u64, SECTOR as u64) == seen,
            What::Zero => seen.iter().all(|byte| *byte == 0),
            What::Open => true,
        }
    }

    fn sectors(&self) -> Range<u64> {
        self.region.start / SECTOR as u64..self.region.end / SECTOR as u64
    }

    /// After which steps, from the last durable on, the region may look like `seen`; sectors in
    /// `unreadable` are not looked at.
    ///
    /// # Errors
    /// If after none; says where it shows.
    pub fn prefixes(
        &self,
        seen: &[u8],
        unreadable: &dyn Fn(u64) -> bool,
    ) -> Result<Vec<usize>, String> {
        let mut possible = vec![true; self.steps.len() + 1];
        possible[..self.durable].fill(false);
        for sector in self.sectors().filter(|sector| !unreadable(*sector)) {
            let bytes = &seen[sector as usize * SECTOR..][..SECTOR];
            let versions = self.versions(sector);
            for (n, (from, what)) in versions.iter().enumerate() {
                let to = versions.get(n + 1).map_or(possible.len(), |next| next.0);
                if to > self.durable && !self.fits(*what, sector, bytes) {
                    possible[*from..to].fill(false);
                }
            }
            if !possible.contains(&true) {
                let fitting: Vec<_> = versions
                    .iter()
                    .filter(|(_, what)| self.fits(*what, sector, bytes))
                    .collect();
                return Err(format!(
                    "sector {sector} is as after {fitting:?} of {versions:?}; steps {}..={} may show, {} were \
                     acknowledged",
                    self.durable,
                    self.steps.len(),
                    self.acknowledged
                ));
            }
        }
        Ok((0..possible.len()).filter(|n| possible[*n]).collect())
    }

    /// As [`History::prefixes`], of each sector alone: a disk's promise.
    ///
    /// # Errors
    /// If a sector holds what it must not.
    pub fn each_sector(&self, seen: &[u8], unreadable: &dyn Fn(u64) -> bool) -> Result<(), String> {
        for sector in self.sectors().filter(|sector| !unreadable(*sector)) {
            let bytes = &seen[sector as usize * SECTOR..][..SECTOR];
            let versions = self.versions(sector);
            let first = versions.partition_point(|(step, _)| *step <= self.durable) - 1;
            let fits = |(_, what): &(usize, What)| self.fits(*what, sector, bytes);
            if !versions[first..].iter().any(fits) {
                let fitting: Vec<_> = versions.iter().filter(|version| fits(version)).collect();
                return Err(format!(
                    "sector {sector} is as after {fitting:?} of {versions:?}, durable {}",
                    self.durable
                ));
            }
        }
        Ok(())
    }

    /// Goes on from `seen`, which is the state after one of the steps `after`.
    pub fn rebase(&mut self, seen: &[u8], after: &[usize]) {
        for sector in self.sectors() {
            let versions = self.versions(sector);
            let open = after.iter().any(|step| {
                let n = versions.partition_point(|(at, _)| at <= step) - 1;
                match versions[n].1 {
                    What::Base => self.open[sector as usize],
                    what => what == What::Open,
                }
            });
            self.open[sector as usize] = open;
        }
        self.base = seen.to_vec();
        self.id += self.steps.len() as u64;
        self.steps.clear();
        (self.acknowledged, self.durable) = (0, 0);
    }

    fn step(&mut self, range: Range<u64>, what: What) -> usize {
        self.steps.push((range, what));
        self.steps.len()
    }

    fn next_id(&self) -> u64 {
        self.id + self.steps.len() as u64
    }
}

/// Does what the action says and notes it in the history.
///
/// # Errors
/// The volume's.
pub async fn perform(
    volume: &dyn Device,
    rt: &Rt,
    history: &Shared,
    action: &Action,
) -> Result<(), DeviceError> {
    match action {
        Action::Write { range, fua } => {
            let id = history.borrow().next_id();
            let step = history.borrow_mut().step(range.clone(), What::Data(id));
            let bytes = stamp(id, range.start, range.end - range.start);
            let durability = if *fua {
                Durability::Fua
            } else {
                Durability::Flush
            };
            let buf = BufMut::copy_of(&bytes).freeze();
            volume.write(range.start, buf, durability).await?;
            history.borrow_mut().acknowledged = step;
            if *fua {
                history.borrow_mut().set_durable(step);
            }
        }
        Action::Zero(range) => {
            let step = history.borrow_mut().step(range.clone(), What::Zero);
            volume.write_zeroes(range.clone()).await?;
            history.borrow_mut().acknowledged = step;
        }
        Action::Discard(range) => {
            let step = history.borrow_mut().step(range.clone(), What::Open);
            volume.discard(range.clone()).await?;
            history.borrow_mut().acknowledged = step;
        }
        Action::Flush => {
            let covered = history.borrow().acknowledged;
            volume.flush().await?;
            history.borrow_mut().set_durable(covered);
        }
        Action::Pause(span) => rt.sleep(*span).await,
    }
    Ok(())
}

/// A range inside `region`, mostly short, at most `most` bytes, often in whole lines.
pub fn extent(rng: &Rng, region: &Range<u64>, most: u64) -> Range<u64> {
    let sectors = most / 512;
    let len = 512 * (1 + rng.below(1 + rng.below(sectors)).min(sectors - 1));
    let len = if rng.below(3) == 0 && len.next_multiple_of(4096) <= most {
        len.next_multiple_of(4096)
    } else {
        len
    };
    let align = if len.is_multiple_of(4096) { 4096 } else { 512 };
    let room = region.end - region.start - len;
    let at = region.start + rng.below(room / align + 1) * align;
    at..at + len
}

/// A random action inside `region`.
pub fn random_action(rng: &Rng, region: &Range<u64>, most: u64) -> Action {
    match rng.below(24) {
        0 => Action::Discard(extent(rng, region, most)),
        1 | 2 => Action::Zero(extent(rng, region, most)),
        3..=6 => Action::Flush,
        7 => Action::Pause(Duration::from_millis(1 + rng.below(300))),
        8 => Action::Pause(Duration::from_millis(1000 + rng.below(500))),
        9 | 10 => {
            let range = extent(rng, region, most.min(16 << 10));
            Action::Write { range, fua: true }
        }
        11..=14 => {
            let range = extent(rng, region, most);
            Action::Write { range, fua: false }
        }
        _ => {
            let range = extent(rng, region, most.min(12 << 10));
            Action::Write { range, fua: false }
        }
    }
}
