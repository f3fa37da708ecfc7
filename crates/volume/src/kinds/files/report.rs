//! The report of an attached filesystem, in the form of all kinds.

use std::any::Any;

use forebay_device::ReportField;

use super::render;
use super::status::FilesFacts;
use crate::kinds::space::SpaceMode;
use crate::render::{RenderContext, ReportLines};
use crate::report::{LayerReport, StatusSummary};
use crate::vitals::VolumeVitals;

impl LayerReport for FilesFacts {
    fn fields(&self) -> &'static [ReportField] {
        FilesFacts::FIELDS
    }

    fn values(&self) -> &dyn erased_serde::Serialize {
        self
    }

    fn summary(&self) -> StatusSummary {
        let modes = SpaceMode::ALL.map(SpaceMode::name);
        StatusSummary {
            mode_detail: self.mode_detail.clone(),
            health: self.mode.health(),
            used_share: Some(self.used_share),
            drain_fails: self.mode == SpaceMode::Failed,
            ..StatusSummary::of_mode(self.mode.name(), modes.into(), self.len)
        }
    }

    fn vitals(&self) -> VolumeVitals {
        render::vitals(self)
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

    fn when_drained(&self, _has_layer_below: bool) -> &'static str {
        "its device needs no recovery"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
