//! Guarantees of the write cache, and its exhaustive runs.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AttachOptions, AttachReport, CacheMode, DcdAttachError, DcdVolume, DrainError, LogReplacement,
    OffsetPolicy, ReplacementError,
};
use forebay_device::{AckMode, DeviceOp, IoFuture};
use forebay_frontend::freeze::FreezePhase;
use forebay_ring_log::{LogOpenError, PairError};
use forebay_sim::Violation;
use forebay_sim::disk::{DiskFaults, DiskImage, DiskRequest, SimDisk};
use forebay_sim::exhaustive::{ATOMIC_BYTES, cuts};
use forebay_sim::machine::Machine;
use forebay_sim::plan::{PlannedFreeze, ScenarioSettings};
use forebay_sim::role::PerDisk;
use forebay_sim::system::{
    AttachFuture, AttachPurpose, ClientTotals, ExchangedDisk, RefusalMeaning, RequestWatcher,
    TestedSystem, TimeBounds,
};
use forebay_sim::writers::CrashGuarantee;
use forebay_units::ByteLen;

use super::checkers::smooth::{self, StarvationChecker};
use super::checkers::{DataDeviceWatcher, LogDeviceWatcher, accounts, epochs, liveness};
use super::freezable::FreezableCache;
use super::plan::{CacheIncarnation, CachePlan, of_seed};
use super::settings::{CacheDisk, CacheFaultKind, CacheTarget};
use super::spare;
use super::volume::{
    CacheImages, LOG_BYTES, SEGMENT, attaching, devices, kept, lost_with, medium, with_log,
};

/// Observations of a cache in one incarnation.
#[derive(Clone, Copy, Default)]
pub struct CacheObservations {
    /// True if a required request of the log failed after the attach.
    log_failed: bool,
    /// True if the log was taken out of use, and no other log is in use yet.
    replacing: bool,
    /// True if a flush of the data device failed, and may have lost data without a copy in the log.
    home_lost: bool,
    /// Checker for writers that wait for space.
    waiting: StarvationChecker,
}

impl CacheObservations {
    /// Returns true if the data device alone may be the volume.
    fn has_no_log(self) -> bool {
        self.log_failed || self.replacing
    }
}

impl CacheTarget {
    /// Returns the options of an attach that serves clients.
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
    type Volume = FreezableCache;
    type Report = AttachReport;
    type Refusal = DcdAttachError;
    type Undrained = DrainError;
    type Known = CacheObservations;

    fn plan(seed: u64) -> CachePlan {
        of_seed(seed)
    }

    fn fresh(plan: &CachePlan) -> CacheImages {
        kept(plan.len, plan.block, &plan.volume)
    }

    fn renewed(plan: &CachePlan, seen: &[u8]) -> CacheImages {
        let mut medium = with_log(LOG_BYTES, &DiskImage::of(seen), plan.block);
        if plan.volume.spare_log {
            medium[CacheDisk::Spare] = spare::disk(LOG_BYTES, 0);
        }
        medium
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
        let (rt, attaching) = (
            machine.rt.clone(),
            attaching(machine, one_disk, options, None),
        );
        Box::pin(async move {
            let (volume, report) = attaching.await?;
            Ok((FreezableCache::new(&rt, volume), report))
        })
    }

