//! A volume on a simulated disk: how it is made and attached.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability, Geometry, IoFuture, Room};
use forebay_rng::Rng;
use forebay_rt::{Rt, Task, VirtualTime};
use forebay_sim::disk::{Coin, Image};
use forebay_sim::machine::Machine;
use forebay_sim::role::Each;
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{
    Kind, Layout, Linear, Making, OpenError, Options, Recovery, Space, VolumeId, Workers,
};

use super::settings::Role;

/// Bytes of a segment: the smallest.
pub(super) const SEGMENT_BYTES: u64 = 128 << 10;

/// Bytes of the disk: the fewest segments, or enough for the streams of all placements that it will have.
fn medium_bytes(placement: Kind, changes: bool) -> u64 {
    let segments = match placement {
        _ if changes => 64,
        Kind::Lfs | Kind::Overwrite => 32,
        Kind::Wolf | Kind::HyLog => 40,
        Kind::SepBit | Kind::HyLogSepBit => 64,
    };
    (1 << 20) + segments * SEGMENT_BYTES
}

/// The volume every world has.
const VOLUME: VolumeId = VolumeId([9; 16]);

/// What is on the disk, cheap to copy.
pub(super) type Medium = forebay_sim::machine::Medium<Role>;

/// A volume that is attached.
#[derive(Clone)]
pub struct Served {
    pub(super) rt: Rt,
    linear: Linear,
    _workers: Rc<Workers>,
    _changing: Option<Rc<Task<()>>>,
}

impl Served {
    /// The volume as a device.
    pub fn linear(&self) -> &Linear {
        &self.linear
    }
}

impl Device for Served {
    fn geometry(&self) -> Geometry {
        self.linear.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.linear.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        self.linear.write(at, buf, durability)
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.linear.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.linear.discard(range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: Room) -> IoFuture<'_, ()> {
        self.linear.write_zeroes(range, room)
    }
}

/// Changes of the placement while a volume is attached.
pub(super) struct Changes {
    pub(super) rng: Rng,
    /// What it is changed to.
    pub(super) kinds: Vec<Kind>,
}

impl Changes {
    /// Makes a few. One that is refused since the volume is too full, or that fails with the disk, changes nothing.
    async fn make(self, rt: Rt, space: Space) {
        for _ in 0..1 + self.rng.below(6) {
            rt.sleep(Duration::from_micros(1 << self.rng.below(16)))
                .await;
            let kind = self.rng.pick(&self.kinds);
            let _ = space.set_placement(Some(kind)).await;
        }
    }
}

/// Attaching the volume on a machine, to be awaited.
pub(super) fn attaching(
    machine: &Machine<Role>,
    options: Options,
    accept_loss: bool,
    changes: Option<Changes>,
) -> impl Future<Output = Result<(Served, Recovery), OpenError>> + use<> {
    let rt = machine.rt.clone();
    let disk: Rc<dyn Device> = Rc::clone(&machine.disks[Role::Medium]) as Rc<dyn Device>;
    async move {
        let opened = forebay_vsl::open(rt.clone(), disk, options, accept_loss).await;
        let (space, workers, recovery) = opened?;
        let changing = changes.map(|changes| {
            let changing = changes.make(rt.clone(), space.clone());
            Rc::new(rt.spawn(changing))
        });
        let served = Served {
            _changing: changing,
            rt,
            linear: Linear::new(space),
            _workers: Rc::new(workers),
        };
        Ok((served, recovery))
    }
}

/// A disk with a volume of `holds.len()` bytes that holds this.
///
/// # Panics
/// If no volume can be made there.
pub(super) fn holding(holds: &[u8], block: u32, (placement, changes): (Kind, bool)) -> Medium {
    let clock = Rc::new(VirtualTime::new());
    let blocks = Each::of(|_| block);
    let empty = Each::of(|_| Image::new(medium_bytes(placement, changes)));
    let machine = Machine::new(0, None, &empty, &blocks, clock);
    let disk: Rc<dyn Device> = Rc::clone(&machine.disks[Role::Medium]) as Rc<dyn Device>;
    let layout = Layout::for_device(&disk.geometry(), Some(ByteLen(SEGMENT_BYTES)));
    let making = Making {
        volume: VOLUME,
        layout: layout.expect("it is large enough"),
        space_sectors: holds.len() as u64 / SECTOR_BYTES,
        placement,
        auto: false,
        page_sectors: 16,
        disk: None,
    };
    let rt = machine.rt.clone();
    let create = async move { forebay_vsl::create(rt, disk, &making).await };
    machine.run(create).expect("no cut").expect("created");
    let attach = attaching(&machine, Options::default(), false, None);
    let buf = BufMut::copy_of(holds).freeze();
    let fill = async move {
        let (served, _) = attach.await.expect("attached");
        served
            .write(0, buf, Durability::Flush)
            .await
            .expect("written");
        served.linear.space().checkpoint().await.expect("kept");
    };
    machine.run(fill).expect("no cut");
    machine.cut(Coin::Keep)
}

/// What a fresh disk is made for: the volume's length, the disk's blocks, the placement, and whether that changes.
type Fresh = (u64, u32, (Kind, bool));

thread_local! {
    /// Fresh disks: made once, shared by all worlds of a thread.
    static FRESH: RefCell<Vec<(Fresh, Medium)>> = const { RefCell::new(Vec::new()) };
}

/// A disk with a volume that holds what every volume holds before, made once on a thread.
pub(super) fn kept(len: u64, block: u32, placement: (Kind, bool)) -> Medium {
    let key = (len, block, placement);
    let known = FRESH.with_borrow(|all| {
        let known = all.iter().find(|(known, _)| *known == key);
        known.map(|(_, medium)| medium.clone())
    });
    known.unwrap_or_else(|| {
        let medium = holding(&stamp(BEFORE, 0, len), block, placement);
        FRESH.with_borrow_mut(|all| all.push((key, medium.clone())));
        medium
    })
}
