//! Guarantees of the log-structured volume, and its exhaustive runs.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, DeviceOp, IoFuture};
use forebay_frontend::freeze::FreezePhase;
use forebay_rng::{Rng, mix};
use forebay_sim::Violation;
use forebay_sim::disk::{DiskRequest, SimDisk};
use forebay_sim::exhaustive::cuts;
use forebay_sim::machine::Machine;
use forebay_sim::plan::PlannedFreeze;
use forebay_sim::role::PerDisk;
use forebay_sim::system::{
    AttachFuture, AttachPurpose, RefusalMeaning, RequestWatcher, TestedSystem, TimeBounds,
};
use forebay_sim::writers::{CrashGuarantee, WriterHistories};
use forebay_vsl::{SpaceOpenError, SpaceRecovery, SpaceSettings, WearLevelling};

use super::numbers;
use super::plan::{SpacePlan, of_seed};
use super::rot;
use super::settings::{SpaceDisk, SpaceFaultKind, SpaceTarget};
use super::volume::{AttachedSpace, PlacementChanges, SpaceImage, attaching, holding, kept};

/// Time limit of the last checkpoint, which a failing device could delay without end. The program has the same limit.
const CHECKPOINT: Duration = Duration::from_secs(10);

/// Maximum durations, in virtual time.
const BOUNDS: TimeBounds = TimeBounds {
    request: Duration::from_secs(240),
    close: Duration::from_secs(120),
    drain: Duration::from_secs(300),
    turn_bytes: 1 << 20,
    write_bytes: 8192,
};

/// Observations of a volume in one incarnation.
#[derive(Clone, Copy, Default)]
pub struct SpaceObservations {
    /// True if a required write or flush failed.
    failed: bool,
}

impl SpaceTarget {
    fn options(&self) -> SpaceSettings {
        let common = SpaceSettings::default();
        SpaceSettings {
            max_delay: self.max_delay,
            map_bytes: self.map_bytes.unwrap_or(common.map_bytes),
            check_bytes: self.map_bytes.unwrap_or(common.check_bytes),
            recovery_entries: self.recovery_entries,
            home_bytes: self.home_bytes,
            patience: common.patience,
            discard: self.discard,
            levelling: if self.levelled {
                WearLevelling { bound: 1, every: 1 }
            } else {
                common.levelling
            },
            spare_part: Some(self.spare_part),
            huge_trim: self.huge_trim,
            detached_max: self.detached_max,
        }
    }
}

/// An observer without conditions for single requests.
struct NoWatcher;

impl RequestWatcher for NoWatcher {
    fn issued(&self, _: &WriterHistories, _: &DiskRequest) -> Result<(), Violation> {
        Ok(())
    }

    fn ended(&self, _: &DiskRequest, _: bool) {}
}

impl TestedSystem for SpaceTarget {
    type Volume = AttachedSpace;
    type Report = SpaceRecovery;
    type Refusal = SpaceOpenError;
    type Undrained = DeviceError;
    type Known = SpaceObservations;

    fn plan(seed: u64) -> SpacePlan {
        of_seed(seed)
    }

    fn fresh(plan: &SpacePlan) -> SpaceImage {
        let SpaceTarget {
            placement, changes, ..
        } = plan.volume;
        kept(plan.len, plan.block, placement, changes.is_some())
    }

    fn renewed(plan: &SpacePlan, seen: &[u8]) -> SpaceImage {
        let SpaceTarget {
            placement, changes, ..
        } = plan.volume;
        holding(seen, plan.block, placement, changes.is_some())
    }

    fn attach(
        &self,
        machine: &Machine<SpaceDisk>,
        why: AttachPurpose,
    ) -> AttachFuture<SpaceTarget> {
        let options = match why {
            AttachPurpose::Serve => self.options(),
            AttachPurpose::Look | AttachPurpose::Insist => SpaceSettings::default(),
        };
        let changes = match why {
            AttachPurpose::Serve => self.changes.map(|seed| PlacementChanges {
                rng: Rng::new(seed),
                kinds: (forebay_vsl::PlacementKind::ALL.into_iter())
                    .filter(|kind| self.allows(*kind))
                    .collect(),
            }),
            AttachPurpose::Look | AttachPurpose::Insist => None,
        };
        Box::pin(attaching(
            machine,
            options,
            why == AttachPurpose::Insist,
            changes,
        ))
    }

