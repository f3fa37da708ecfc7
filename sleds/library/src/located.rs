//! Devices that files lie on, with what is known of them.

use std::sync::Arc;

use crate::device::Place;
use crate::forebay::Below;
use crate::level::Level;
use crate::observed;
use crate::table::{Rates, Source, Spread};

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
    /// Where byte 0 of what is addressed lies on the device that the zones are of; `None` where addresses cannot be translated.
    pub(crate) start: Option<u64>,
    /// Who says what has which part, if somebody does.
    pub(crate) tiers: Option<Tiers>,
}

/// What is below a file beside its device.
#[derive(Clone, Debug)]
pub(crate) struct Tiers {
    pub(crate) below: Below,
    pub(crate) memory: ZoneRates,
    pub(crate) log: ZoneRates,
}

/// Where what is not in the page cache comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spot {
    /// The device, at this byte of it if known.
    Device(Option<u64>),
    /// The memory of who serves the device.
    Memory,
    /// The log in front of it.
    Log,
}

impl Located {
    /// The zone that a part of the file lies in.
    pub(crate) fn zone(&self, spot: Spot) -> &ZoneRates {
        let at = match (spot, &self.tiers) {
            (Spot::Memory, Some(tiers)) => return &tiers.memory,
            (Spot::Log, Some(tiers)) => return &tiers.log,
            (Spot::Device(at), _) => at,
            _ => None,
        };
        let at = match (at, self.start) {
            (Some(at), Some(start)) => at.saturating_add(start),
            _ => 0,
        };
        let after = self.zones.partition_point(|zone| zone.start <= at);
        &self.zones[after.saturating_sub(1)]
    }

    /// The zone of data of which it is not known where it lies.
    pub(crate) fn somewhere(&self) -> &ZoneRates {
        self.zone(Spot::Device(None))
    }

    /// What the time of reads is noted for: `None` if the device has zones, or not all that is read comes from it.
    pub(crate) fn observed_as(&self) -> Option<&Arc<str>> {
        match (&self.zones[..], &self.tiers) {
            ([zone], None) => Some(&zone.key),
            _ => None,
        }
    }
}

/// What reading through somebody else costs: a request is on the way for so many seconds, and what comes is copied once more,
/// from memory to memory.
pub(crate) fn through(rates: Rates, trip_s: Spread, memory: Rates) -> Rates {
    let each = |a: Spread, b: Spread, of: fn(f64, f64) -> f64| Spread {
        low: of(a.low, b.low),
        median: of(a.median, b.median),
        high: of(a.high, b.high),
    };
    let slower = |a: Spread, b: Spread| each(a, b, |a, b| a.min(b / 2.0));
    let linear = slower(rates.in_file_order(), memory.in_file_order());
    Rates {
        latency_s: each(rates.latency_s, trip_s, |a, b| a + b),
        bandwidth_Bps: slower(rates.bandwidth_Bps, memory.bandwidth_Bps),
        linear_Bps: Some(linear),
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
