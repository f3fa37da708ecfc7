//! The devices of the study: emulated disks of reduced size, single or in an array, shingled disks, and flash.

use std::num::NonZeroU64;
use std::rc::Rc;

use anyhow::{Context, Result};
use forebay_device::{Device, DeviceSlice, StampStore};
use forebay_disk_model::disk::{
    CacheChoice, DiskOp, DiskOptions, DiskSpec, EnabledCaches, MechanicalDisk, Scheduling, named,
};
use forebay_disk_model::{Drive, EmulatedDisk, ZonedDevice};
use forebay_placement::cost;
use forebay_raid::{ParityArray, StripedArray};
use forebay_rng::{Rng, mix};
use forebay_rt::{Instant, Rt};
use forebay_units::SECTOR_BYTES;

use crate::flash_medium::FlashMedium;
use crate::made::{CountedDevice, MediumDevice};
use crate::spread::SpreadDisk;
use crate::workload::PAGE_BYTES;

/// Bytes of a disk's part of a segment, unless stated otherwise.
pub(crate) const PIECE_BYTES: u64 = 1 << 20;
/// Bytes of an array's unit. The unit is small enough that a log record has a part on every disk, and large enough that
/// a page does not.
const UNIT_BYTES: u32 = 64 << 10;
/// Bytes before the first segment of a volume.
const SUPERBLOCK_BYTES: u64 = 1 << 20;
/// Number of requests of each kind in the measurement of a disk.
const MEASURED: u32 = 4000;

/// The disks of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudyDisk {
    /// DEC RZ26.
    Of1991,
    /// Quantum Atlas 10K.
    Of1999,
    /// Seagate Cheetah X15 36LP.
    Of2003,
    /// The disk that the slides predict.
    Of2008,
    /// A disk of a terabyte, of 2012, which is not in the slides.
    Terabyte,
}

impl StudyDisk {
    /// All disks, oldest first.
    pub const ALL: [StudyDisk; 5] = [
        StudyDisk::Of1991,
        StudyDisk::Of1999,
        StudyDisk::Of2003,
        StudyDisk::Of2008,
        StudyDisk::Terabyte,
    ];

    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StudyDisk::Of1991 => "1991",
            StudyDisk::Of1999 => "1999",
            StudyDisk::Of2003 => "2003",
            StudyDisk::Of2008 => "2008",
            StudyDisk::Terabyte => "1 TB, 2012",
        }
    }

    /// Returns the name of the disk model.
    pub fn disk(self) -> &'static str {
        match self {
            StudyDisk::Of1991 => "dec_rz26",
            StudyDisk::Of1999 => "atlas10k",
            StudyDisk::Of2003 => "cheetah15k5-2003",
            StudyDisk::Of2008 => "hylog-2008",
            StudyDisk::Terabyte => "barracuda1tb-2012",
        }
    }

    /// Returns the disk's table. The disk of 1999 has its original bus, of 80 MB/s. The bus in its table, of 5 MB/s,
    /// belonged to the measuring system.
    fn spec(self) -> Result<DiskSpec> {
        let spec = named(self.disk()).with_context(|| format!("no disk {}", self.disk()))?;
        let bus = NonZeroU64::new(80_000_000);
        Ok(match bus {
            Some(bus) if self == StudyDisk::Of1999 => spec.on_bus(bus),
            _ => spec,
        })
    }

    /// Returns the costs of writing, in the terms of the cost model. The costs follow from the durations of page writes
    /// and piece writes at random places, including all overhead beside the arm and the platters.
    ///
    /// # Errors
    /// If the model does not exist.
    pub fn writing(self) -> Result<cost::DiskParameters> {
        let [page, piece] = self.sampled(DiskOp::Write)?;
        Ok(figures(page.whole, piece.whole))
    }

    /// Returns positioning and bandwidth as in data sheets and in the slides: seek and half a rotation, before a read.
    ///
    /// # Errors
    /// If the model does not exist.
    pub fn nominal(self) -> Result<cost::DiskParameters> {
        let [page, piece] = self.sampled(DiskOp::Read)?;
        let disk = figures(page.whole, piece.whole);
        Ok(cost::DiskParameters {
            positioning: page.positioning,
            ..disk
        })
    }

    fn sampled(self, op: DiskOp) -> Result<[RequestMeans; 2]> {
        let spec = self.spec()?;
        Ok([PAGE_BYTES, PIECE_BYTES].map(|bytes| sample(&spec, op, bytes)))
    }
}

