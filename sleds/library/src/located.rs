//! Devices that files lie on, with their known properties.

use std::sync::Arc;

use crate::device::FilePlace;
use crate::forebay::TieredStore;
use crate::level::StorageLevel;
use crate::observed;
use crate::table::{EstimateRange, RateSource, ReadRates};

/// A part of a device, as SLEDs show the part.
#[derive(Clone, Debug)]
pub(crate) struct ZoneRates {
    pub(crate) start: u64,
    pub(crate) level: StorageLevel,
    pub(crate) rates: Option<ReadRates>,
    pub(crate) source: RateSource,
    /// Key of its observations.
    pub(crate) key: Arc<str>,
}

/// A device that files lie on, with its rates from the table.
#[derive(Clone, Debug)]
pub(crate) struct LocatedDevice {
    pub(crate) place: FilePlace,
    pub(crate) zones: Vec<ZoneRates>,
    /// Position on the device of `zones` of byte 0 of the address space; `None` if addresses cannot be translated.
    pub(crate) start: Option<u64>,
    /// Tiers of Forebay below the file, if Forebay is below the file.
    pub(crate) tiers: Option<ExtraTiers>,
}

/// Tiers below a file in addition to its data device.
#[derive(Clone, Debug)]
pub(crate) struct ExtraTiers {
    pub(crate) below: TieredStore,
    pub(crate) memory: ZoneRates,
    pub(crate) log: ZoneRates,
}

/// Origin of bytes that are not in the page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ByteOrigin {
    /// The device, with the position in bytes if known.
    Device(Option<u64>),
    /// The memory of the process that serves the device.
    Memory,
    /// The log in front of the device.
    Log,
}

impl LocatedDevice {
    /// Returns the zone that a part of the file lies in.
    pub(crate) fn zone(&self, spot: ByteOrigin) -> &ZoneRates {
        let at = match (spot, &self.tiers) {
            (ByteOrigin::Memory, Some(tiers)) => return &tiers.memory,
            (ByteOrigin::Log, Some(tiers)) => return &tiers.log,
            (ByteOrigin::Device(at), _) => at,
            _ => None,
        };
        let at = match (at, self.start) {
            (Some(at), Some(start)) => at.saturating_add(start),
            _ => 0,
        };
        let after = self.zones.partition_point(|zone| zone.start <= at);
        &self.zones[after.saturating_sub(1)]
    }

    /// Returns the zone of data at an unknown place.
    pub(crate) fn somewhere(&self) -> &ZoneRates {
        self.zone(ByteOrigin::Device(None))
    }

    /// Returns the key under which the time of reads is recorded. `None` if the device has zones, or if a part of the
    /// data comes from elsewhere.
    pub(crate) fn observed_as(&self) -> Option<&Arc<str>> {
        match (&self.zones[..], &self.tiers) {
            ([zone], None) => Some(&zone.key),
            _ => None,
        }
    }
}

/// Returns the rates of reading through another process: each request takes `trip_s` longer, and the data is copied
/// once more from memory to memory.
pub(crate) fn through(rates: ReadRates, trip_s: EstimateRange, memory: ReadRates) -> ReadRates {
    let each = |a: EstimateRange, b: EstimateRange, of: fn(f64, f64) -> f64| EstimateRange {
        low: of(a.low, b.low),
        median: of(a.median, b.median),
        high: of(a.high, b.high),
    };
    let slower = |a: EstimateRange, b: EstimateRange| each(a, b, |a, b| a.min(b / 2.0));
    let linear = slower(rates.in_file_order(), memory.in_file_order());
    ReadRates {
        latency_s: each(rates.latency_s, trip_s, |a, b| a + b),
        bandwidth_Bps: slower(rates.bandwidth_Bps, memory.bandwidth_Bps),
        linear_Bps: Some(linear),
    }
}

/// Replaces rates of the table by observed rates if enough reads were observed.
pub(crate) fn refreshed(mut zone: ZoneRates) -> ZoneRates {
    let Some(rates) = &mut zone.rates else {
        return zone;
    };
    let best = observed::bandwidth(&zone.key);
    let linear = observed::bandwidth(&observed::in_file_order(&zone.key));
    // An observation of the other order is better than a default, and worse than a measurement.
    let (for_best, for_linear) = match zone.source {
        RateSource::Measured => (best, linear),
        _ => (best.or(linear), linear.or(best)),
    };
    if for_best.or(for_linear).is_some() {
        zone.source = RateSource::Observed;
    }
    rates.bandwidth_Bps = for_best.unwrap_or(rates.bandwidth_Bps);
    rates.linear_Bps = for_linear.or(rates.linear_Bps);
    zone
}
