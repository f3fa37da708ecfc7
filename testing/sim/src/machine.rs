//! Disks that share their power, and the executor on which their clients run.

use std::pin::Pin;
use std::rc::Rc;

use forebay_rng::Rng;
use forebay_rt::{Driver, Executor, Rt};
use futures_util::future::{Either, select};

use crate::disk::{DiskImage, SharedPower, SimDisk, WriteFate};
use crate::role::{DiskRole, PerDisk};

/// Content of each disk, cheap to copy.
pub type DiskContents<R> = PerDisk<R, DiskImage>;

/// Disks with an executor; see the module.
pub struct Machine<R> {
    /// The executor.
    pub executor: Executor,
    /// Handle to the executor.
    pub rt: Rt,
    /// Source of the disks' random choices.
    pub rng: Rc<Rng>,
    /// Power of all disks.
    pub power: Rc<SharedPower>,
    /// The disks.
    pub disks: PerDisk<R, Rc<SimDisk>>,
}

impl<R: DiskRole> Machine<R> {
    /// Creates a machine on this clock, with disks that contain `medium` and have `blocks` as block sizes in bytes. Its
    /// power fails at request `cut_at`.
    pub fn new(
        seed: u64,
        cut_at: Option<u64>,
        medium: &DiskContents<R>,
        blocks: &PerDisk<R, u32>,
        clock: Rc<dyn Driver>,
    ) -> Machine<R> {
        let executor = Executor::new(clock);
        let (rt, rng, power) = (
            executor.rt(),
            Rc::new(Rng::new(seed)),
            SharedPower::new(cut_at),
        );
        let disks =
            medium.map(|role, image| SimDisk::new(&rt, &power, &rng, image.clone(), blocks[role]));
        Machine {
            executor,
            rt,
            rng,
            power,
            disks,
        }
    }

    /// Runs to the end. `None` if the power is cut before.
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

    /// Returns the content of the disks after a power cut now.
    pub fn cut(&self, coin: WriteFate) -> DiskContents<R> {
        self.disks.map(|_, disk| disk.cut(coin))
    }
}
