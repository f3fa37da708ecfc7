//! Which volume a block device is of, as far as the device says.

use std::fs;
use std::path::Path;

use super::loopdev;
use super::nbd::{SYS_BLOCK, backend, connection};
use super::ublk::volume_of;
use crate::volume_file::{directory, file_in};

/// A volume, as a block device may say of itself whose it is.
#[derive(Clone, Copy, Debug)]
pub struct VolumeMarks<'a> {
    /// The name.
    pub name: &'a str,
    /// The id, as for [`super::NbdOptions::volume`], if it is known.
    pub id: Option<&'a str>,
    /// The id in 64 bits, as for [`super::UblkOptions::volume`], if it is known.
    pub number: Option<u64>,
}

/// True if a server of the volume made `device` (`/dev/loop0`), whether or not that server is alive. Where the device does
/// not say whose it is, this is believed.
pub fn is_of_volume(device: &Path, volume: &VolumeMarks<'_>) -> bool {
    let Some(name) = device.file_name().and_then(|name| name.to_str()) else {
        return false;
    };
    let sys = Path::new(SYS_BLOCK);
    if name.starts_with("loop") {
        let file = loopdev::backing_file(name);
        // In whichever runtime directory.
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
    fn devices_that_are_not_there_are_no_volumes() {
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
