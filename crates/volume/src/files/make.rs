//! Creates a filesystem, and the space below it.

use std::rc::Rc;

use forebay_device::Device;
use forebay_dfs::{FsClock, FsGeometry, FsSpec};
use forebay_rt::Rt;
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{SegmentLayout, SpaceSettings, VolumeId, open};

use crate::space::{self, CreatedSpace, SpaceCreateSpec, SpaceLength};

/// Parameters of a filesystem to be created.
#[derive(Clone, Debug, Default)]
pub struct FilesystemCreateSpec {
    /// Largest size of files that share a part of the space.
    pub small_file: Option<ByteLen>,
    /// Maximum size of a file: a power of two. A larger maximum allows fewer files.
    pub largest_file: Option<ByteLen>,
    /// Owner of the root directory: user and group.
    pub owner: (u32, u32),
    /// A secret, unguessable key for hashing names.
    pub hash_key: [u8; 16],
}

impl FilesystemCreateSpec {
    /// Returns the division of the space.
    ///
    /// # Errors
    /// The reason why such a filesystem is not possible.
    pub(crate) fn geometry(&self) -> Result<FsGeometry, String> {
        let usual = FsGeometry::default();
        let slot = self.small_file.map_or(usual.slot_bytes(), |size| size.0);
        let chunk = self.largest_file.map_or(usual.size_max(), |size| size.0);
        let geometry = FsGeometry {
            chunk_bits: (chunk / SECTOR_BYTES).checked_ilog2().unwrap_or(0) as u8,
            slot_sectors: u32::try_from(slot / SECTOR_BYTES).unwrap_or(u32::MAX),
        };
        let is_exact = chunk.is_power_of_two() && slot.is_multiple_of(SECTOR_BYTES);
        if is_exact && geometry.is_possible() {
            Ok(geometry)
        } else {
            Err(format!(
                "--small-file {} with --largest-file {} is not supported: give powers of two, 4KiB to 1MiB and \
                 512MiB to 512TiB",
                ByteLen(slot),
                ByteLen(chunk)
            ))
        }
    }
}

/// Creates an empty filesystem on a new space.
///
/// # Errors
/// If the device fails, or is too small.
pub(crate) async fn make(
    rt: &Rt,
    device: &Rc<dyn Device>,
    layout: SegmentLayout,
    id: [u8; 16],
    (new, wanted, clock): (&SpaceCreateSpec, &FilesystemCreateSpec, &FsClock),
) -> Result<(CreatedSpace, FsGeometry), String> {
    let geometry = wanted.geometry()?;
    let long = SpaceLength::Sectors(geometry.space_sectors());
    let made = space::make(rt, device, layout, id, (new, long)).await;
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
        hash_key: wanted.hash_key,
        owner: wanted.owner,
        permissions: 0o755,
    };
    let created = forebay_dfs::create(&space, &making, clock).await;
    created.map_err(|error| error.to_string())?;
    let kept = space.checkpoint().await;
    kept.map_err(|error| error.to_string())?;
    Ok((made, geometry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_size_limits_are_powers_of_two_within_bounds() {
        let wanted = |small: Option<ByteLen>, largest: Option<ByteLen>| FilesystemCreateSpec {
            small_file: small,
            largest_file: largest,
            ..FilesystemCreateSpec::default()
        };
        let usual = wanted(None, None).geometry();
        assert_eq!(usual, Ok(FsGeometry::default()));
        let other = wanted(Some(ByteLen::kib(64)), Some(ByteLen::gib(1))).geometry();
        let other = other.unwrap();
        assert_eq!((other.slot_bytes(), other.size_max()), (64 << 10, 1 << 30));
        for (small, largest) in [
            (ByteLen::kib(3), ByteLen::gib(1)),
            (ByteLen(1000), ByteLen::gib(1)),
            (ByteLen::mib(2), ByteLen::gib(1)),
            (ByteLen::kib(32), ByteLen::mib(1)),
            (ByteLen::kib(32), ByteLen::gib(3)),
            (ByteLen::kib(32), ByteLen(0)),
        ] {
            let error = wanted(Some(small), Some(largest)).geometry().unwrap_err();
            assert!(error.contains("--small-file"), "{error}");
        }
    }
}
