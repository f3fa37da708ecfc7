//! The compared systems: a plain device, and volumes with different placements over this device.

use std::rc::Rc;

use anyhow::{Context, Result};
use forebay_device::Device;
use forebay_placement::cost::DiskParameters;
use forebay_placement::placement::{
    DeviceProperties, PlacementKind, PolicyFact, WorkloadProperties, choose,
};
use forebay_rt::Rt;
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{SegmentLayout, SpaceDevice, SpaceSettings, SpaceSpec, SpaceWorkers, VolumeId};
use serde::{Deserialize, Serialize};

use crate::made::{MediumCounts, MediumDevice};
use crate::workload::PAGE_BYTES;

/// The placement of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StudySystem {
    /// The device itself, with every page in its place.
    Plain,
    /// A volume with this placement.
    Volume(PlacementKind),
    /// A volume that chooses its placement, like a volume that is created without a placement.
    Auto,
}

impl StudySystem {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            StudySystem::Plain => "overwrite",
            StudySystem::Volume(kind) => kind.name(),
            StudySystem::Auto => "auto",
        }
    }
}

/// Counters of a system, in bytes unless stated otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct SystemCounters {
    /// Bytes written by users.
    pub users: u64,
    /// Bytes moved by the cleaner.
    pub moved: u64,
    /// Bytes written by checkpoints.
    pub checkpoints: u64,
    /// Users' bytes that were written in place.
    pub in_place: u64,
    /// Bytes written to the log in total, or 0 for a plain device, which does not count them.
    pub log: u64,
    /// Number of segments that the cleaner emptied.
    pub cleaned: u64,
    /// Counters of the devices below.
    pub below: MediumCounts,
}

impl SystemCounters {
    /// Returns the bytes written to the device in total, in place and in the log.
    pub fn medium(&self) -> u64 {
        self.in_place + self.log
    }

    /// Returns the counters since `before`.
    #[must_use]
    pub fn since(&self, before: &SystemCounters) -> SystemCounters {
        SystemCounters {
            users: self.users - before.users,
            moved: self.moved - before.moved,
            checkpoints: self.checkpoints - before.checkpoints,
            in_place: self.in_place - before.in_place,
            log: self.log - before.log,
            cleaned: self.cleaned - before.cleaned,
            below: self.below.since(&before.below),
        }
    }
}

/// Reciprocal of the fraction of segments that stays free of data, in addition to the needs of cleaning.
const SPARE_PART: u64 = 512;

/// A measured device and its statistics.
pub trait MeasuredSystem {
    /// Returns the device.
    fn device(&self) -> Rc<dyn Device>;

    /// Returns the current counters.
    fn counters(&self) -> SystemCounters {
        SystemCounters::default()
    }

    /// Returns the utilisation of the segments in use, which determines the cost of cleaning. `None` if the system has
    /// no segments.
    fn density(&self) -> Option<f64> {
        None
    }

    /// Returns a description of the state, for a system that stopped answering.
    fn state(&self) -> String {
        String::new()
    }

    /// Returns true if writes go to a log that must be cleaned, in the system or in a drive below it.
    fn is_log(&self) -> bool {
        false
    }

    /// Returns the statistics of the placement.
    fn facts(&self) -> Vec<PolicyFact> {
        Vec::new()
    }
}

/// A device without a layer over it.
struct PlainSystem(MediumDevice);

impl MeasuredSystem for PlainSystem {
    fn device(&self) -> Rc<dyn Device> {
        self.0.device()
    }

    /// Only a solid-state drive counts the bytes written to it.
    fn counters(&self) -> SystemCounters {
        let below = self.0.counts();
        SystemCounters {
            users: below.host,
            in_place: below.host,
            below,
            ..SystemCounters::default()
        }
    }

    fn is_log(&self) -> bool {
        self.0.is_drive()
    }
}

/// A log-structured volume.
struct VolumeSystem {
    medium: MediumDevice,
    linear: SpaceDevice,
    _workers: SpaceWorkers,
}

impl MeasuredSystem for VolumeSystem {
    fn device(&self) -> Rc<dyn Device> {
        Rc::new(self.linear.clone())
    }

    fn counters(&self) -> SystemCounters {
        let space = self.linear.space();
        let stats = space.stats();
        SystemCounters {
            users: stats.bytes_written,
            moved: stats.bytes_moved,
            checkpoints: stats.bytes_checkpoints,
            in_place: stats.bytes_in_place,
            log: space.log_stats().bytes_written,
            cleaned: stats.segments_cleaned,
            below: self.medium.counts(),
        }
    }

    fn is_log(&self) -> bool {
        true
    }

    fn density(&self) -> Option<f64> {
        let capacity = self.linear.space().capacity();
        let used = capacity.total.checked_sub(capacity.unused)?;
        Some(capacity.mapped as f64 / used as f64)
    }

    fn state(&self) -> String {
        let space = self.linear.space();
        let (capacity, stats, failure) = (space.capacity(), space.stats(), space.failure());
        format!(
            "{capacity:?}, {:?}, {stats:?}, {failure:?}",
            space.histogram()
        )
    }

    fn facts(&self) -> Vec<PolicyFact> {
        self.linear.space().facts()
    }
}

impl StudySystem {
    /// Makes the system on `medium`, for this number of pages.
    ///
    /// # Errors
    /// If the engine refuses the configuration.
    pub async fn make(
        self,
        rt: &Rt,
        medium: MediumDevice,
        pages: u32,
        segment: u64,
        disk: DiskParameters,
    ) -> Result<Box<dyn MeasuredSystem>> {
        let device = medium.device();
        let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(segment)))?;
        let placement = match self {
            StudySystem::Plain => return Ok(Box::new(PlainSystem(medium))),
            StudySystem::Volume(placement) => placement,
            StudySystem::Auto => {
                let medium = DeviceProperties {
                    disk,
                    in_place: true,
                    page_bytes: PAGE_BYTES,
                    segment_bytes: segment,
                };
                let size = u64::from(pages) * PAGE_BYTES;
                choose(
                    &medium,
                    &WorkloadProperties::assumed(PAGE_BYTES, size, layout.len),
                )
                .kind
            }
        };
        let making = SpaceSpec {
            volume: VolumeId([3; 16]),
            layout,
            space_sectors: u64::from(pages) * PAGE_BYTES / SECTOR_BYTES,
            placement,
            auto: self == StudySystem::Auto,
            page_sectors: (PAGE_BYTES / SECTOR_BYTES) as u32,
            disk: Some(disk),
        };
        forebay_vsl::create(rt.clone(), Rc::clone(&device), &making).await?;
        // The slides fill disks to 98 %.
        let options = SpaceSettings {
            spare_part: Some(SPARE_PART),
            discard: medium.wants_discards(),
            ..SpaceSettings::default()
        };
        let opened = forebay_vsl::open(rt.clone(), device, options, false).await;
        let (space, workers, _) = opened.context("what was just made cannot be taken up")?;
        Ok(Box::new(VolumeSystem {
            medium,
            linear: SpaceDevice::new(space),
            _workers: workers,
        }))
    }
}
