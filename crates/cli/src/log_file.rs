//! Files that become the log of a volume.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_units::ByteLen;
use forebay_volume::{DeviceSpec, OpenDevice};
use rustix::fs::SeekFrom;

/// Creates the log file if a size (`--log-size`) is given and the file does not exist. Returns its path if it was
/// created. `data` is the data device of a volume that does not
/// exist yet.
pub(crate) fn make_if_missing(
    log: &DeviceSpec,
    size: Option<ByteLen>,
    sparse: bool,
    data: Option<&DeviceSpec>,
) -> CommandResult<Option<PathBuf>> {
    let path = log.path();
    let missing = matches!(fs::metadata(path), Err(e) if e.kind() == ErrorKind::NotFound);
    match (missing, size) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(CommandFailure::refused(format!(
            "{} exists already; leave out --log-size to use it as it is",
            path.display()
        ))),
        (true, None) => Err(CommandFailure::not_found(format!(
            "cannot open {}: it does not exist; check the path, or create a file with --log-size 1GiB",
            path.display()
        ))),
        (true, Some(_)) if log.part().is_some() => Err(CommandFailure::usage(format!(
            "{log} is a part of a device that does not exist; --log-size makes whole files only"
        ))),
        (true, Some(size)) => {
            // Check the data device first, so that a volume that cannot be made leaves no log file behind.
            if let Some(data) = data
                && let Err(error) = fs::metadata(data.path())
            {
                return Err(CommandFailure::not_found(format!(
                    "cannot open {data}: {error}; check the path"
                )));
            }
            forebay_linux::create_file(path, size.0, sparse)?;
            Ok(Some(path.to_owned()))
        }
    }
}

/// Returns true if a log file has ranges that are unallocated, or allocated and never written. Its filesystem would
/// have to record the first write to each such range.
pub(crate) fn has_holes(log: &OpenDevice) -> CommandResult<bool> {
    let path = log.spec.path();
    let failed =
        |e: std::io::Error| CommandFailure::io(format!("cannot examine {}: {e}", path.display()));
    if !fs::metadata(path).map_err(failed)?.is_file() {
        return Ok(false);
    }
    let file = File::open(path).map_err(failed)?;
    let whole = 0..log.device.geometry().len;
    let part = log.spec.part().unwrap_or(&whole);
    // A filesystem without support for holes reports the first hole at the end of the file.
    let hole = rustix::fs::seek(&file, SeekFrom::Hole(part.start));
    Ok(hole.is_ok_and(|hole| hole < part.end))
}

/// Fills the log with zeroes. Bypasses an emulated disk: it has no allocation to prepare, and would take its emulated
/// time. `progress` gets the written and the total bytes.
pub(crate) async fn zero(log: &OpenDevice, progress: impl FnMut(u64, u64)) -> CommandResult {
    let filled = forebay_linux::zero_fill(&*log.beneath, progress).await;
    filled.map_err(|error| {
        CommandFailure::io(format!(
            "cannot fill {}: {error}; free some space, or skip it with --sparse",
            log.spec
        ))
    })
}
