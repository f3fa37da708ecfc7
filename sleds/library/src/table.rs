//! The cost of reading on each device: the paper's `sleds_table` (section 4.1), kept in a file.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::device::{DeviceClass, StorageDevice};

/// An estimate with its range: the 10th, 50th and 90th percentile of the measurements.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EstimateRange {
    /// 10th percentile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// 90th percentile.
    pub high: f64,
}

impl EstimateRange {
    /// Makes a spread of exactly one value.
    pub const fn exactly(value: f64) -> EstimateRange {
        EstimateRange {
            low: value,
            median: value,
            high: value,
        }
    }

    /// Makes a spread of samples in any order; `None` without samples.
    pub fn of(samples: &[f64]) -> Option<EstimateRange> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at =
            |share: f64| Some(*sorted.get(((sorted.len() as f64 - 1.0) * share).round() as usize)?);
        Some(EstimateRange {
            low: at(0.1)?,
            median: at(0.5)?,
            high: at(0.9)?,
        })
    }

    /// Returns true if the numbers are in order and possible: positive and finite.
    pub fn is_sane(&self) -> bool {
        self.low > 0.0 && self.low <= self.median && self.median <= self.high && self.high < 1e18
    }
}

/// Cost of reading at one level.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "B is the unit's symbol: bytes, not bits")]
pub struct ReadRates {
    /// Seconds until the first byte.
    pub latency_s: EstimateRange,
    /// Bytes per second after the first byte, with the best plan.
    pub bandwidth_Bps: EstimateRange,
    /// Bytes per second with the linear plan: by `read`, with the kernel's read-ahead. `None` if equal to
    /// `bandwidth_Bps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_Bps: Option<EstimateRange>,
}

impl ReadRates {
    /// Returns bytes per second in file order.
    pub fn in_file_order(&self) -> EstimateRange {
        self.linear_Bps.unwrap_or(self.bandwidth_Bps)
    }

    fn is_sane(&self) -> bool {
        let spreads = [self.latency_s, self.bandwidth_Bps, self.in_file_order()];
        spreads.iter().all(EstimateRange::is_sane)
    }
}

/// A part of a device with rates of its own: the outer tracks of a disk are faster than the inner tracks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(non_snake_case, reason = "B is the unit's symbol: bytes, not bits")]
pub struct DeviceZone {
    /// Name: `outer`, `inner`; empty for the whole device.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// First byte on the device.
    #[serde(default)]
    pub start: u64,
    /// As in [`ReadRates`].
    pub latency_s: EstimateRange,
    /// As in [`ReadRates`].
    pub bandwidth_Bps: EstimateRange,
    /// As in [`ReadRates`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linear_Bps: Option<EstimateRange>,
}

impl DeviceZone {
    /// Returns the cost of reading in this zone.
    pub fn rates(&self) -> ReadRates {
        ReadRates {
            latency_s: self.latency_s,
            bandwidth_Bps: self.bandwidth_Bps,
            linear_Bps: self.linear_Bps,
        }
    }
}

/// A device of the table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceEntry {
    /// Name of the level, as [`StorageLevel`](crate::StorageLevel) shows it.
    pub name: String,
    /// Identity of the device ([`StorageDevice::identity`]).
    pub identity: String,
    /// Class of the device.
    pub class: DeviceClass,
    /// Time of the measurement, in seconds since 1970.
    #[serde(default)]
    pub measured: u64,
    /// Zones by their first byte; the first begins at 0.
    #[serde(rename = "zone")]
    pub zones: Vec<DeviceZone>,
}

impl DeviceEntry {
    /// Returns the zone that contains byte `at` of the device; the first zone if the place is unknown.
    pub fn zone(&self, at: Option<u64>) -> &DeviceZone {
        let at = at.unwrap_or(0);
        let after = self.zones.partition_point(|zone| zone.start <= at);
        &self.zones[after.saturating_sub(1)]
    }
}

/// Origin of a level's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RateSource {
    /// Measured by `sleds calibrate`.
    Measured,
    /// Usual values of the device's class, not measured.
    Default,
    /// Observed in real reads on this machine since.
    Observed,
    /// No numbers are known.
    Unknown,
}

/// Cost of reading on each device of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceTable {
    /// Machine of the measurement (see [`machine`]).
    pub machine: String,
    /// Cost of reading from the page cache.
    pub memory: ReadRates,
    /// Origin of `memory`.
    pub memory_source: RateSource,
    /// Devices with measured rates.
    pub devices: Vec<DeviceEntry>,
}

impl Default for DeviceTable {
    /// Makes a table without devices: each device has the default rates of its class.
    fn default() -> DeviceTable {
        DeviceTable {
            machine: machine(),
            memory: usual(DeviceClass::Memory).expect("memory has a default"),
            memory_source: RateSource::Default,
            devices: Vec::new(),
        }
    }
}

