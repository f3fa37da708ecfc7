//! Writes distinguishable data, and checks for it.

use forebay_dcd::DcdVolume;
use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::checked;

/// Writes the stamp of `id`.
pub(crate) async fn try_write(
    volume: &DcdVolume,
    id: u64,
    at: u64,
    len: u64,
) -> Result<(), DeviceError> {
    let buf = BufMut::copy_of(&stamp(id, at, len)).freeze();
    checked(volume).write(at, buf, Durability::Flush).await
}

/// Writes the stamp of `id`, which must succeed.
pub(crate) async fn write(volume: &DcdVolume, id: u64, at: u64, len: u64) {
    try_write(volume, id, at, len).await.expect("write");
}

/// Returns true if `image` has the stamp of `id` at this position.
pub(crate) fn holds(image: &[u8], id: u64, at: u64, len: u64) -> bool {
    image[at as usize..(at + len) as usize] == stamp(id, at, len)
}
