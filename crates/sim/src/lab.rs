//! Two disks and a volume on them, to do with by hand: what tests stand on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_dcd::{
    AttachError, AttachOptions, AttachReport, CreateOptions, DataIdentity, Testimony, Volume,
    VolumeId, Witness,
};
use forebay_device::{BufMut, Checked, Device, DeviceError};
use forebay_rng::Rng;
use forebay_rt::{Driver, Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

use crate::disk::{Coin, Disk, Image, Power};
use crate::stamp::stamp;

/// Bytes of the smallest log with segments of 128 KiB.
pub const LOG_BYTES: u64 = (1 << 20) + 32 * (128 << 10);
/// The volume every world has.
pub const VOLUME: VolumeId = VolumeId([7; 16]);
/// The stamp of what is on a data device before it gets a cache.
pub const BEFORE: u64 = u64::MAX;

/// What a data device of `len` bytes is known by.
pub fn identity(len: u64) -> DataIdentity {
    DataIdentity {
        len,
        path: "data".into(),
        names: vec!["serial-1".into()],
    }
}

/// A witness that keeps what it is told, as one on a disk of its own would.
#[derive(Debug, Default)]
pub struct Memory {
    given_up: RefCell<BTreeMap<VolumeId, u64>>,
}

impl Witness for Memory {
    fn given_up(&self, volume: VolumeId) -> Testimony<'_, Option<u64>> {
        Box::pin(async move { Ok(self.given_up.borrow().get(&volume).copied()) })
    }

    fn give_up(&self, volume: VolumeId, epoch: u64) -> Testimony<'_, ()> {
        Box::pin(async move {
            self.given_up.borrow_mut().insert(volume, epoch);
            Ok(())
        })
    }
}

/// Two disks and the executor they live on.
pub struct World {
    /// The executor.
    pub executor: Executor,
    /// A handle on it.
    pub rt: Rt,
    /// Where the disks' choices come from.
    pub rng: Rc<Rng>,
    /// What both disks run on.
    pub power: Rc<Power>,
    /// The log device.
    pub log: Rc<Disk>,
    /// The data device.
    pub data: Rc<Disk>,
    /// Who remembers logs that were given up, if anybody does.
    pub witness: RefCell<Option<Rc<dyn Witness>>>,
}

impl World {
    /// A world with these images, whose power goes off at request `cut_at`.
    pub fn with_images(seed: u64, cut_at: Option<u64>, log: &[u8], data: &[u8]) -> World {
        let medium = Medium {
            log: Image::of(log),
            data: Image::of(data),
        };
        World::new(seed, cut_at, medium, 512, Rc::new(VirtualTime::new()))
    }

    /// A world with disks in blocks of `block` bytes, on this clock.
    pub fn new(
        seed: u64,
        cut_at: Option<u64>,
        medium: Medium,
        block: u32,
        clock: Rc<dyn Driver>,
    ) -> World {
        World::with_blocks(seed, cut_at, medium, (block, block), clock)
    }

    /// As [`World::new`], with blocks of their own for the log and the data device.
    pub fn with_blocks(
        seed: u64,
        cut_at: Option<u64>,
        medium: Medium,
        blocks: (u32, u32),
        clock: Rc<dyn Driver>,
    ) -> World {
        let executor = Executor::new(clock);
        let (rt, rng, power) = (executor.rt(), Rc::new(Rng::new(seed)), Power::new(cut_at));
        let log = Disk::new("log", &rt, &power, &rng, medium.log, blocks.0);
        let data = Disk::new("data", &rt, &power, &rng, medium.data, blocks.1);
        World {
            executor,
            rt,
            rng,
            power,
            log,
            data,
            witness: RefCell::default(),
        }
    }

    /// The same world with a witness.
    #[must_use]
    pub fn witnessed(self, witness: &Rc<Memory>) -> World {
        let witness = Rc::clone(witness) as Rc<dyn Witness>;
        self.witness.replace(Some(witness));
        self
    }

    /// Runs to the end, or to the power cut: then `None`.
    pub fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Option<T> {
        let power = Rc::clone(&self.power);
        self.executor.block_on(async move {
            let future = std::pin::pin!(future);
            let off = std::pin::pin!(power.until_off());
            match futures_util::future::select(future, off).await {
                futures_util::future::Either::Left((out, _)) => Some(out),
                futures_util::future::Either::Right(_) => None,
            }
        })
    }