    /// Makes all acknowledged data durable, and then makes a checkpoint, so that the next attach is fast.
    fn close(volume: &AttachedSpace) -> IoFuture<'_, ()> {
        volume.gate.release(volume);
        Box::pin(async {
            volume.flush().await?;
            // Without a checkpoint, the next attach recovers the flushed data as after a crash.
            let checkpoint = volume.linear().space().checkpoint();
            let _ = volume.rt.timeout(CHECKPOINT, checkpoint).await;
            Ok(())
        })
    }

    async fn drain(volume: &AttachedSpace) -> Result<(), DeviceError> {
        volume.flush().await
    }

    async fn freeze(volume: &AttachedSpace, limit: Duration) -> Result<(), String> {
        let shared = Rc::new(volume.clone());
        let frozen = volume.gate.freeze(&shared, limit, || true).await;
        frozen.map_err(|failure| format!("{failure:?}"))
    }

    fn is_frozen(volume: &AttachedSpace) -> bool {
        volume.gate.phase() != FreezePhase::Thawed
    }

    fn thaw(volume: &AttachedSpace) -> bool {
        volume.gate.release(volume)
    }

    fn check_copy(report: &SpaceRecovery, _: SpaceObservations) -> Result<(), Violation> {
        if report.records == 0 {
            return Ok(());
        }
        let text = format!("a copy of a frozen volume must be recovered: {report:?}");
        Err(Violation::new("freeze", text))
    }

    fn guarantee(&self, _: SpaceObservations) -> CrashGuarantee {
        CrashGuarantee::Prefix
    }

    fn fua_covers_earlier(&self) -> bool {
        true
    }

    fn bounds(&self) -> TimeBounds {
        BOUNDS
    }

    fn check_lived(before: &SpaceImage, after: &SpaceImage) -> Result<(), Violation> {
        numbers::are_new(&before[SpaceDisk::Medium], &after[SpaceDisk::Medium])
    }

    fn rotten(plan: &SpacePlan, medium: &SpaceImage) -> Option<SpaceImage> {
        let rng = Rng::new(mix(plan.seed, 0x0607_7e02));
        let disk = rot::rotten(&medium[SpaceDisk::Medium], plan.block, &rng)?;
        Some(PerDisk::of(|_| disk.clone()))
    }

    fn refused(&self, _: &SpaceOpenError, _: SpaceObservations, _: &SpaceImage) -> RefusalMeaning {
        RefusalMeaning::WithoutReason
    }

    fn watcher(
        &self,
        _: SpaceDisk,
        _: &PerDisk<SpaceDisk, Rc<SimDisk>>,
    ) -> Box<dyn RequestWatcher> {
        Box::new(NoWatcher)
    }

    fn ended(
        &self,
        known: &mut SpaceObservations,
        attached: bool,
        _: SpaceDisk,
        request: &DiskRequest,
        failed: bool,
    ) {
        known.failed |= failed && attached && request.op != DeviceOp::Read;
    }

    /// After a failure, only the flushed part of the process's data is defined.
    fn may_be_killed(known: SpaceObservations) -> bool {
        !known.failed
    }

    fn cut_everywhere(seed: u64) -> Vec<(String, SpacePlan)> {
        let plain = SpaceTarget::plain(SpaceFaultKind::Calm);
        let variants = [("a plain volume", 512), ("large blocks", 4096)];
        let named = variants.map(|(name, block)| {
            let plan = cuts(seed, plain.clone(), block, 128 << 10);
            (format!("{name}, seed {seed}"), plan)
        });
        let mut frozen = cuts(seed, plain.clone(), 512, 128 << 10);
        frozen.incarnations[0].freeze = Some(PlannedFreeze::EARLY);
        let frozen = [(format!("a freeze, seed {seed}"), frozen)];
        named.into_iter().chain(frozen).collect()
    }

    fn failing(_: SpaceDisk, op: DeviceOp) -> Option<SpaceTarget> {
        let kind = match op {
            DeviceOp::Discard | DeviceOp::WriteZeroes => return None,
            DeviceOp::Read => SpaceFaultKind::ReadsFail,
            DeviceOp::Write | DeviceOp::Flush => SpaceFaultKind::Fails,
        };
        Some(SpaceTarget::plain(kind))
    }
}