/// Mean durations of requests, in seconds.
struct RequestMeans {
    whole: f64,
    positioning: f64,
}

fn figures(page: f64, piece: f64) -> cost::DiskParameters {
    let pages = (PIECE_BYTES / PAGE_BYTES) as f64;
    let transfer = (piece - page) / (pages - 1.0);
    cost::DiskParameters {
        positioning: page - transfer,
        bandwidth: PAGE_BYTES as f64 / transfer,
        arms: 1.0,
    }
}

/// Measures requests of this length at random places, one at a time.
fn sample(spec: &DiskSpec, op: DiskOp, bytes: u64) -> RequestMeans {
    let without = DiskOptions {
        caches: EnabledCaches::Off,
        ..DiskOptions::default()
    };
    let mut disk = MechanicalDisk::new(spec.clone(), without);
    let blocks = bytes / SECTOR_BYTES;
    let places = disk.blocks() / blocks;
    let rng = Rng::new(11);
    let (mut now, mut done) = (Instant::default(), Vec::new());
    let (mut whole, mut positioning) = (0.0, 0.0);
    for id in 0..u64::from(MEASURED) {
        let first = rng.below(places) * blocks;
        disk.submit(now, id, op, first, blocks as u32);
        while let Some(next) = disk.next_event() {
            disk.advance(next, &mut done);
        }
        for done in done.drain(..) {
            whole += done.at.since(now).as_secs_f64();
            positioning += (done.service.seek + done.service.rotation).as_secs_f64();
            now = done.at;
        }
        // The requests must not be synchronous with the rotation.
        now = now.plus(std::time::Duration::from_micros(rng.below(20_000)));
    }
    let mean = |sum| sum / f64::from(MEASURED);
    RequestMeans {
        whole: mean(whole),
        positioning: mean(positioning),
    }
}

/// Returns the drive's options: read-ahead, and no early acknowledgement of writes, as usual for databases.
fn options(phase: f64) -> DiskOptions {
    DiskOptions {
        caches: EnabledCaches::Explicit(CacheChoice {
            immediate_report: false,
            read_ahead: true,
        }),
        scheduling: Scheduling::Elevator,
        phase,
    }
}

/// The combination of disks into one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskArray {
    /// A single disk.
    One,
    /// Striped over this number of disks.
    Stripes(u32),
    /// Striped over this number of disks. The parity of each stripe takes one disk.
    Parity(u32),
}

impl DiskArray {
    /// Returns the number of disks.
    pub fn disks(self) -> u64 {
        match self {
            DiskArray::One => 1,
            DiskArray::Stripes(disks) | DiskArray::Parity(disks) => disks.into(),
        }
    }

    /// Returns the number of disks' capacities that hold data.
    pub fn holds(self) -> u64 {
        match self {
            DiskArray::Parity(disks) => u64::from(disks) - 1,
            _ => self.disks(),
        }
    }
}

/// Kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediumKind {
    /// Disks.
    Disks,
    /// Disks as one host-managed shingled device, with a zone for each segment.
    Zones,
    /// Flash. `model` and `array` of [`StudyMedium`] are not used.
    Flash(FlashMedium),
}

/// The device below a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StudyMedium {
    /// Kind of the device.
    pub kind: MediumKind,
    /// The disks.
    pub model: StudyDisk,
    /// The combination of the disks into one device.
    pub array: DiskArray,
    /// Bytes of a disk's part of a segment, and of the disk's piece that contains this part.
    pub piece: u64,
    /// Number of segments. Every disk has a part of each segment.
    pub segments: u64,
}

impl StudyMedium {
    /// Returns the bytes of a segment. The engine requires a power of two, so the number of an array's data disks must
    /// be a power of two.
    pub fn segment_bytes(&self) -> u64 {
        self.piece * self.array.holds()
    }

    /// Returns the number of segments' space that superblocks take.
    fn before(&self) -> u64 {
        SUPERBLOCK_BYTES.div_ceil(self.segment_bytes())
    }

