//! The storage levels under the limits: the paper's tables 2 and 3.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use sleds::{DeviceTable, ReadRates, format};

use super::{files, measure};
use sleds_common::quantity;

/// Bytes read to measure the disk, which take a few seconds.
const SAMPLE_BYTES: u64 = 64 << 20;
/// Seconds for the measurement.
const SECONDS: &str = "--time=4";

/// The paper's values (section 5.1): level, latency, throughput; for `wc` and `grep`, then for the FITS tools.
const PAPER: [(&str, &str, &str); 6] = [
    ("memory (table 2)", "175 ns", "48 MB/s"),
    ("hard disk (table 2)", "18 ms", "9.0 MB/s"),
    ("CD-ROM (table 2)", "130 ms", "2.8 MB/s"),
    ("NFS (table 2)", "270 ms", "1.0 MB/s"),
    ("memory (table 3)", "210 ns", "87 MB/s"),
    ("hard disk (table 3)", "16.5 ms", "7.0 MB/s"),
];

/// A device table made under the limits, in the scratch directory.
pub(super) struct MeasuredTable {
    /// Path of the table.
    pub(super) path: PathBuf,
    table: DeviceTable,
}

impl MeasuredTable {
    /// Runs `sleds calibrate` within this process's limits, on the disk of `scratch`.
    ///
    /// # Errors
    /// If the disk cannot be measured.
    pub(super) fn measure(scratch: &Path, sleds: &Path, seed: u64) -> Result<MeasuredTable> {
        let path = scratch.join("table.toml");
        let sample = scratch.join("calibration");
        files::text(&sample, SAMPLE_BYTES, seed)?;
        calibrate(sleds, &sample, &path)?;
        fs::remove_file(&sample)?;
        let table = format::load_from(&path)?;
        Ok(MeasuredTable { path, table })
    }

    /// Returns a table of our values and the paper's.
    ///
    /// # Errors
    /// If a measured device has no zone.
    pub(super) fn report(&self) -> Result<String> {
        let mut text = String::from(
            "\n## Storage levels (tables 2 and 3)\n\n\
             | level | latency | throughput |\n|---|---|---|\n",
        );
        for (level, latency, throughput) in PAPER {
            writeln!(text, "| paper: {level} | {latency} | {throughput} |")?;
        }
        let row = |name: &str, rates: ReadRates| {
            format!(
                "| here: {name} | {} | {} |",
                quantity::seconds(rates.latency_s.median),
                quantity::rate(rates.bandwidth_Bps.median)
            )
        };
        writeln!(text, "{}", row("memory", self.table.memory))?;
        for device in &self.table.devices {
            let zone = device.zones.first().context("a device without a zone")?;
            writeln!(text, "{}", row(&device.name, zone.rates()))?;
        }
        text += "\nHere, `sleds calibrate` measured them in the limits above: latency of 4 KiB at random \
                 places, throughput in order, medians. `sleds` goes by this table in what follows.\n";
        Ok(text)
    }
}

/// Runs `sleds calibrate` on `sample`, and writes the table to `path`. Runs in a separate process, since a program
/// loads the table only once.
///
/// # Errors
/// If the calibration fails.
pub(super) fn calibrate(sleds: &Path, sample: &Path, path: &Path) -> Result<()> {
    let mut command = measure::command(sleds);
    command
        .args(["calibrate", SECONDS, "--path"])
        .arg(sample)
        .arg("--output")
        .arg(path)
        .stdout(Stdio::null());
    let (status, _, ()) = measure::watched(command, |_| Ok(()))?;
    ensure!(status.success(), "sleds calibrate: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use sleds::{DeviceClass, DeviceEntry, DeviceZone, EstimateRange};

    use super::*;

    #[test]
    fn measured_levels_are_listed_next_to_those_of_the_paper() {
        let mut table = DeviceTable::default();
        table.put(DeviceEntry {
            name: "sdx".to_owned(),
            identity: "name:sdx".to_owned(),
            class: DeviceClass::Ssd,
            measured: 0,
            zones: vec![DeviceZone {
                name: String::new(),
                start: 0,
                latency_s: EstimateRange::exactly(2e-3),
                bandwidth_Bps: EstimateRange::exactly(1e8),
                linear_Bps: None,
            }],
        });
        let levels = MeasuredTable {
            path: PathBuf::new(),
            table,
        };
        let text = levels.report().unwrap();
        assert!(text.contains("| paper: hard disk (table 3) | 16.5 ms | 7.0 MB/s |"));
        assert!(
            text.contains("| here: sdx | 2.00 ms | 100 MB/s |"),
            "{text}"
        );
    }
}
