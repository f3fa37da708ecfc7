//! Recognition of a block device: sysfs shows if the device is still the one that a front end made.

use std::fs;
use std::path::{Path, PathBuf};

const SYS_BLOCK: &str = "/sys/block";

/// A block device of this process. Another program can take the device away (`losetup -d`, `nbd-client -d`), and its
/// name can then belong to another device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnBlockDevice {
    node: PathBuf,
    /// A file of sysfs, and its content as long as the device is the original one.
    file: PathBuf,
    text: Option<Vec<u8>>,
}

fn text(file: &Path) -> Option<Vec<u8>> {
    fs::read(file).ok()
}

impl OwnBlockDevice {
    /// Describes a device that was just made. `file` in its sysfs directory contains something that distinguishes it
    /// from others. The content is read back from the kernel, because it can differ from the content that was set (a
    /// path without links).
    pub fn by(node: &Path, file: &str) -> OwnBlockDevice {
        let sys = Path::new(SYS_BLOCK).join(node.file_name().unwrap_or_default());
        let file = sys.join(file);
        OwnBlockDevice {
            node: node.to_owned(),
            text: text(&file),
            file,
        }
    }

    /// Returns the path of the block device as the kernel names it, such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// Returns true if the device was recognised at first and no longer is: an operation on it would affect the device
    /// of another program.
    pub fn is_lost(&self) -> bool {
        self.text.is_some() && !self.is_there()
    }

    /// Returns true if the device still exists and is the original one. Reads `/sys` only, so a thread that serves the
    /// device may call it.
    pub fn is_there(&self) -> bool {
        let now = text(&self.file);
        now.is_some() && now == self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_its_identifying_attribute_is_not_held() {
        let held = OwnBlockDevice::by("/dev/loop4000".as_ref(), "loop/backing_file");
        assert_eq!(held.path(), Path::new("/dev/loop4000"));
        assert!(!held.is_there());
    }
}
