//! Devices that files lie on, with what is known of them.

use std::sync::Arc;

use crate::device::Place;
use crate::level::Level;
use crate::observed;
use crate::table::{Rates, Source};

/// A part of a device, as SLEDs show it.
#[derive(Clone, Debug)]
pub(crate) struct ZoneRates {
    pub(crate) start: u64,
    pub(crate) level: Level,
    pub(crate) rates: Option<Rates>,
    pub(crate) source: Source,
    /// What observations are kept under.
    pub(crate) key: Arc<str>,
}

/// A device that files lie on, with what the table says of it.
#[derive(Clone, Debug)]
pub(crate) struct Located {
    pub(crate) place: Place,
    pub(crate) zones: Vec<ZoneRates>,
}

impl Located {
    /// The zone that byte `at` of the file's device lies in.
    pub(crate) fn zone(&self, at: Option<u64>) -> &ZoneRates {
        let at = match (at, self.place.start) {
            (Some(at), Some(start)) => at.saturating_add(start),
            _ => 0,
        };
        let after = self.zones.partition_point(|zone| zone.start <= at);
        &self.zones[after.saturating_sub(1)]
    }
}

/// With what reads really took, once enough of them were seen.
pub(crate) fn refreshed(mut zone: ZoneRates) -> ZoneRates {
    let Some(rates) = &mut zone.rates else {
        return zone;
    };
    let best = observed::bandwidth(&zone.key);
    let linear = observed::bandwidth(&observed::in_file_order(&zone.key));
    // One order says more of the other than a default does, and less than a measurement.
    let (for_best, for_linear) = match zone.source {
        Source::Measured => (best, linear),
        _ => (best.or(linear), linear.or(best)),
    };
    if for_best.or(for_linear).is_some() {
        zone.source = Source::Observed;
    }
    rates.bandwidth_Bps = for_best.unwrap_or(rates.bandwidth_Bps);
    rates.linear_Bps = for_linear.or(rates.linear_Bps);
    zone
}