    fn close(volume: &FreezableCache) -> IoFuture<'_, ()> {
        volume.gate.release(volume);
        Box::pin(DcdVolume::close(volume))
    }

    async fn drain(volume: &FreezableCache) -> Result<(), DrainError> {
        DcdVolume::drain(volume).await
    }

    async fn freeze(volume: &FreezableCache, limit: Duration) -> Result<(), String> {
        let shared = Rc::new(volume.clone());
        let frozen = volume.gate.freeze(&shared, limit, || true).await;
        frozen.map_err(|failure| format!("{failure:?}"))
    }

    fn is_frozen(volume: &FreezableCache) -> bool {
        volume.gate.phase() != FreezePhase::Thawed
    }

    fn thaw(volume: &FreezableCache) -> bool {
        volume.gate.release(volume)
    }

    async fn replace_device(
        &self,
        volume: &FreezableCache,
        disks: &PerDisk<CacheDisk, Rc<SimDisk>>,
        known: &Cell<CacheObservations>,
    ) -> Result<bool, String> {
        let Some(next) = spare::not_in_use(disks) else {
            return Ok(false);
        };
        let is_replacing = |replacing| {
            let before = known.get();
            known.set(CacheObservations {
                replacing,
                ..before
            });
        };
        let [log, data] = devices(disks, next, self.one_disk);
        let new = LogReplacement {
            log,
            data,
            segment: SEGMENT,
            options: self.options(),
        };
        let noting = spare::note(Rc::clone(&disks[CacheDisk::Spare]), next);
        let record = async { noting.await.map_err(|error| error.to_string()) };
        is_replacing(true);
        match volume.replace_log(new, record).await {
            // After a failure, some sectors may have parts of a failed write.
            Ok(_) => is_replacing(self.may_fail()),
            Err(ReplacementError::Closing) => return Ok(false),
            Err(error) => return Err(error.to_string()),
        }
        Ok(true)
    }

    /// A log that failed or is out of use may be marked as abandoned at any time.
    fn stays_still(role: CacheDisk, known: CacheObservations) -> bool {
        role == CacheDisk::Data || !known.has_no_log()
    }

    fn check_copy(report: &AttachReport, known: CacheObservations) -> Result<(), Violation> {
        let is_clean = report.was_clean && report.records == 0;
        if is_clean || known.has_no_log() {
            return Ok(());
        }
        let text = format!("a copy of a frozen volume is not clean: {report:?}");
        Err(Violation::new("freeze", text))
    }

    fn copied_alone(plan: &CachePlan, copy: &CacheImages) -> Option<Vec<u8>> {
        Some(copy[CacheDisk::Data].bytes(0..plan.len))
    }

    fn tells_of_loss(undrained: &DrainError) -> bool {
        matches!(undrained, DrainError::Lost(_))
    }

    /// A failed log is excluded, because it must not be attached again without a command.
    fn abandon_unreadable(volume: &FreezableCache) -> bool {
        let status = volume.status();
        let something = status.mode != CacheMode::Degraded && volume.can_abandon();
        if something {
            volume.abandon_unreadable();
        }
        something
    }

    fn guarantee(&self, known: CacheObservations) -> CrashGuarantee {
        if known.has_no_log() || self.bypass.is_some() {
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
        self.acknowledge == AckMode::Durable
    }

    fn outlives_the_process(&self) -> bool {
        self.acknowledge >= AckMode::Device
    }

    /// A FUA write that bypasses the log covers no earlier writes.
    fn fua_covers_earlier(&self) -> bool {
        self.bypass.is_none()
    }

    fn may_lose_unflushed(known: CacheObservations) -> bool {
        known.home_lost
    }

    /// A write needs only the log, if the log works. If the data device is unavailable for less than the clients'
    /// patience, the write must not fail, even if the log is full.
    fn must_take_writes(plan: &CachePlan, incarnation: &CacheIncarnation) -> bool {
        let (log, data) = (
            &incarnation.disks[CacheDisk::Log].faults,
            &incarnation.disks[CacheDisk::Data].faults,
        );
        let soon_over = incarnation.replaces_at.is_none()
            && data.end().is_some_and(|end| end < liveness::PATIENCE / 3);
        // On one disk, a failed flush of the data device may lose data of the log.
        let alone = !plan.volume.one_disk;
        let steady = plan.clock_leaps.is_none() && data.slow.is_none() && alone;
        soon_over && steady && plan.volume.bypass.is_none() && log.refuse_nothing()
    }

    /// The durable part of a failed log, and of data that bypassed the log, is undefined.
    fn may_be_killed(known: CacheObservations) -> bool {
        !known.has_no_log()
    }

    fn refused(
        &self,
        refusal: &DcdAttachError,
        known: CacheObservations,
        medium: &CacheImages,
    ) -> RefusalMeaning {
        match refusal {
            // The data device alone is the volume.
            DcdAttachError::Abandoned { .. } if known.has_no_log() => {
                let lost = lost_with(&medium[spare::in_use(medium)]);
                RefusalMeaning::Holds(medium[CacheDisk::Data].to_vec(), Some(lost))
            }
            // Writes of a failed log's superblock fail. The cache writes a doubtful copy again, and then the other
            // copy, because one valid copy is sufficient. A cut at this moment may tear both copies, so that no later
            // attach accepts the log.
            DcdAttachError::Log(LogOpenError::Superblocks(PairError::NoSuperblock { .. }))
                if known.has_no_log() =>
            {
                RefusalMeaning::Holds(medium[CacheDisk::Data].to_vec(), None)
            }
            // The rescue had begun to change the ends of the data device. The log is valid only after a command of the
            // administrator.
            DcdAttachError::Changed { .. } if known.has_no_log() => RefusalMeaning::Insist,
            _ => RefusalMeaning::WithoutReason,
        }
    }

    /// The log device is missing, and another device replaces it.
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
            CacheDisk::Log | CacheDisk::Spare => {
                let data = &disks[CacheDisk::Data];
                Box::new(LogDeviceWatcher::new(
                    data,
                    !self.is_dishonest(),
                    self.one_disk && role == CacheDisk::Log,
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
        let has_only_copy = self.bypass.is_some() || known.has_no_log();
        known.home_lost |= flush_of(CacheDisk::Data) && has_only_copy;
        let of_log = role != CacheDisk::Data && request.op != DeviceOp::Read;
        known.log_failed |= attached && (of_log || flush_of(CacheDisk::Log));
    }

    fn waited(
        plan: &CachePlan,
        incarnation: &CacheIncarnation,
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
        let disks = || incarnation.disks.iter().map(|(_, disk)| disk);
        // A full map contains single sectors, which are destaged one by one.
        let steady =
            kind == CacheFaultKind::Calm && plan.clock_leaps.is_none() && map_memory.is_none();
        if !steady || disks().any(|disk| is_slow(&disk.faults)) {
            return Ok(());
        }
        let slowest = disks().map(|disk| disk.slowest.max(disk.flush_takes.unwrap_or_default()));
        smooth::check(took, slowest.max().unwrap_or_default(), max_delay, ahead)
    }

    fn check_serving(
        volume: &FreezableCache,
        known: &mut CacheObservations,
    ) -> Result<(), Violation> {
        known.waiting.look(&volume.status())
    }

    fn check_accounts(
        volume: &FreezableCache,
        report: &AttachReport,
        asked: &ClientTotals,
    ) -> Result<(), Violation> {
        accounts::check(volume, asked, report.dirty_bytes)
    }

    fn check_drained(volume: &FreezableCache, known: CacheObservations) -> Result<(), Violation> {
        if known.has_no_log() {
            Ok(())
        } else {
            accounts::check_drained(volume)
        }
    }

    fn check_lived(before: &CacheImages, after: &CacheImages) -> Result<(), Violation> {
        epochs::begun(&before[spare::in_use(before)], &after[spare::in_use(after)])
    }

    /// Returns a plain cache and these variants:
    ///
    /// - a log that wraps under writes of 1 MiB, which span segments
    /// - durable writes
    /// - writes that are acknowledged when the log device has them
    /// - large writes that bypass the log
    /// - blocks of 4096 bytes
    /// - rotational offsets between records
    /// - a freeze while the script runs
    /// - another log while the script runs
    fn cut_everywhere(seed: u64) -> Vec<(String, CachePlan)> {
        let (len, plain) = (128 << 10, CacheTarget::plain(CacheFaultKind::Calm));
        let durable = CacheTarget {
            acknowledge: AckMode::Durable,
            ..plain.clone()
        };
        let handed_over = CacheTarget {
            acknowledge: AckMode::Device,
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
        let mut frozen = cuts(seed, plain.clone(), 512, len);
        frozen.incarnations[0].freeze = Some(PlannedFreeze::EARLY);
        let with_spare = CacheTarget {
            spare_log: true,
            ..plain.clone()
        };
        let mut replaced = cuts(seed, with_spare, 512, len);
        replaced.incarnations[0].replaces_at = Some(PlannedFreeze::EARLY.at);
        let disturbed = [
            (format!("a freeze, seed {seed}"), frozen),
            (format!("another log, seed {seed}"), replaced),
        ];
        named.into_iter().chain(disturbed).collect()
    }

    fn failing(role: CacheDisk, op: DeviceOp) -> Option<CacheTarget> {
        let kind = match (role, op) {
            // A log is discarded or zeroed only when it is made.
            (CacheDisk::Log, DeviceOp::Discard | DeviceOp::WriteZeroes) => return None,
            (CacheDisk::Spare, _) => return None,
            (CacheDisk::Log, DeviceOp::Read) => CacheFaultKind::LogReadsFail,
            (CacheDisk::Log, _) => CacheFaultKind::LogFails,
            (CacheDisk::Data, _) => CacheFaultKind::DataFails,
        };
        Some(CacheTarget::plain(kind))
    }
}
