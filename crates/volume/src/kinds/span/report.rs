//! The report of an attached span.

use std::any::Any;

use forebay_device::{ReportField, described};
use forebay_units::ByteLen;
use serde::{Deserialize, Serialize};

use crate::render::{RenderContext, ReportLines};
use crate::report::{LayerReport, StatusSummary};
use crate::vitals::{RingUsage, VolumeVitals};

described! {
    /// Summary of a span.
    #[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
    pub struct SpanStatus {
        Fact mode: String = "`serving`",
        Gauge len: u64 = "Length of the volume in bytes",
        Gauge block_size: u32 = "Block size of the volume in bytes",
        Gauge first_bytes: u64 = "Bytes of the volume on the first device",
        Gauge second_bytes: u64 = "Bytes of the volume on the second device",
    }
}

impl LayerReport for SpanStatus {
    fn fields(&self) -> &'static [ReportField] {
        SpanStatus::FIELDS
    }

    fn values(&self) -> &dyn erased_serde::Serialize {
        self
    }

    fn summary(&self) -> StatusSummary {
        StatusSummary::of_mode("serving", vec!["serving"], self.len)
    }

    fn vitals(&self) -> VolumeVitals {
        VolumeVitals {
            room: RingUsage::default(),
            flows: Vec::new(),
        }
    }

    fn lines(
        &self,
        _earlier: Option<(&dyn LayerReport, f64)>,
        around: &RenderContext<'_>,
    ) -> ReportLines {
        let (requests, bound) = around.requests;
        vec![
            (
                "devices",
                format!(
                    "{} on the first, {} on the second",
                    ByteLen(self.first_bytes),
                    ByteLen(self.second_bytes)
                ),
            ),
            (
                "memory",
                format!("{} of {} for requests", ByteLen(requests), ByteLen(bound)),
            ),
        ]
    }

    fn when_drained(&self, _has_layer_below: bool) -> &'static str {
        "its devices need no recovery"
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
