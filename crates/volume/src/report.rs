//! Reports of volumes, attached or being inspected, in one form for all kinds.
//!
//! The figures of a report belong to a kind ([`LayerReport`]). Everything else that commands need is in the
//! [`StatusSummary`]. A report in JSON consists of `layer`, the label of the kind, of the kind's fields, and of `below`,
//! the report of the layer below.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use forebay_dcd::DestageActivity;
use forebay_device::{CheckVerdict, ReportField};
use forebay_units::ByteLen;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::health::{HealthFinding, ServiceFaults, VolumeHealth};
use crate::kind_spec::KindSpec;
use crate::render::{RenderContext, ReportLines};
use crate::vitals::VolumeVitals;

/// The report of an attached layer, by itself. The type with the fields belongs to the layer's kind.
pub trait LayerReport: fmt::Debug + Send + Sync {
    /// Returns the definition of each field.
    fn fields(&self) -> &'static [ReportField];

    /// Returns the value of each field, in the order of [`LayerReport::fields`].
    fn values(&self) -> &dyn erased_serde::Serialize;

    /// Returns the facts that every kind has.
    fn summary(&self) -> StatusSummary;

    /// Returns the figures that are worth watching over time.
    fn vitals(&self) -> VolumeVitals;

    /// Returns the report as lines for people. With the report of some seconds earlier, the lines include present
    /// rates.
    fn lines(
        &self,
        earlier: Option<(&dyn LayerReport, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines;

    /// Returns the lines for a report of a layer above this one.
    fn lines_below(&self) -> ReportLines {
        Vec::new()
    }

    /// Returns the state, in words, of the devices of a volume that was drained and detached.
    fn when_drained(&self, has_layer_below: bool) -> &'static str;

    /// Returns the report for a cast to the type of its kind.
    fn as_any(&self) -> &dyn Any;
}

/// Facts about an attached layer that every kind has.
#[derive(Clone, PartialEq, Debug)]
pub struct StatusSummary {
    /// Name of the present mode.
    pub mode: &'static str,
    /// Names of all modes.
    pub modes: Vec<&'static str>,
    /// Reason for the mode, where it needs an explanation.
    pub mode_detail: Option<String>,
    /// Health of this layer by itself.
    pub health: VolumeHealth,
    /// Used share of the log or of the capacity, 0 to 1; `None` if nothing is used up.
    pub used_share: Option<f64>,
    /// True if the mode of the layer below also matters to users of this layer.
    pub depends_on_mode_below: bool,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Bytes that have not reached their final place.
    pub dirty_bytes: u64,
    /// Dirty bytes that were written to the data device, but are not durable there yet.
    pub destage_unflushed_bytes: u64,
    /// Bytes that must still be zeroed or discarded on the data device.
    pub pending_discard_bytes: u64,
    /// Bytes destaged since the volume was attached.
    pub destaged_bytes: u64,
    /// The present destage activity.
    pub activity: DestageActivity,
    /// True if destaging is idle.
    pub is_resting: bool,
    /// Lost bytes.
    pub lost_bytes: u64,
    /// Bytes that cannot be read now, but are not lost.
    pub unreadable_bytes: u64,
    /// True while the device that data is brought to fails.
    pub drain_fails: bool,
    /// Description of the data that abandoning would affect; `None` if nothing can be abandoned.
    pub to_abandon: Option<String>,
}

impl StatusSummary {
    /// Returns the facts about a layer that keeps no data from its final place.
    pub(crate) fn of_mode(mode: &'static str, modes: Vec<&'static str>, len: u64) -> StatusSummary {
        StatusSummary {
            mode,
            modes,
            mode_detail: None,
            health: VolumeHealth::Ok,
            used_share: None,
            depends_on_mode_below: false,
            len_bytes: len,
            dirty_bytes: 0,
            destage_unflushed_bytes: 0,
            pending_discard_bytes: 0,
            destaged_bytes: 0,
            activity: DestageActivity::Resting,
            is_resting: true,
            lost_bytes: 0,
            unreadable_bytes: 0,
            drain_fails: false,
            to_abandon: None,
        }
    }

    /// Returns the reason for the health of this layer.
    pub(crate) fn health_detail(&self) -> Option<String> {
        match self.health {
            VolumeHealth::Ok => None,
            VolumeHealth::Damaged => Some(format!("{} of data are lost", ByteLen(self.lost_bytes))),
            VolumeHealth::BlocksRefused => Some(
                "the data device refuses some blocks, which stay in the log; the daemon retries"
                    .into(),
            ),
            _ => {
                let mode = || Some(format!("the mode is {}", self.mode.replace('_', " ")));
                self.mode_detail.clone().or_else(mode)
            }
        }
    }
}

/// Report of an attached volume: of its uppermost layer, and of each layer below.
#[derive(Clone, Debug)]
pub struct LayerStatus {
    kind: &'static KindSpec,
    report: Arc<dyn LayerReport>,
    below: Option<Box<LayerStatus>>,
}

impl LayerStatus {
    pub(crate) fn new(kind: &'static KindSpec, report: impl LayerReport + 'static) -> LayerStatus {
        LayerStatus {
            kind,
            report: Arc::new(report),
            below: None,
        }
    }

    pub(crate) fn read(
        kind: &'static KindSpec,
        report: Arc<dyn LayerReport>,
        below: Option<Box<LayerStatus>>,
    ) -> LayerStatus {
        LayerStatus {
            kind,
            report,
            below,
        }
    }

    /// Returns the report with a layer below.
    #[must_use]
    pub(crate) fn over(self, below: LayerStatus) -> LayerStatus {
        LayerStatus {
            below: Some(Box::new(below)),
            ..self
        }
    }

    /// Returns the layer's kind.
    pub fn kind(&self) -> &'static KindSpec {
        self.kind
    }

    /// Returns the report of the layer below, if any.
    pub fn below(&self) -> Option<&LayerStatus> {
        self.below.as_deref()
    }

    /// Returns the definition of each field of the layer.
    pub fn fields(&self) -> &'static [ReportField] {
        self.report.fields()
    }

