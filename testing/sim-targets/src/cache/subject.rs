//! What the write cache promises, and what is tried with it.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AckMode, AttachOptions, AttachReport, CacheMode, DcdAttachError, DcdVolume, DrainError,
    OffsetPolicy,
};
use forebay_device::{DeviceOp, IoFuture};
use forebay_ring_log::{LogOpenError, PairError};
use forebay_sim::Violation;
use forebay_sim::disk::{DiskFaults, DiskImage, DiskRequest, SimDisk};
use forebay_sim::exhaustive::{ATOMIC_BYTES, cuts};
use forebay_sim::lanes::CrashGuarantee;
use forebay_sim::machine::Machine;
use forebay_sim::plan::ScenarioSettings;
use forebay_sim::role::PerDisk;
use forebay_sim::subject::{
    AttachFuture, AttachPurpose, ClientTotals, ExchangedDisk, RefusalMeaning, RequestWatcher,
    TestedSystem, TimeBounds,
};
use forebay_units::ByteLen;

use super::checkers::smooth::{self, StarvationChecker};
use super::checkers::{DataDeviceWatcher, LogDeviceWatcher, accounts, epochs, liveness};
use super::plan::{CacheIncarnation, CachePlan, of_seed};
use super::settings::{CacheDisk, CacheFaultKind, CacheTarget};
use super::volume::{CacheImages, LOG_BYTES, attaching, kept, lost_with, medium, with_log};

/// What has happened to a cache in one life.
#[derive(Clone, Copy, Default)]
pub struct CacheObservations {
    /// Something the log had to do failed after the volume was attached.
    log_failed: bool,
    /// A flush of the data device failed, and may have lost what has no copy in the log.
    home_lost: bool,
    /// Who waited for room.
    waiting: StarvationChecker,
}

impl CacheTarget {
    /// What it is attached with to serve users.
    fn options(&self) -> AttachOptions {
        let common = AttachOptions::default();
        AttachOptions {
            acknowledge: self.acknowledge,
            max_delay: self.max_delay,
            bypass: self.bypass.map(ByteLen),
            map_memory: self.map_memory.map_or(common.map_memory, ByteLen),
            gaps: self.gaps.map_or(common.gaps, OffsetPolicy::Scattered),
            ..common
        }
    }
}

impl TestedSystem for CacheTarget {
    type Volume = DcdVolume;
    type Report = AttachReport;
    type Refusal = DcdAttachError;
    type Undrained = DrainError;
    type Known = CacheObservations;

    fn plan(seed: u64) -> CachePlan {
        of_seed(seed)
    }

    fn fresh(plan: &CachePlan) -> CacheImages {
        let CacheTarget {
            used_log, grown, ..
        } = plan.volume;
        kept(plan.len, plan.block, (used_log, grown))
    }

    fn renewed(plan: &CachePlan, seen: &[u8]) -> CacheImages {
        with_log(LOG_BYTES, &DiskImage::of(seen), plan.block)
    }

    fn attach(
        &self,
        machine: &Machine<CacheDisk>,
        why: AttachPurpose,
    ) -> AttachFuture<CacheTarget> {
        let options = match why {
            AttachPurpose::Serve => self.options(),
            AttachPurpose::Look => AttachOptions::default(),
            AttachPurpose::Insist => AttachOptions {
                accept_changed: true,
                ..AttachOptions::default()
            },
        };
        let one_disk = self.one_disk && matches!(why, AttachPurpose::Serve);
        Box::pin(attaching(machine, one_disk, options, None))
    }

