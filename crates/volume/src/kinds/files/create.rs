//! Creates a filesystem, and the space below it.

use std::rc::Rc;

use forebay_dfs::{FsGeometry, FsSpec};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{SegmentLayout, SpaceSettings, VolumeId, open};

use super::options::{LARGEST_FILE, SMALL_FILE};
use super::spec::SPEC;
use crate::create_spec::{CreateReport, CreateSpec, cannot_make, unfit};
use crate::error::VolumeError;
use crate::kind::{CreateContext, VolumeCreation};
use crate::kinds::space::{
    self, CreatedSpace, SpaceCreateSpec, SpaceLength, create_spec, layout_on, open_for_space,
    space_tree, unused_of,
};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice};
use crate::options::OptionValues;

/// Role of a device that is unsuitable, in sentences.
const WHAT: &str = "a filesystem";

/// Returns the division of the space of a filesystem with these options.
///
/// # Errors
/// The reason why such a filesystem is not possible.
pub(super) fn geometry(options: &OptionValues) -> Result<FsGeometry, String> {
    let usual = FsGeometry::default();
    let slot = options
        .get(&SMALL_FILE)
        .map_or(usual.slot_bytes(), |size| size.0);
    let chunk = options
        .get(&LARGEST_FILE)
        .map_or(usual.size_max(), |size| size.0);
    let geometry = FsGeometry {
        chunk_bits: (chunk / SECTOR_BYTES).checked_ilog2().unwrap_or(0) as u8,
        slot_sectors: u32::try_from(slot / SECTOR_BYTES).unwrap_or(u32::MAX),
    };
    let is_exact = chunk.is_power_of_two() && slot.is_multiple_of(SECTOR_BYTES);
    if is_exact && geometry.is_possible() {
        Ok(geometry)
    } else {
        Err(format!(
            "--small-file {} with --largest-file {} is not supported: give powers of two, 4KiB to 1MiB and 512MiB to \
             512TiB",
            ByteLen(slot),
            ByteLen(chunk)
        ))
    }
}

/// The opened device of a filesystem to be created.
struct FilesCreation {
    data: OpenDevice,
    new: SpaceCreateSpec,
    geometry: FsGeometry,
    owner: (u32, u32),
    hash_key: [u8; 16],
}

/// Opens the device of a filesystem to be created.
///
/// # Errors
/// If the device cannot be opened or is unsuitable.
pub(super) fn plan(
    spec: &CreateSpec,
    context: OpenContext<'_>,
) -> Result<Box<dyn VolumeCreation>, VolumeError> {
    let new = create_spec(&spec.options);
    Ok(Box::new(FilesCreation {
        data: open_for_space(spec.device("data")?, &new, WHAT, context)?,
        new,
        geometry: geometry(&spec.options).map_err(VolumeError::Usage)?,
        owner: spec.owner,
        hash_key: spec.hash_key,
    }))
}

impl VolumeCreation for FilesCreation {
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        vec![(&self.data, "data")]
    }

    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>> {
        Box::pin(async move {
            let data = &self.data;
            let layout = layout_on(&data.device.geometry(), &self.new);
            let layout = layout.map_err(|error| unfit(&data.spec, WHAT, &error))?;
            let made = make(self, layout, context).await;
            let made = made.map_err(|error| cannot_make(&data.spec, WHAT, &error))?;
            Ok(CreateReport {
                volume: VolumeId(context.id).to_string(),
                tree: space_tree(&SPEC, data),
                summary: format!(
                    "a filesystem on {} with a capacity of {}, files of up to {}, {} segments of {}{}; placement: {}",
                    data.spec,
                    ByteLen(made.mappable_in_blocks),
                    ByteLen(self.geometry.size_max()),
                    made.layout.segment_count,
                    ByteLen(made.layout.segment_bytes.into()),
                    unused_of(data, &made.layout),
                    made.placement.trim_end_matches('.')
                ),
            })
        })
    }
}

/// Creates an empty filesystem on a new space.
///
/// # Errors
/// If the device fails, or is too small.
async fn make(
    creation: &FilesCreation,
    layout: SegmentLayout,
    context: CreateContext<'_>,
) -> Result<CreatedSpace, String> {
    let (rt, device, id) = (context.rt, &creation.data.device, context.id);
    let (geometry, new) = (creation.geometry, &creation.new);
    let long = SpaceLength::Sectors(geometry.space_sectors());
    let made = space::make(rt, device, layout, id, new, long).await;
    let made = made.map_err(|error| error.to_string())?;
    let opened = open(
        rt.clone(),
        Rc::clone(device),
        SpaceSettings::default(),
        false,
    )
    .await;
    let (space, _workers, _) = opened.map_err(|error| error.to_string())?;
    let making = FsSpec {
        volume: VolumeId(id),
        geometry,
        hash_key: creation.hash_key,
        owner: creation.owner,
        permissions: 0o755,
    };
    let created = forebay_dfs::create(&space, &making, context.clock).await;
    created.map_err(|error| error.to_string())?;
    let kept = space.checkpoint().await;
    kept.map_err(|error| error.to_string())?;
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_size_limits_are_powers_of_two_within_bounds() {
        let wanted = |small: &str, largest: &str| {
            let options = OptionValues::default();
            let options = options.or_set(&SMALL_FILE, small);
            geometry(&options.or_set(&LARGEST_FILE, largest))
        };
        let usual = geometry(&OptionValues::default());
        assert_eq!(usual, Ok(FsGeometry::default()));
        let other = wanted("64KiB", "1GiB").unwrap();
        assert_eq!((other.slot_bytes(), other.size_max()), (64 << 10, 1 << 30));
        for (small, largest) in [
            ("3KiB", "1GiB"),
            ("1000", "1GiB"),
            ("2MiB", "1GiB"),
            ("32KiB", "1MiB"),
            ("32KiB", "3GiB"),
            ("32KiB", "0"),
        ] {
            let error = wanted(small, largest).unwrap_err();
            assert!(error.contains("--small-file"), "{error}");
        }
    }
}
