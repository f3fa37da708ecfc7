//! Power that can be cut, and the effects of a cut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use forebay_rng::Rng;
use forebay_rt::Event;

/// Fate of writes that are not durable at a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFate {
    /// All are kept.
    Keep,
    /// All are dropped.
    Drop,
    /// Each block is kept or dropped, by this seed.
    Blocks(u64),
    /// Each write is kept or dropped as a whole, by this seed. A later write may be kept without an earlier one.
    Writes(u64),
    /// The n-th block that is not durable is kept if bit n is set. So all combinations of a few blocks can be tested.
    /// Blocks beyond the 64th are dropped.
    Mask(u64),
}

impl WriteFate {
    /// Returns the state for one toss after the other. Each toss needs to know if the block begins a write.
    pub(crate) fn toss(self) -> FateDraw {
        let seed = match self {
            WriteFate::Blocks(seed) | WriteFate::Writes(seed) => seed,
            _ => 0,
        };
        FateDraw {
            coin: self,
            rng: Rng::new(seed),
            last: false,
            count: 0,
        }
    }
}

pub(crate) struct FateDraw {
    coin: WriteFate,
    rng: Rng,
    last: bool,
    count: u32,
}

impl FateDraw {
    pub(crate) fn kept(&mut self, new_write: bool) -> bool {
        self.count += 1;
        match self.coin {
            WriteFate::Keep => true,
            WriteFate::Drop => false,
            WriteFate::Mask(mask) => mask.checked_shr(self.count - 1).unwrap_or(0) & 1 == 1,
            WriteFate::Blocks(_) => self.rng.coin(),
            WriteFate::Writes(_) => {
                if new_write {
                    self.last = self.rng.coin();
                }
                self.last
            }
        }
    }
}

/// Function that receives the number of a request.
pub type PowerWatch = Box<dyn Fn(u64)>;

/// Power that the disks of a scenario share.
pub struct SharedPower {
    requests: Cell<u64>,
    cut_at: Cell<Option<u64>>,
    off: Cell<bool>,
    went_off: Event,
    /// Called for every request that changes data, when it is issued.
    pub watch: RefCell<Option<PowerWatch>>,
}

impl SharedPower {
    /// Creates power that fails at request number `cut_at`.
    pub fn new(cut_at: Option<u64>) -> Rc<SharedPower> {
        Rc::new(SharedPower {
            requests: Cell::new(0),
            cut_at: Cell::new(cut_at),
            off: Cell::new(false),
            went_off: Event::new(),
            watch: RefCell::new(None),
        })
    }

    /// Returns the number of requests so far that change data.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// Returns true after the power has failed.
    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    /// Cuts the power now.
    pub fn cut(&self) {
        self.off.set(true);
        self.went_off.notify_all();
    }

    /// Waits until the power fails.
    pub async fn until_off(&self) {
        self.went_off.until(|| self.is_off().then_some(())).await;
    }

    /// Counts a request. Without power it waits for ever.
    pub(crate) async fn request(&self) {
        if !self.is_off() {
            let n = self.requests.get();
            self.requests.set(n + 1);
            if let Some(watch) = &*self.watch.borrow() {
                watch(n);
            }
            if self.cut_at.get() == Some(n) {
                self.cut();
            }
        }
        self.stop_if_off().await;
    }

    pub(crate) async fn stop_if_off(&self) {
        if self.is_off() {
            std::future::pending::<()>().await;
        }
    }
}