    fn close(volume: &DcdVolume) -> IoFuture<'_, ()> {
        Box::pin(volume.close())
    }

    async fn drain(volume: &DcdVolume) -> Result<(), DrainError> {
        volume.drain().await
    }

    fn tells_of_loss(undrained: &DrainError) -> bool {
        matches!(undrained, DrainError::Lost(_))
    }

    /// Not of a log that failed: then somebody would answer for it that it is not attached again.
    fn give_up(volume: &DcdVolume) -> bool {
        let status = volume.status();
        let something = status.mode != CacheMode::Degraded && volume.has_to_give_up();
        if something {
            volume.give_up_unreadable();
        }
        something
    }

    fn promise(&self, known: CacheObservations) -> CrashGuarantee {
        if known.log_failed || self.bypass.is_some() {
            CrashGuarantee::Sectors
        } else {
            CrashGuarantee::Prefix
        }
    }

    fn bounds(&self) -> TimeBounds {
        match self.kind {
            CacheFaultKind::Calm
            | CacheFaultKind::Summaries
            | CacheFaultKind::Lies
            | CacheFaultKind::LogLost => liveness::HEALTHY,
            _ => liveness::IN_TROUBLE,
        }
    }

    fn is_durable_at_once(&self) -> bool {
        self.acknowledge == AckMode::Write
    }

    fn outlives_the_process(&self) -> bool {
        self.acknowledge >= AckMode::Handover
    }

    /// A write past the log takes nothing earlier with it.
    fn fua_covers_earlier(&self) -> bool {
        self.bypass.is_none()
    }

    fn may_lose_unflushed(known: CacheObservations) -> bool {
        known.home_lost
    }

    /// Writes need nothing but the log, where that works: a data device that is away for less than users'
    /// patience is no reason to fail, not even where the log is full.
    fn must_take_writes(plan: &CachePlan, life: &CacheIncarnation) -> bool {
        let (log, data) = (
            &life.disks[CacheDisk::Log].faults,
            &life.disks[CacheDisk::Data].faults,
        );
        let soon_over = data.end().is_some_and(|end| end < liveness::PATIENCE / 3);
        // A disk that fails a flush of the data device may forget what is in the log.
        let alone = !plan.volume.one_disk;
        let steady = plan.clock_leaps.is_none() && data.slow.is_none() && alone;
        soon_over && steady && plan.volume.bypass.is_none() && log.refuse_nothing()
    }

    /// Of a log that failed, and of what went past it, nothing says what is durable.
    fn may_be_killed(known: CacheObservations) -> bool {
        !known.log_failed
    }

    fn refused(
        &self,
        refusal: &DcdAttachError,
        known: CacheObservations,
        medium: &CacheImages,
    ) -> RefusalMeaning {
        match refusal {
            // The data device alone is the volume.
            DcdAttachError::Abandoned { .. } if known.log_failed => {
                let lost = lost_with(&medium[CacheDisk::Log]);
                RefusalMeaning::Holds(medium[CacheDisk::Data].to_vec(), Some(lost))
            }
            // The superblock of a log that failed takes no writes: a copy of which that is in doubt is
            // written again, and then the other, since one will do. A cut there may tear both, and then
            // nobody believes the log either.
            DcdAttachError::Log(LogOpenError::Superblocks(PairError::NoSuperblock { .. }))
                if known.log_failed =>
            {
                RefusalMeaning::Holds(medium[CacheDisk::Data].to_vec(), None)
            }
            // The rescue had begun to change the ends of the data device: a human has to say that the
            // log counts, and then it does.
            DcdAttachError::Changed { .. } if known.log_failed => RefusalMeaning::Insist,
            _ => RefusalMeaning::WithoutReason,
        }
    }

    /// The log device is gone; another is in its place.
    fn exchanged(&self, left: &CacheImages) -> Option<ExchangedDisk<CacheDisk>> {
        (self.kind == CacheFaultKind::LogLost).then(|| ExchangedDisk {
            medium: medium(&DiskImage::new(LOG_BYTES), &left[CacheDisk::Data]),
            volume: left[CacheDisk::Data].to_vec(),
            wrong: "an empty device was taken for the log",
        })
    }

    fn watcher(
        &self,
        role: CacheDisk,
        disks: &PerDisk<CacheDisk, Rc<SimDisk>>,
    ) -> Box<dyn RequestWatcher> {
        match role {
            CacheDisk::Log => {
                let data = &disks[CacheDisk::Data];
                Box::new(LogDeviceWatcher::new(
                    data,
                    !self.is_dishonest(),
                    self.one_disk,
                ))
            }
            CacheDisk::Data => Box::new(DataDeviceWatcher::default()),
        }
    }

    fn ended(
        &self,
        known: &mut CacheObservations,
        attached: bool,
        role: CacheDisk,
        request: &DiskRequest,
        failed: bool,
    ) {
        if !failed {
            return;
        }
        let flush_of = |which| request.is_flush() && (role == which || self.one_disk);
        let has_only_copy = self.bypass.is_some() || known.log_failed;
        known.home_lost |= flush_of(CacheDisk::Data) && has_only_copy;
        let of_log = role == CacheDisk::Log && request.op != DeviceOp::Read;
        known.log_failed |= attached && (of_log || flush_of(CacheDisk::Log));
    }

    fn waited(
        plan: &CachePlan,
        life: &CacheIncarnation,
        took: Duration,
        ahead: u64,
    ) -> Result<(), Violation> {
        let CacheTarget {
            kind,
            max_delay,
            map_memory,
            ..
        } = plan.volume;
        let is_slow = |faults: &DiskFaults| {
            faults.slow.is_some() || faults.slow_reads.is_some() || !faults.troubles.is_empty()
        };
        let disks = || life.disks.iter().map(|(_, disk)| disk);
        // A map that is full holds single sectors, which go home one by one.
        let steady =
            kind == CacheFaultKind::Calm && plan.clock_leaps.is_none() && map_memory.is_none();
        if !steady || disks().any(|disk| is_slow(&disk.faults)) {
            return Ok(());
        }
        let slowest = disks().map(|disk| disk.slowest.max(disk.flush_takes.unwrap_or_default()));
        smooth::check(took, slowest.max().unwrap_or_default(), max_delay, ahead)
    }

    fn check_serving(volume: &DcdVolume, known: &mut CacheObservations) -> Result<(), Violation> {
        known.waiting.look(&volume.status())
    }

    fn check_accounts(
        volume: &DcdVolume,
        report: &AttachReport,
        asked: &ClientTotals,
    ) -> Result<(), Violation> {
        accounts::check(volume, asked, report.dirty_bytes)
    }

    fn check_drained(volume: &DcdVolume, known: CacheObservations) -> Result<(), Violation> {
        if known.log_failed {
            Ok(())
        } else {
            accounts::check_drained(volume)
        }
    }

    fn check_lived(before: &CacheImages, after: &CacheImages) -> Result<(), Violation> {
        epochs::begun(&before[CacheDisk::Log], &after[CacheDisk::Log])
    }

    /// A log that wraps under writes of 1 MiB, which span segments; an ordinary cache; writes that are
    /// acknowledged when they are durable, or when the log device has them; large ones that go past the log; blocks of 4096 bytes;
    /// gaps between records.
    fn cut_everywhere(seed: u64) -> Vec<(String, CachePlan)> {
        let (len, plain) = (128 << 10, CacheTarget::plain(CacheFaultKind::Calm));
        let durable = CacheTarget {
            acknowledge: AckMode::Write,
            ..plain.clone()
        };
        let handed_over = CacheTarget {
            acknowledge: AckMode::Handover,
            ..plain.clone()
        };
        let bypass = CacheTarget {
            bypass: Some(8 << 10),
            ..plain.clone()
        };
        let gaps = CacheTarget {
            gaps: Some(seed),
            ..durable.clone()
        };
        let variants = [
            ("a wrapping log", &plain, 512, ATOMIC_BYTES + (64 << 10)),
            ("a plain volume", &plain, 512, len),
            ("durable writes", &durable, 512, len),
            ("writes handed over", &handed_over, 512, len),
            ("a bypass", &bypass, 512, len),
            ("large blocks", &plain, 4096, len),
            ("gaps in the log", &gaps, 512, len),
        ];
        let named = variants.map(|(name, cache, block, len)| {
            let plan = cuts(seed, cache.clone(), block, len);
            (format!("{name}, seed {seed}"), plan)
        });
        named.into()
    }

    fn failing(role: CacheDisk, op: DeviceOp) -> Option<CacheTarget> {
        let kind = match (role, op) {
            // A log is neither discarded nor zeroed but when it is made.
            (CacheDisk::Log, DeviceOp::Discard | DeviceOp::WriteZeroes) => return None,
            (CacheDisk::Log, DeviceOp::Read) => CacheFaultKind::LogReadsFail,
            (CacheDisk::Log, _) => CacheFaultKind::LogFails,
            (CacheDisk::Data, _) => CacheFaultKind::DataFails,
        };
        Some(CacheTarget::plain(kind))
    }
}