impl DeviceTable {
    /// Returns the entry of the topmost device in `chain` that is in the table.
    pub fn find(&self, chain: &[StorageDevice]) -> Option<&DeviceEntry> {
        let mut chain = chain.iter();
        chain.find_map(|device| {
            let mut entries = self.devices.iter();
            entries.find(|entry| entry.identity == device.identity)
        })
    }

    /// Inserts an entry. Replaces an existing entry of the same device.
    pub fn put(&mut self, entry: DeviceEntry) {
        self.devices.retain(|one| one.identity != entry.identity);
        self.devices.push(entry);
        self.devices.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Returns a description of the first fault; `None` if the table is valid.
    pub fn fault(&self) -> Option<String> {
        if !self.memory.is_sane() {
            return Some("the rates of memory are no possible numbers".to_owned());
        }
        self.devices.iter().find_map(entry_fault)
    }
}

fn entry_fault(entry: &DeviceEntry) -> Option<String> {
    let name = &entry.name;
    if name.is_empty() || name.contains(char::is_control) {
        return Some(format!("a device is called {name:?}"));
    }
    if ["memory", "unknown"].contains(&name.as_str()) {
        return Some(format!(
            "a device is called \"{name}\", which is another level's name"
        ));
    }
    if entry.zones.first().is_none_or(|zone| zone.start != 0) {
        return Some(format!(
            "the first zone of device \"{name}\" does not begin at 0"
        ));
    }
    if !entry.zones.is_sorted_by(|a, b| a.start < b.start) {
        return Some(format!("the zones of device \"{name}\" are not in order"));
    }
    let bad = entry.zones.iter().any(|zone| !zone.rates().is_sane());
    bad.then(|| {
        format!(
            "the rates of device \"{name}\" are no possible numbers (0 < low <= median <= high)"
        )
    })
}

/// Returns the usual cost of reading on devices of a class, used without measurements. The ranges are wide, since
/// devices differ. `None` for [`DeviceClass::Unknown`].
pub fn usual(class: DeviceClass) -> Option<ReadRates> {
    let (latency, bandwidth) = match class {
        DeviceClass::Memory => ((2e-7, 1e-6, 4e-6), (2e9, 6e9, 1.5e10)),
        DeviceClass::Ssd => ((4e-5, 1e-4, 4e-4), (3e8, 1e9, 5e9)),
        DeviceClass::Virtual => ((8e-5, 3e-4, 2e-3), (1e8, 5e8, 2e9)),
        DeviceClass::Rotational => ((4e-3, 1.2e-2, 2.5e-2), (5e7, 1.2e8, 2.5e8)),
        DeviceClass::Optical => ((8e-2, 1.3e-1, 5e-1), (1e6, 5e6, 2e7)),
        DeviceClass::Network => ((2e-4, 1e-3, 2e-2), (1e7, 1e8, 1e9)),
        DeviceClass::Unknown => return None,
    };
    let spread = |(low, median, high)| EstimateRange { low, median, high };
    Some(ReadRates {
        latency_s: spread(latency),
        bandwidth_Bps: spread(bandwidth),
        linear_Bps: None,
    })
}

/// Returns the identity of the machine, which does not depend on the booted system: its machine id, or its host name.
pub fn machine() -> String {
    let id = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
    let mut id = id
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok());
    match id.find(|id| !id.trim().is_empty()) {
        Some(id) => id.trim().to_owned(),
        None => rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned(),
    }
}

/// Reasons for which no table is usable. The defaults apply in that case.
#[derive(thiserror::Error, Debug)]
pub enum DeviceTableError {
    /// The machine was not calibrated yet.
    #[error("no device table; run `sleds calibrate` to measure this machine (looked for {})", list(.looked))]
    Missing {
        /// Paths that were tried.
        looked: Vec<PathBuf>,
    },
    /// The file cannot be read or written.
    #[error("device table {path}: {source}", path = .path.display())]
    Io {
        /// The table's file.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is not a table, or its numbers are impossible.
    #[error("device table {path} is broken: {why}; run `sleds calibrate` to write a new one", path = .path.display())]
    Broken {
        /// The table's file.
        path: PathBuf,
        /// Description of the fault.
        why: String,
    },
    /// The table was measured on another machine.
    #[error("device table {path} is of another machine ({theirs}, this one is {ours}); run `sleds calibrate` here", path = .path.display())]
    OtherMachine {
        /// The table's file.
        path: PathBuf,
        /// Machine of the measurement.
        theirs: String,
        /// This machine.
        ours: String,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<_> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    paths.join(", ")
}
