//! The report of an attached write cache, in the form of all kinds.

use std::any::Any;

use forebay_dcd::{CacheMode, DcdStatus, DestageActivity};
use forebay_device::ReportField;

use super::{render, vitals};
use crate::health::VolumeHealth;
use crate::render::{RenderContext, ReportLines};
use crate::report::{LayerReport, StatusSummary};
use crate::vitals::VolumeVitals;

/// Returns the health of the cache by itself.
fn health(status: &DcdStatus) -> VolumeHealth {
    let by_mode = match status.mode {
        CacheMode::Caching | CacheMode::Draining => VolumeHealth::Ok,
        CacheMode::Degraded => VolumeHealth::Degraded,
        CacheMode::DataFailing => VolumeHealth::DataFailing,
        CacheMode::LogFailing => VolumeHealth::LogFailing,
    };
    let by_counters = match (status.damaged_bytes, status.refused_bytes) {
        (0, 0) => VolumeHealth::Ok,
        (0, _) => VolumeHealth::BlocksRefused,
        _ => VolumeHealth::Damaged,
    };
    by_mode.max(by_counters)
}

impl LayerReport for DcdStatus {
    fn fields(&self) -> &'static [ReportField] {
        DcdStatus::FIELDS
    }

    fn values(&self) -> &dyn erased_serde::Serialize {
        self
    }

    fn summary(&self) -> StatusSummary {
        let modes = CacheMode::ALL.map(CacheMode::name);
        StatusSummary {
            mode_detail: self.mode_detail.clone(),
            health: health(self),
            used_share: Some(self.dirty_share),
            depends_on_mode_below: true,
            dirty_bytes: self.dirty_bytes,
            destage_unflushed_bytes: self.destage_unflushed_bytes,
            pending_discard_bytes: self.pending_discard_bytes,
            destaged_bytes: self.destaged_bytes,
            activity: self.destaging,
            is_resting: self.destaging == DestageActivity::Resting,
            lost_bytes: self.damaged_bytes,
            unreadable_bytes: self.unreadable_bytes,
            drain_fails: self.mode == CacheMode::DataFailing,
            to_abandon: render::to_abandon(self),
            ..StatusSummary::of_mode(self.mode.name(), modes.into(), self.len)
        }
    }

    fn vitals(&self) -> VolumeVitals {
        vitals::of(self)
    }

    fn lines(
        &self,
        earlier: Option<(&dyn LayerReport, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines {
        let earlier =
            earlier.and_then(|(report, ago)| Some((report.as_any().downcast_ref()?, ago)));
        render::status(self, earlier, around)
    }

    fn when_drained(&self, has_layer_below: bool) -> &'static str {
        if has_layer_below {
            "its log is empty, and its data device needs no recovery"
        } else {
            "the data device is complete"
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