    /// Returns the facts that every kind has. The reason for the mode may be that of the layer below.
    pub fn summary(&self) -> StatusSummary {
        let mut summary = self.report.summary();
        if let Some(below) = self.below().filter(|_| summary.depends_on_mode_below) {
            let below = || below.summary().mode_detail;
            summary.mode_detail = summary.mode_detail.or_else(below);
        }
        summary
    }

    /// Returns the state, in words, of the devices of a volume that was drained and detached.
    pub fn when_drained(&self) -> &'static str {
        self.report.when_drained(self.below.is_some())
    }

    /// Returns the figures that are worth watching over time.
    pub fn vitals(&self) -> VolumeVitals {
        self.report.vitals()
    }

    /// Returns the health of the volume: the most urgent finding of all layers and of the serving process.
    pub fn health(&self, faults: ServiceFaults<'_>) -> HealthFinding {
        let mut worst = HealthFinding {
            health: VolumeHealth::Ok,
            detail: None,
        };
        let mut consider = |health: VolumeHealth, detail: Option<String>| {
            if health > worst.health {
                worst = HealthFinding { health, detail };
            }
        };
        let mut layer = Some(self);
        while let Some(status) = layer {
            let summary = status.summary();
            consider(summary.health, summary.health_detail());
            layer = status.below();
        }
        consider_first(
            faults.foreign_loops,
            VolumeHealth::ForeignUse,
            &mut consider,
        );
        consider_first(faults.cut_short, VolumeHealth::Damaged, &mut consider);
        if let Some(damage) = faults.scrub_damage {
            consider(VolumeHealth::Damaged, Some(damage.to_owned()));
        }
        if let Some(reason) = faults.no_device {
            consider(VolumeHealth::NoDevice, Some(reason.to_owned()));
        }
        worst
    }

    /// Returns the report as lines for people. With the report of some seconds earlier, the lines include present
    /// rates.
    pub fn lines(
        &self,
        earlier: Option<(&LayerStatus, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines {
        let earlier = earlier.filter(|(earlier, _)| earlier.kind == self.kind);
        let earlier = earlier.map(|(earlier, ago)| (&*earlier.report, ago));
        let mut lines = self.report.lines(earlier, around);
        lines.extend(
            self.below()
                .map(|below| below.report.lines_below())
                .into_iter()
                .flatten(),
        );
        lines
    }
}

fn consider_first(
    reasons: &[String],
    health: VolumeHealth,
    consider: &mut impl FnMut(VolumeHealth, Option<String>),
) {
    if let Some(reason) = reasons.first() {
        consider(health, Some(reason.clone()));
    }
}

impl Serialize for LayerStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct LayerFields<'a> {
            layer: &'static str,
            #[serde(flatten)]
            values: &'a dyn erased_serde::Serialize,
            #[serde(skip_serializing_if = "Option::is_none")]
            below: Option<&'a LayerStatus>,
        }
        let fields = LayerFields {
            layer: self.kind.label,
            values: self.report.values(),
            below: self.below(),
        };
        fields.serialize(serializer)
    }
}

impl PartialEq for LayerStatus {
    fn eq(&self, other: &LayerStatus) -> bool {
        let [own, other] = [self, other].map(serde_json::to_value);
        matches!((own, other), (Ok(own), Ok(other)) if own == other)
    }
}

/// Findings of a check of a volume's devices.
pub struct LayerCheckReport {
    /// Verdict on all devices.
    pub verdict: CheckVerdict,
    /// The report as lines for people.
    pub lines: Vec<String>,
    fields: Box<dyn erased_serde::Serialize>,
}

impl LayerCheckReport {
    pub(crate) fn new(
        verdict: CheckVerdict,
        lines: Vec<String>,
        fields: impl Serialize + 'static,
    ) -> LayerCheckReport {
        LayerCheckReport {
            verdict,
            lines,
            fields: Box::new(fields),
        }
    }
}

impl Serialize for LayerCheckReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

/// Report of salvaged data.
pub struct LayerSalvageReport {
    /// True if all lost data was found.
    pub is_whole: bool,
    /// The report as lines for people.
    pub lines: Vec<String>,
    pub(crate) fields: Box<dyn erased_serde::Serialize>,
}

impl Serialize for LayerSalvageReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.fields.serialize(serializer)
    }
}

/// A structure on a layer's devices, in its JSON form.
#[derive(Clone, PartialEq, Debug)]
pub struct LayerDumpItem(pub Value);

impl LayerDumpItem {
    pub(crate) fn new(item: &impl Serialize) -> LayerDumpItem {
        LayerDumpItem(serde_json::to_value(item).unwrap_or_default())
    }
}