    /// Attaches the volume and gives it to `each`.
    ///
    /// # Panics
    /// If it cannot be attached.
    pub fn with_volume<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        options: AttachOptions,
        each: impl FnOnce(Volume) -> F + 'static,
    ) -> Option<T> {
        let attach = self.attaching(options);
        self.run(async move {
            let (volume, _) = attach.await.expect("attach");
            each(volume).await
        })
    }

    /// Attaches without expecting that it succeeds.
    pub fn attach(
        &self,
        options: AttachOptions,
    ) -> Option<Result<(Volume, AttachReport), AttachError>> {
        self.run(self.attaching(options))
    }

    /// Attaching, to be awaited: what every world, in service and when it is looked at, is attached
    /// with beside the two disks is added here.
    pub fn attaching(
        &self,
        options: AttachOptions,
    ) -> impl Future<Output = Result<(Volume, AttachReport), AttachError>> + use<> {
        let (rt, log, data) = (self.rt.clone(), Rc::clone(&self.log), Rc::clone(&self.data));
        let identity = identity(data.geometry().len);
        let witness = self.witness.borrow().clone();
        Volume::attach_witnessed(rt, log, data, identity, options, witness)
    }

    /// The disks if the power were cut now.
    pub fn cut(&self, coin: Coin) -> Medium {
        Medium {
            log: self.log.cut(coin),
            data: self.data.cut(coin),
        }
    }

    /// As [`World::cut`], in plain bytes.
    pub fn after_cut(&self, coin: Coin) -> Images {
        Images {
            log: self.log.after_cut(coin),
            data: self.data.after_cut(coin),
        }
    }

    /// The disks as reads see them.
    pub fn now(&self) -> Images {
        Images {
            log: self.log.now(),
            data: self.data.now(),
        }
    }
}

/// What is on the two disks, cheap to copy.
#[derive(Clone)]
pub struct Medium {
    /// Of the log device.
    pub log: Image,
    /// Of the data device.
    pub data: Image,
}

impl Medium {
    /// A data device of `len` bytes with something on it, and a fresh log for it, both in blocks of
    /// `block` bytes.
    ///
    /// # Panics
    /// If no log can be made for such a device.
    pub fn fresh(len: u64, block: u32) -> Medium {
        Medium::with_log(LOG_BYTES, Image::of(&stamp(BEFORE, 0, len)), block)
    }

    /// A fresh log of `log_len` bytes for a data device that holds `data`.
    ///
    /// # Panics
    /// If no log can be made for such a device.
    pub fn with_log(log_len: u64, data: Image, block: u32) -> Medium {
        Medium::with_log_on(Image::new(log_len), data, block)
    }

    /// As [`Medium::fresh`], on a log device that was something else before: making a log leaves that in
    /// its segments.
    ///
    /// # Panics
    /// If no log can be made for such a device.
    pub fn on_used_log(len: u64, block: u32) -> Medium {
        let before = Image::of(&vec![0xa5; LOG_BYTES as usize]);
        Medium::with_log_on(before, Image::of(&stamp(BEFORE, 0, len)), block)
    }

    fn with_log_on(log: Image, data: Image, block: u32) -> Medium {
        let len = data.len();
        let medium = Medium { log, data };
        let world = World::new(0, None, medium, block, Rc::new(VirtualTime::new()));
        let (log, home) = (Rc::clone(&world.log), Rc::clone(&world.data));
        let options = CreateOptions {
            name: "test".into(),
            volume: VOLUME,
            segment: ByteLen::kib(128),
            data: identity(len),
        };
        let create = async move { forebay_dcd::create(log, home, options).await };
        world.run(create).expect("no cut").expect("create");
        world.cut(Coin::Keep)
    }
}

/// What is on the two disks, in plain bytes.
#[derive(Clone)]
pub struct Images {
    /// Of the log device.
    pub log: Vec<u8>,
    /// Of the data device.
    pub data: Vec<u8>,
}

impl Images {
    /// A data device of `len` bytes with something on it, and a fresh log of the smallest size.
    pub fn fresh(len: u64) -> Images {
        let data = stamp(BEFORE, 0, len);
        let log = fresh_log(LOG_BYTES, &data);
        Images { log, data }
    }

    /// A world with these disks.
    pub fn world(&self, seed: u64, cut_at: Option<u64>) -> World {
        World::with_images(seed, cut_at, &self.log, &self.data)
    }
}

/// The image of a fresh log of `len` bytes for a data device that holds `data`.
pub fn fresh_log(len: u64, data: &[u8]) -> Vec<u8> {
    Medium::with_log(len, Image::of(data), 512).log.to_vec()
}

/// The volume as a checked device.
pub fn checked(volume: &Volume) -> Checked<Volume> {
    Checked::new(volume.clone(), "volume")
}

/// All that is on a device.
///
/// # Errors
/// The device's.
pub async fn read_all(device: &dyn Device) -> Result<Vec<u8>, DeviceError> {
    let len = device.geometry().len;
    let mut out = Vec::with_capacity(len as usize);
    while (out.len() as u64) < len {
        let n = (len - out.len() as u64).min(1 << 20);
        let buf = BufMut::zeroed(n as usize);
        out.extend_from_slice(&device.read(out.len() as u64, buf).await?);
    }
    Ok(out)
}