    /// Returns the bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments * self.segment_bytes()
    }

    /// Returns the costs of writing, in the terms of the cost model. The disks of an array write different pages
    /// concurrently, and the parts of a segment together. A page of a stripe with parity takes four accesses.
    ///
    /// # Errors
    /// If the model does not exist.
    pub fn writing(&self) -> Result<cost::DiskParameters> {
        if let MediumKind::Flash(flash) = self.kind {
            return flash.writing();
        }
        let disk = self.model.writing()?;
        let arms = match self.array {
            DiskArray::One => 1.0,
            DiskArray::Stripes(disks) => f64::from(disks),
            DiskArray::Parity(disks) => f64::from(disks) / 4.0,
        };
        Ok(cost::DiskParameters {
            bandwidth: disk.bandwidth * self.array.holds() as f64,
            arms,
            ..disk
        })
    }

    /// Makes a device with one mebibyte for superblocks, and the segments. Each segment has a piece of every disk.
    ///
    /// # Errors
    /// If the model does not exist, or its disks cannot be an array.
    pub async fn make(&self, rt: &Rt, seed: u64) -> Result<MediumDevice> {
        let segment = self.segment_bytes();
        match self.kind {
            MediumKind::Disks => self.disks(rt, seed),
            MediumKind::Zones => {
                let disks = self.disks(rt, seed)?.device;
                let zones = Rc::new(ZonedDevice::new(disks, SUPERBLOCK_BYTES, segment)?);
                Ok(MediumDevice {
                    device: Rc::clone(&zones) as Rc<dyn Device>,
                    counted: CountedDevice::Zones(zones),
                })
            }
            MediumKind::Flash(flash) => {
                let made = flash.make(rt, SUPERBLOCK_BYTES, segment, self.segments);
                made.await
            }
        }
    }

    fn disks(&self, rt: &Rt, seed: u64) -> Result<MediumDevice> {
        let disks: Result<Vec<Rc<dyn Device>>> = (0..self.array.disks())
            .map(|number| self.disk(rt, seed, number))
            .collect();
        let mut disks = disks?;
        let mut counted = CountedDevice::Nothing;
        let whole: Rc<dyn Device> = match self.array {
            DiskArray::One => disks.remove(0),
            DiskArray::Stripes(_) => Rc::new(StripedArray::new(disks, UNIT_BYTES)?),
            // New disks contain zeroes, whose parity is right.
            DiskArray::Parity(_) => {
                let members = disks.into_iter().map(Some).collect();
                let parity = Rc::new(ParityArray::new(rt, members, UNIT_BYTES)?);
                counted = CountedDevice::Parity(Rc::clone(&parity));
                parity
            }
        };
        // Superblocks end where the first segment begins, so that each disk's part of a segment is one piece.
        let before = self.before() * self.segment_bytes() - SUPERBLOCK_BYTES;
        let len = whole.geometry().len - before;
        let used = DeviceSlice::new(whole, before, len).context("the disks are too small")?;
        Ok(MediumDevice {
            device: Rc::new(used),
            counted,
        })
    }

    fn disk(&self, rt: &Rt, seed: u64, number: u64) -> Result<Rc<dyn Device>> {
        let pieces = self.segments + self.before();
        // The disks' rotations are not synchronous.
        let phase = (mix(seed, number) >> 11) as f64 / (1u64 << 53) as f64;
        let drive = Drive::new(self.model.spec()?, options(phase));
        let spread = SpreadDisk::new(drive, self.piece / SECTOR_BYTES, pieces);
        let memory = Rc::new(StampStore::new(pieces * self.piece, 512));
        Ok(Rc::new(EmulatedDisk::new(rt, memory, spread)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_speed_up_pages_and_segments_equally_and_parity_costs_pages_four_accesses() {
        let with = |array| StudyMedium {
            kind: MediumKind::Disks,
            model: StudyDisk::Of2003,
            array,
            piece: PIECE_BYTES,
            segments: 512,
        };
        let efficiency = |array| {
            let medium = with(array);
            let disk = medium.writing().unwrap();
            disk.efficiency(PAGE_BYTES, medium.segment_bytes())
        };
        let one = efficiency(DiskArray::One);
        assert!((20.0..60.0).contains(&one), "{one}");
        let striped = efficiency(DiskArray::Stripes(4));
        assert!((striped / one - 1.0).abs() < 1e-6, "{striped} {one}");
        let parity = efficiency(DiskArray::Parity(9));
        assert!(
            (parity / one / (8.0 * 4.0 / 9.0) - 1.0).abs() < 0.05,
            "{parity} {one}"
        );
    }
}
