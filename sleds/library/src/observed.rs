//! Observed bandwidths of real reads, which refresh the table's estimates.
//!
//! The observations are kept for the process, and in a small file beside the table if that file is writable. Each line
//! of the file is a bandwidth, `KEY<tab>BYTES_PER_SECOND`, newest last. A device has two bandwidths: for best order,
//! and for file order, which has its own key ([`in_file_order`]).

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::format::ReplaceDurability;
use crate::table::EstimateRange;

/// Number of observations kept for a device.
const KEPT: usize = 32;
/// Minimum number of observations for an estimate.
const ENOUGH: usize = 3;
/// Minimum length of an observed read. Shorter reads measure latency and chance.
pub(crate) const BYTES_MIN: u64 = 4 << 20;
const FILE_BYTES_MAX: u64 = 1 << 20;

struct RateObservations {
    bandwidths: BTreeMap<String, VecDeque<f64>>,
    generation: u64,
    /// The file that observations are written to.
    path: Option<PathBuf>,
}

static OBSERVED: Mutex<RateObservations> = Mutex::new(RateObservations {
    bandwidths: BTreeMap::new(),
    generation: 0,
    path: None,
});

fn lock() -> MutexGuard<'static, RateObservations> {
    OBSERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RateObservations {
    fn add(&mut self, key: &str, bandwidth: f64) {
        let kept = self.bandwidths.entry(key.to_owned()).or_default();
        kept.push_back(bandwidth);
        if kept.len() > KEPT {
            kept.pop_front();
        }
        if kept.len() >= ENOUGH {
            self.generation += 1;
        }
    }
}

/// Returns the key of a device's bandwidth in file order.
pub(crate) fn in_file_order(key: &str) -> String {
    format!("{key}|linear")
}

/// Returns a number that changes whenever the results of [`bandwidth`] may change.
pub(crate) fn generation() -> u64 {
    lock().generation
}

/// Returns the observed bandwidth in bytes per second, if enough observations exist.
pub(crate) fn bandwidth(key: &str) -> Option<EstimateRange> {
    let observed = lock();
    let kept = observed.bandwidths.get(key)?;
    if kept.len() < ENOUGH {
        return None;
    }
    EstimateRange::of(&kept.iter().copied().collect::<Vec<_>>())
}

/// Records that the device `key` delivered `bytes` in `seconds`, during which the caller waited for nothing else.
pub(crate) fn note(key: &str, bytes: u64, seconds: f64) {
    let bandwidth = bytes as f64 / seconds;
    if bytes < BYTES_MIN || !bandwidth.is_finite() {
        return;
    }
    let mut observed = lock();
    observed.add(key, bandwidth);
    if let Some(path) = observed.path.clone() {
        let text = print(&observed.bandwidths);
        drop(observed);
        // Another program may write at the same time; either content is valid. A lost file is acceptable too, so the
        // write does not wait for the disk.
        let _ = crate::format::replace(&path, text.as_bytes(), ReplaceDurability::No);
    }
}

/// Returns the path of the observations that belong to `table`.
pub(crate) fn path_beside(table: &Path) -> PathBuf {
    table.with_extension("observed")
}

/// Loads the observations of earlier programs. From then on, the file is kept up to date if it is writable.
pub(crate) fn load(path: &Path) {
    let mut observed = lock();
    if observed.path.is_some() {
        return;
    }
    if fs::metadata(path).is_ok_and(|meta| meta.len() <= FILE_BYTES_MAX)
        && let Ok(text) = fs::read_to_string(path)
    {
        for (key, bandwidth) in text.lines().filter_map(parse) {
            observed.add(key, bandwidth);
        }
    }
    let directory = path.parent().unwrap_or(Path::new("."));
    if rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_ok() {
        observed.path = Some(path.to_owned());
    }
}

/// Removes all observations, also those in the file. Calibration makes them obsolete.
pub fn forget(table: &Path) {
    let mut observed = lock();
    observed.bandwidths.clear();
    observed.generation += 1;
    let _ = fs::remove_file(path_beside(table));
}

fn parse(line: &str) -> Option<(&str, f64)> {
    let (key, bandwidth) = line.rsplit_once('\t')?;
    let bandwidth: f64 = bandwidth.parse().ok()?;
    (bandwidth > 0.0 && bandwidth < 1e18).then_some((key, bandwidth))
}

fn print(bandwidths: &BTreeMap<String, VecDeque<f64>>) -> String {
    let lines = bandwidths.iter().flat_map(|(key, kept)| {
        let key = key.replace(['\t', '\n'], " ");
        kept.iter()
            .map(move |bandwidth| format!("{key}\t{bandwidth:.0}\n"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_are_used_when_enough_exist_and_old_observations_are_dropped() {
        let key = "test:counting";
        for n in 1..ENOUGH {
            note(key, BYTES_MIN, n as f64);
        }
        assert_eq!(bandwidth(key), None);
        for _ in 0..KEPT {
            note(key, BYTES_MIN, 1.0);
        }
        assert_eq!(
            bandwidth(key),
            Some(EstimateRange::exactly(BYTES_MIN as f64))
        );
    }

    #[test]
    fn short_and_impossible_reads_do_not_count() {
        let key = "test:short";
        for _ in 0..2 * ENOUGH {
            note(key, BYTES_MIN - 1, 1.0);
            note(key, BYTES_MIN, 0.0);
        }
        assert_eq!(bandwidth(key), None);
    }

    #[test]
    fn observations_survive_print_and_parse_and_malformed_lines_are_ignored() {
        let kept = BTreeMap::from([("serial:a b".to_owned(), VecDeque::from([5.0, 7.0]))]);
        let text = print(&kept);
        let read: Vec<_> = text.lines().filter_map(parse).collect();
        assert_eq!(read, [("serial:a b", 5.0), ("serial:a b", 7.0)]);
        for bad in ["", "x", "x\t", "x\t-1", "x\tnan", "x\tinf"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
