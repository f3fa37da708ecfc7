//! Disks that share their power, and the executor that what uses them runs on.

use std::pin::Pin;
use std::rc::Rc;

use forebay_rng::Rng;
use forebay_rt::{Driver, Executor, Rt};
use futures_util::future::{Either, select};

use crate::disk::{Coin, Disk, Image, Power};
use crate::role::{Each, Role};

/// What is on each disk, cheap to copy.
pub type Medium<R> = Each<R, Image>;

/// See the module.
pub struct Machine<R> {
    /// The executor.
    pub executor: Executor,
    /// A handle on it.
    pub rt: Rt,
    /// Where the disks' choices come from.
    pub rng: Rc<Rng>,
    /// What all disks run on.
    pub power: Rc<Power>,
    /// The disks.
    pub disks: Each<R, Rc<Disk>>,
}

impl<R: Role> Machine<R> {
    /// A machine with disks that hold `medium`, in blocks of so many bytes each, on this clock. Its
    /// power goes off at request `cut_at`.
    pub fn new(
        seed: u64,
        cut_at: Option<u64>,
        medium: &Medium<R>,
        blocks: &Each<R, u32>,
        clock: Rc<dyn Driver>,
    ) -> Machine<R> {
        let executor = Executor::new(clock);
        let (rt, rng, power) = (executor.rt(), Rc::new(Rng::new(seed)), Power::new(cut_at));
        let disks =
            medium.map(|role, image| Disk::new(&rt, &power, &rng, image.clone(), blocks[role]));
        Machine {
            executor,
            rt,
            rng,
            power,
            disks,
        }
    }

    /// Runs to the end, or to the power cut: then `None`.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let power = Rc::clone(&self.power);
        // Boxed, so that the rest is compiled once for each output and not for each future.
        let future: Pin<Box<dyn Future<Output = T>>> = Box::pin(future);
        self.executor.block_on(async move {
            let off = std::pin::pin!(power.until_off());
            match select(future, off).await {
                Either::Left((out, _)) => Some(out),
                Either::Right(_) => None,
            }
        })
    }

    /// The disks if the power were cut now.
    pub fn cut(&self, coin: Coin) -> Medium<R> {
        self.disks.map(|_, disk| disk.cut(coin))
    }
}
