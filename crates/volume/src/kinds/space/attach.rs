//! Attaches a log-structured volume.

use std::rc::Rc;

use forebay_linux::DeviceKind;
use forebay_rt::Rt;
use forebay_segment_log::read_copies;
use forebay_vsl::{Space, SpaceRecovery, SpaceSettings, SpaceSuperblock, SpaceWorkers, open};

use super::attached::AttachedVolume;
use super::error::SpaceVolumeError;
use super::hint::damaged_copy;
use super::offline::{grown_bytes, inspect, is_of_files};
use super::options::{DISCARD, SPARE};
use super::render;
use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer};
use crate::open::OpenDevice;
use crate::options::OptionValues;
use crate::options::shared::{ACK, MAP_MEMORY, MAX_DELAY};
use crate::options::values::SegmentDiscard;

/// Recovers the volume on `data`, and attaches it.
///
/// # Errors
/// If it cannot be attached, or durable data is missing and `accept` does not permit the loss.
pub(crate) async fn attach(
    data: OpenDevice,
    options: &OptionValues,
    context: &AttachContext,
) -> Result<AttachedLayer, VolumeError> {
    must_be_blocks(&data).await?;
    let (rt, accept_loss) = (&context.rt, context.accept.loss);
    let settings = SpaceSettings::default();
    let (space, workers, notes) = open_space(rt, &data, options, settings, accept_loss).await?;
    let acknowledge = options.get(&ACK).unwrap_or_default();
    Ok(AttachedLayer {
        layer: Rc::new(AttachedVolume::new(
            rt,
            &context.name,
            space,
            workers,
            acknowledge,
        )),
        notes,
    })
}

/// Checks that the space on a device can be served as a block device. The space of a filesystem is longer than any
/// block device.
async fn must_be_blocks(data: &OpenDevice) -> Result<(), VolumeError> {
    let superblock = inspect(&*data.device).await;
    if superblock.is_ok_and(|superblock| is_of_files(&superblock)) {
        Err(SpaceVolumeError::HoldsFiles(data.spec.to_string()).into())
    } else {
        Ok(())
    }
}

/// Recovers the space on `data`. Returns its background work, and the notes for the administrator.
///
/// # Errors
/// If it cannot be recovered, or durable data is missing and `accept` does not permit the loss.
pub(crate) async fn open_space(
    rt: &Rt,
    data: &OpenDevice,
    options: &OptionValues,
    defaults: SpaceSettings,
    accept_loss: bool,
) -> Result<(Space, SpaceWorkers, Vec<String>), VolumeError> {
    let failed = |error| SpaceVolumeError::Attach {
        data: data.spec.to_string(),
        error,
    };
    let settings = SpaceSettings {
        max_delay: options
            .get(&MAX_DELAY)
            .map_or(defaults.max_delay, |span| span.0),
        map_bytes: options
            .get(&MAP_MEMORY)
            .map_or(defaults.map_bytes, |size| size.0),
        ..defaults
    };
    let settings = SpaceSettings {
        discard: discards(options.get(&DISCARD), data),
        spare_part: options
            .get(&SPARE)
            .map_or(settings.spare_part, |spare| Some(spare.part())),
        ..settings
    };
    let copies = read_copies::<SpaceSuperblock>(&*data.device).await;
    let device = Rc::clone(&data.device);
    let opened = open(rt.clone(), device, settings, accept_loss).await;
    let (space, workers, recovery) = opened.map_err(failed)?;
    let mut notes = found(recovery);
    notes.extend(copies.ok().and_then(|copies| damaged_copy(&copies)));
    let unused = grown_bytes(&space.superblock(), &*data.device);
    notes.extend(render::grown(unused));
    Ok((space, workers, notes))
}

/// Returns true if free segments are discarded. By default they are on block devices that support it: flash needs the
/// information, and thin devices return the space to others. For an image file, space returned to its filesystem may be
/// missing when it is needed again, and then the volume fails. So image files are discarded only if requested.
fn discards(said: Option<SegmentDiscard>, data: &OpenDevice) -> bool {
    let can = data.device.geometry().discard_granularity > 0;
    let is_block = || {
        let identity = forebay_linux::identity(data.spec.path());
        identity.is_ok_and(|identity| identity.kind == DeviceKind::Block)
    };
    can && said.map_or_else(is_block, |said| said == SegmentDiscard::On)
}

/// Returns notes for the administrator about the state in which the volume was found.
fn found(recovery: SpaceRecovery) -> Vec<String> {
    match recovery.records {
        0 => Vec::new(),
        records => vec![format!(
            "recovered the volume from its newest checkpoint and {records} records behind it"
        )],
    }
}
