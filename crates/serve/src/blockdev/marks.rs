//! The volume of a block device, as far as the device shows it.

use std::fs;
use std::path::Path;

use super::loopdev;
use super::nbd::{SYS_BLOCK, backend, connection};
use super::ublk::volume_of;
use crate::volume_file::{directory, file_in};

/// The identification of a volume in the kernel's data on a block device.
#[derive(Clone, Copy, Debug)]
pub struct VolumeMarks<'a> {
    /// Name of the volume.
    pub name: &'a str,
    /// Id of the volume, as for [`super::NbdOptions::volume`], if known.
    pub id: Option<&'a str>,
    /// Id of the volume in 64 bits, as for [`super::UblkOptions::volume`], if known.
    pub number: Option<u64>,
}

/// Returns true if a server of the volume made `device` (`/dev/loop0`), even if this server has ended. Also returns
/// true if the device does not show its volume.
pub fn is_of_volume(device: &Path, volume: &VolumeMarks<'_>) -> bool {
    let Some(name) = device.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let sys = Path::new(SYS_BLOCK);
    if name.starts_with("loop") {
        let file = loopdev::backing_file(name);
        // The runtime directory does not matter.
        return file
            .is_some_and(|file| file.ends_with(file_in(&directory(Path::new(""), volume.name))));
    }
    if name.starts_with("nbd") {
        return match fs::read_to_string(sys.join(name).join("backend")) {
            Ok(found) => volume.id.is_none_or(|id| found.trim_end() == backend(id)),
            Err(_) => connection(sys, name).is_some(),
        };
    }
    let Some(number) = name.strip_prefix("ublkb").and_then(|n| n.parse().ok()) else {
        return false;
    };
    sys.join(name).exists()
        && match (volume_of(number), volume.number) {
            (Some(found), Some(number)) => found == number,
            _ => true,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_devices_do_not_belong_to_a_volume() {
        let volume = VolumeMarks {
            name: "v",
            id: None,
            number: None,
        };
        for device in [
            "/dev/loop4000",
            "/dev/nbd4000",
            "/dev/ublkb4000",
            "/dev/sda",
            "/",
        ] {
            assert!(!is_of_volume(device.as_ref(), &volume), "{device}");
        }
    }
}
