//! A world in a seed: two disks, a volume on them, a virtual clock, and power that can be cut.
#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "each test uses its part"
)]

mod disk;
pub mod history;

use std::rc::Rc;

use forebay_dcd::{
    AttachError, AttachOptions, AttachReport, CreateOptions, DataIdentity, Volume, VolumeId,
};
use forebay_device::{BufMut, Checked, Device, DeviceError};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

pub use disk::{Coin, Disk, Fault, Power, Rng};

/// Bytes of the smallest log with segments of 128 KiB.
pub const LOG_BYTES: u64 = (1 << 20) + 32 * (128 << 10);
pub const VOLUME: VolumeId = VolumeId([7; 16]);

pub fn identity(len: u64) -> DataIdentity {
    DataIdentity {
        len,
        path: "data".into(),
        names: vec!["serial-1".into()],
    }
}

/// Two disks and the executor they live on.
pub struct World {
    pub executor: Executor,
    pub rt: Rt,
    pub rng: Rng,
    pub power: Rc<Power>,
    pub log: Rc<Disk>,
    pub data: Rc<Disk>,
}

impl World {
    /// A world with these images, whose power goes off at request `cut_at`.
    pub fn with_images(seed: u64, cut_at: Option<u64>, log: &[u8], data: &[u8]) -> World {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let (rt, rng, power) = (executor.rt(), Rng::new(seed), Power::new(cut_at));
        let log = Disk::new(&rt, &power, &rng, log, 512);
        let data = Disk::new(&rt, &power, &rng, data, 512);
        World {
            executor,
            rt,
            rng,
            power,
            log,
            data,
        }
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
    pub fn with_volume<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        options: AttachOptions,
        each: impl FnOnce(Volume) -> F + 'static,
    ) -> Option<T> {
        let (rt, log, data) = (self.rt.clone(), Rc::clone(&self.log), Rc::clone(&self.data));
        self.run(async move {
            let identity = identity(data.geometry().len);
            let (volume, _) = Volume::attach(rt, log, data, identity, options)
                .await
                .expect("attach");
            each(volume).await
        })
    }
}

/// What is on the two disks.
#[derive(Clone)]
pub struct Images {
    pub log: Vec<u8>,
    pub data: Vec<u8>,
}

impl Images {
    /// A data device of `len` bytes with something on it, and a fresh log of the smallest size.
    pub fn fresh(len: u64) -> Images {
        let data = stamp(u64::MAX, 0, len);
        let log = fresh_log(LOG_BYTES, &data);
        Images { log, data }
    }

    /// A world with these disks.
    pub fn world(&self, seed: u64, cut_at: Option<u64>) -> World {
        World::with_images(seed, cut_at, &self.log, &self.data)
    }
}

impl World {
    /// The disks if the power were cut now.
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

    /// Attaches without expecting that it succeeds.
    pub fn attach(
        &self,
        options: AttachOptions,
    ) -> Option<Result<(Volume, AttachReport), AttachError>> {
        let (rt, log, data) = (self.rt.clone(), Rc::clone(&self.log), Rc::clone(&self.data));
        let identity = identity(data.geometry().len);
        self.run(async move { Volume::attach(rt, log, data, identity, options).await })
    }
}

/// The image of a fresh log of `len` bytes for a data device that holds `data`.
pub fn fresh_log(len: u64, data: &[u8]) -> Vec<u8> {
    let world = World::with_images(0, None, &vec![0; len as usize], data);
    let (log, home) = (Rc::clone(&world.log), Rc::clone(&world.data));
    let options = CreateOptions {
        name: "test".into(),
        volume: VOLUME,
        segment: ByteLen::kib(128),
        data: identity(data.len() as u64),
    };
    world
        .run(async move {
            forebay_dcd::create(log, home, options)
                .await
                .expect("create")
        })
        .expect("no cut");
    world.log.now()
}

/// The volume as a checked device.
pub fn checked(volume: &Volume) -> Checked<Volume> {
    Checked::new(volume.clone(), "volume")
}

pub async fn read_all(device: &dyn Device) -> Result<Vec<u8>, DeviceError> {
    let len = device.geometry().len;
    let mut out = Vec::new();
    while (out.len() as u64) < len {
        let n = (len - out.len() as u64).min(1 << 20);
        out.extend_from_slice(
            &device
                .read(out.len() as u64, BufMut::zeroed(n as usize))
                .await?,
        );
    }
    Ok(out)
}

/// Data that tells which write it is from.
pub fn stamp(id: u64, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    for (n, sector) in bytes.chunks_exact_mut(512).enumerate() {
        let number = at / 512 + n as u64;
        let mut rng = id.wrapping_mul(0x9e37_79b9).wrapping_add(number << 32 | 1);
        for word in sector.as_chunks_mut::<8>().0 {
            rng = rng
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            *word = rng.to_le_bytes();
        }
    }
    bytes
}
