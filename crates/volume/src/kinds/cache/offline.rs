//! A write cache that is not attached: inspecting its log.

use std::rc::Rc;

use forebay_dcd::{
    DcdCheckReport, FailedLogRegistry, InspectError, SuperblockContents, SuperblockPayload,
};
use forebay_device::Device;
use forebay_ring_log::{FormatError, RingSuperblock, read_superblocks};
use forebay_units::{ByteLen, SECTOR_BYTES};
use serde::Serialize;

use super::error::CacheError;
use super::render;
use crate::error::VolumeError;
use crate::kind::{FoundLog, FoundVolume, ProgressSink};
use crate::kinds::space::{self, SpaceCheck};
use crate::open::OpenDevice;
use crate::report::{LayerCheckReport, LayerDumpItem};
use crate::spec::DeviceSpec;

/// Returns the Forebay log on a device, if any. A log that cannot be read counts, because it is damaged or has another
/// version.
pub(super) async fn find(device: &Rc<dyn Device>) -> Option<FoundVolume> {
    let copies = read_superblocks(&**device).await.ok()?;
    if let Ok(newest) = copies.newest() {
        let volume = newest.volume.to_string();
        return Some(if newest.abandoned {
            FoundVolume {
                text: abandoned_text(newest),
                unsaved: None,
                log: None,
            }
        } else if newest.clean {
            FoundVolume {
                text: format!("the log of the Forebay volume {volume}"),
                unsaved: None,
                log: Some(found_log(newest)),
            }
        } else {
            dirty(device, newest).await
        });
    }
    for copy in [copies.a, copies.b] {
        match copy {
            Err(FormatError::Magic(_)) => {}
            Err(error) => {
                return Some(FoundVolume {
                    text: format!("a Forebay log that cannot be read ({error})"),
                    unsaved: None,
                    log: None,
                });
            }
            // Both copies are intact, but contradict each other.
            Ok(superblock) => return Some(dirty(device, &superblock).await),
        }
    }
    None
}

/// Describes a log with the only copy of some data.
async fn dirty(device: &Rc<dyn Device>, superblock: &RingSuperblock) -> FoundVolume {
    let volume = superblock.volume.to_string();
    let of = match forebay_dcd::inspect(Rc::clone(device)).await {
        Ok(info) => format!("named {}, data device {}", info.name, info.data.path),
        Err(error) => error.to_string(),
    };
    FoundVolume {
        text: format!("the log of the Forebay volume {volume}, with unsaved data in it"),
        unsaved: Some(format!("{volume} ({of})")),
        log: Some(found_log(superblock)),
    }
}

fn found_log(superblock: &RingSuperblock) -> FoundLog {
    FoundLog {
        volume: superblock.volume,
        epoch: superblock.epoch.0,
        if_abandoned: abandoned_text(superblock),
    }
}

/// Describes an abandoned log, as the object of "holds". A log that could not be marked lists no lost data.
fn abandoned_text(superblock: &RingSuperblock) -> String {
    let payload = SuperblockPayload::decode(&superblock.layer);
    let (data, lost) = payload.map_or_else(
        || ("the data device".into(), 0),
        |payload| (payload.data.path, payload.lost_sectors),
    );
    let needed = match lost {
        0 => "nothing in it is needed".into(),
        sectors => format!(
            "{} were lost with it, see `forebay check --salvage`",
            ByteLen(sectors * SECTOR_BYTES)
        ),
    };
    format!(
        "the failed log of the Forebay volume {}, abandoned after its data was moved to {data} ({needed})",
        superblock.volume
    )
}

/// Returns the volume's information as the log records it.
///
/// # Errors
/// If the device does not hold a write cache's log.
pub(crate) async fn inspect(log: &OpenDevice) -> Result<SuperblockContents, VolumeError> {
    let inspected = forebay_dcd::inspect(Rc::clone(&log.device)).await;
    inspected.map_err(|error| not_a_log(&log.spec, error))
}

/// Findings of a check of a write cache and of the layer below.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct CacheCheck {
    /// On the log.
    #[serde(flatten)]
    pub(crate) cache: DcdCheckReport,
    /// On the device of the log-structured volume below, if it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) below: Option<Box<SpaceCheck>>,
}

impl CacheCheck {
    /// Returns the findings in the form of all kinds.
    pub(crate) fn into_report(self) -> LayerCheckReport {
        let (mut verdict, mut lines) = (self.cache.verdict, render::check(&self.cache));
        if let Some(below) = &self.below {
            verdict = verdict.max(below.verdict);
            lines.extend(space::check_lines(below));
        }
        LayerCheckReport::new(verdict, lines, self)
    }
}

/// Checks a log, and that it belongs to the data device if a data device is given. Changes nothing.
///
/// # Errors
/// If the device does not hold a write cache's log, or cannot be read.
pub(crate) async fn check_log(
    log: &OpenDevice,
    data: Option<&OpenDevice>,
    failed_logs: Option<&dyn FailedLogRegistry>,
    progress: ProgressSink<'_>,
) -> Result<CacheCheck, VolumeError> {
    let data = data.map(|data| (Rc::clone(&data.device), data.identity.clone()));
    let checked =
        forebay_dcd::check_witnessed(Rc::clone(&log.device), data, failed_logs, progress).await;
    let cache = checked.map_err(|error| not_a_log(&log.spec, error))?;
    Ok(CacheCheck { cache, below: None })
}

/// Passes every valid structure of a log to `out`, in the log's order. Changes nothing.
///
/// # Errors
/// If the device does not hold a log, or cannot be read. The superblocks have been passed before.
pub(super) async fn dump(
    log: &OpenDevice,
    out: &mut dyn FnMut(LayerDumpItem),
) -> Result<(), VolumeError> {
    let mut out = |item| out(LayerDumpItem::new(&item));
    let dumped = forebay_dcd::dump(Rc::clone(&log.device), &mut out).await;
    dumped.map_err(|error| not_a_log(&log.spec, error))
}

/// Returns the error for a log that cannot be inspected.
fn not_a_log(log: &DeviceSpec, error: InspectError) -> VolumeError {
    let log = log.to_string();
    CacheError::NotALog { log, error }.into()
}
