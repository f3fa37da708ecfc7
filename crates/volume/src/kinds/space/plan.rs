//! Creates a log-structured volume from the parameters of a user.

use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_vsl::{SEGMENTS_MAX, SegmentLayout, VolumeId};

use super::create::{SpaceCreateSpec, SpaceLength, layout_on, make};
use super::options::{PAGE, PLACEMENT, SIZE, SPARE};
use super::spec::SPEC;
use super::superblock::space_tree;
use crate::create_spec::{CreateReport, CreateSpec, SegmentUse, cannot_make, unfit, unused};
use crate::error::VolumeError;
use crate::kind::{CreateContext, VolumeCreation};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice, open_one};
use crate::options::OptionValues;
use crate::options::shared::SEGMENT;
use crate::spec::DeviceSpec;

/// Role of a device that is unsuitable, in sentences.
const WHAT: &str = "a log-structured volume";

/// Checks the sizes for a log-structured volume.
///
/// # Errors
/// If a size is not supported.
pub(crate) fn check_sizes(options: &OptionValues) -> Result<(), VolumeError> {
    let refuse = |text: String| Err(VolumeError::Usage(text));
    let pages = ByteLen::kib(4)..=ByteLen::kib(64);
    match (options.get(&SIZE), options.get(&PAGE)) {
        (Some(size), _) if size < ByteLen::mib(1) => refuse(format!(
            "a volume of --size {size} is too small: give 1MiB or more"
        )),
        (Some(size), _) if size.0 > i64::MAX as u64 => refuse(format!(
            "a volume of --size {size} is too large: give less than 8EiB"
        )),
        (_, Some(page)) if !(pages.contains(&page) && page.0.is_power_of_two()) => refuse(format!(
            "--page {page} is not supported: give a power of two from 4KiB to 64KiB"
        )),
        _ => Ok(()),
    }
}

/// Returns the parameters of a space among the options of a volume to be created.
pub(crate) fn create_spec(options: &OptionValues) -> SpaceCreateSpec {
    SpaceCreateSpec {
        size: options.get(&SIZE),
        segment: options.get(&SEGMENT),
        placement: options.get(&PLACEMENT).unwrap_or_default(),
        page: options.get(&PAGE),
        spare: options.get(&SPARE),
    }
}

/// The opened device of a volume to be created.
struct SpaceCreation {
    data: OpenDevice,
    new: SpaceCreateSpec,
}

/// Opens the devices of a volume to be created.
///
/// # Errors
/// If a device cannot be opened or is unsuitable.
pub(super) fn plan(
    spec: &CreateSpec,
    context: OpenContext<'_>,
) -> Result<Box<dyn VolumeCreation>, VolumeError> {
    let (data, new) = (spec.device("data")?, create_spec(&spec.options));
    let data = open_for_space(data, &new, WHAT, context)?;
    Ok(Box::new(SpaceCreation { data, new }))
}

/// Opens a device, and checks that a space fits on it.
///
/// # Errors
/// If it cannot be opened or is unsuitable for `what`.
pub(crate) fn open_for_space(
    data: &DeviceSpec,
    new: &SpaceCreateSpec,
    what: &'static str,
    context: OpenContext<'_>,
) -> Result<OpenDevice, VolumeError> {
    let data = open_one(context, data)?;
    fits_as(&data, new, what)?;
    Ok(data)
}

/// Checks that a log-structured volume fits on a device.
///
/// # Errors
/// If it does not.
pub(crate) fn fits(data: &OpenDevice, new: &SpaceCreateSpec) -> Result<(), VolumeError> {
    fits_as(data, new, WHAT)
}

fn fits_as(
    data: &OpenDevice,
    new: &SpaceCreateSpec,
    what: &'static str,
) -> Result<(), VolumeError> {
    let layout = layout_on(&data.device.geometry(), new);
    layout
        .map(drop)
        .map_err(|error| unfit(&data.spec, what, &error))
}

impl VolumeCreation for SpaceCreation {
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        vec![(&self.data, "data")]
    }

    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>> {
        Box::pin(make_volume(context.rt, &self.data, &self.new, context.id))
    }
}

/// Reports, in words, the bytes of a device that its log-structured space does not use.
pub(crate) fn unused_of(data: &OpenDevice, layout: &SegmentLayout) -> String {
    let segments = SegmentUse {
        device_bytes: data.device.geometry().len,
        count: layout.segment_count.into(),
        segment_bytes: layout.segment_bytes.into(),
        count_max: SEGMENTS_MAX.into(),
    };
    unused(&data.spec, segments)
}

/// Creates a log-structured volume.
///
/// # Errors
/// If the device fails.
pub(crate) async fn make_volume(
    rt: &Rt,
    data: &OpenDevice,
    new: &SpaceCreateSpec,
    id: [u8; 16],
) -> Result<CreateReport, VolumeError> {
    let layout = layout_on(&data.device.geometry(), new);
    let layout = layout.map_err(|error| unfit(&data.spec, WHAT, &error))?;
    let made = make(rt, &data.device, layout, id, new, SpaceLength::Wanted).await;
    let made = made.map_err(|error| cannot_make(&data.spec, WHAT, &error))?;
    let thin = if made.len > made.mappable {
        format!(
            " (thin: holds at most {} of data in extents of 512 bytes, {} in extents of 4KiB)",
            ByteLen(made.mappable),
            ByteLen(made.mappable_in_blocks)
        )
    } else {
        String::new()
    };
    let slow = made.warning();
    Ok(CreateReport {
        volume: VolumeId(id).to_string(),
        tree: space_tree(&SPEC, data),
        summary: format!(
            "{} long{thin}, log-structured on {}, {} segments of {}{}; placement: {}{slow}",
            ByteLen(made.len),
            data.spec,
            made.layout.segment_count,
            ByteLen(made.layout.segment_bytes.into()),
            unused_of(data, &made.layout),
            made.placement.trim_end_matches('.')
        ),
    })
}
