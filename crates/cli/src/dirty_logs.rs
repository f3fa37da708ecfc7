//! Logs of other volumes that hold data for a device.

use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{DeviceSpec, ErrorCause, OpenContext, SuperblockDevice, VolumeName};

use crate::dirs::ProgramDirs;
use crate::witness::FailedLogDir;

/// Returns the reasons against using the devices, as texts: one for each configured cache whose data device is among
/// them, and whose log holds data for it, or cannot be read. If the device was used without its log, the log could
/// never be applied again. The volume `except` is left out.
pub(crate) async fn dirty_logs_over(
    named: &[&DeviceSpec],
    except: Option<&VolumeName>,
    dirs: &ProgramDirs,
    failed_logs: Option<&FailedLogDir>,
    rt: &Rt,
    ring: &Rc<IoRing>,
) -> Vec<String> {
    let named: Vec<_> = named
        .iter()
        .filter_map(|spec| Some((*spec, spec.identity().ok()?)))
        .collect();
    let used = |spec: &DeviceSpec| {
        let other = spec.identity().ok()?;
        let overlapping = named.iter().find(|(_, own)| own.overlaps(&other));
        overlapping.map(|(spec, _)| *spec)
    };
    let mut dirty = Vec::new();
    for name in dirs.described_names() {
        if Some(&name) == except {
            continue;
        }
        let Ok(tree) = dirs.description(&name).map(|described| described.tree) else {
            continue;
        };
        let under = tree.devices();
        let mut under = under.iter().filter(|(role, _)| role.starts_with("data"));
        let Some((log, data)) = tree.log().zip(under.find_map(|(_, spec)| used(spec))) else {
            continue;
        };
        // A log device that is overwritten itself is examined elsewhere.
        if used(log).is_some() {
            continue;
        }
        let options = DeviceOpenOptions::existing().for_reading();
        let context = OpenContext { rt, ring, options };
        let reason = match SuperblockDevice::open(tree.kind(), log, context) {
            Ok(own) => unsaved_in(&own, failed_logs).await,
            Err(error) => Some(format!("may hold unsaved data for it ({error})")),
        };
        if let Some(reason) = reason {
            dirty.push(format!(
                "{data} is the data device of the volume {name}, whose log {log} {reason}; the log could no longer be \
                 applied: attach and drain or remove {name} first, or abandon that data with --force"
            ));
        }
    }
    dirty
}

/// Describes the data that is only in a log, as the predicate of a sentence. `None` if the data device is complete.
async fn unsaved_in(log: &SuperblockDevice, failed_logs: Option<&FailedLogDir>) -> Option<String> {
    let info = match log.inspect().await {
        Ok(info) => info,
        // A device that holds no log any more has no data for this device.
        Err(error) if error.cause() == ErrorCause::NotFound => return None,
        Err(error) => return Some(format!("may hold unsaved data for it ({error})")),
    };
    let abandoned = info
        .is_abandoned(failed_logs.map(|records| records as _))
        .await;
    let needed = !info.clean && !abandoned.unwrap_or(false);
    needed.then(|| "HOLDS UNSAVED DATA for it".into())
}
