//! Traces measured on a real drive, for its model.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use forebay_disk_model::disk::{DiskOp, DiskSpec};
use forebay_sim::trace::{MeasuredRequest, read_measured};

pub(crate) fn load(path: &Path) -> Result<Vec<MeasuredRequest>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    read_measured(&text).with_context(|| format!("{} is not a measured trace", path.display()))
}

/// Returns the model's operation for a request.
pub(crate) fn op(request: &MeasuredRequest) -> DiskOp {
    if request.write {
        DiskOp::Write
    } else {
        DiskOp::Read
    }
}

/// Checks that every request is on the disk.
pub(crate) fn check(trace: &[MeasuredRequest], spec: &DiskSpec) -> Result<()> {
    for (index, r) in trace.iter().enumerate() {
        let end = r.first.saturating_add(u64::from(r.blocks));
        ensure!(
            end <= spec.blocks(),
            "request {} is for blocks {} to {}, but the drive has {}",
            index + 1,
            r.first,
            end - 1,
            spec.blocks()
        );
    }
    Ok(())
}

/// Returns the requests with their times on the drive and in the model, one in each line, for analysis.
pub(crate) fn beside(trace: &[MeasuredRequest], real_ms: &[f64], model_ms: &[f64]) -> String {
    let mut text = String::from("op first blocks real_ms model_ms\n");
    for ((r, real), model) in trace.iter().zip(real_ms).zip(model_ms) {
        let op = match op(r) {
            DiskOp::Read => 'R',
            DiskOp::Write => 'W',
        };
        text += &format!("{op} {} {} {real:.3} {model:.3}\n", r.first, r.blocks);
    }
    text
}
