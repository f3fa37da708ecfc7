//! Whether a block device is still the one that a front end made, by what the kernel shows of it.

use std::fs;
use std::path::{Path, PathBuf};

const SYS_BLOCK: &str = "/sys/block";

/// A block device of this process. Other programs can take it away (`losetup -d`, `nbd-client -d`), and its name is
/// another's then.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    node: PathBuf,
    /// A file of sysfs, and what is in it for as long as the device is this one.
    file: PathBuf,
    text: Option<Vec<u8>>,
}

fn text(file: &Path) -> Option<Vec<u8>> {
    fs::read(file).ok()
}

impl Held {
    /// A device that was just made, with something in `file` of its directory that distinguishes it from others: by what
    /// the kernel shows, which may be other than what it was told (a path without links).
    pub(super) fn by(node: &Path, file: &str) -> Held {
        let sys = Path::new(SYS_BLOCK).join(node.file_name().unwrap_or_default());
        let file = sys.join(file);
        Held {
            node: node.to_owned(),
            text: text(&file),
            file,
        }
    }

    /// The block device as the kernel names it, `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// True if the device was seen as this one, and is not any more: what is done to it now would be done to another's.
    pub(super) fn is_lost(&self) -> bool {
        self.text.is_some() && !self.is_there()
    }

    /// True if the device is still there and this one. Looks in `/sys` only, so it may be asked while serving.
    pub fn is_there(&self) -> bool {
        let now = text(&self.file);
        now.is_some() && now == self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_what_distinguishes_it_is_not_held() {
        let held = Held::by("/dev/loop4000".as_ref(), "loop/backing_file");
        assert_eq!(held.path(), Path::new("/dev/loop4000"));
        assert!(!held.is_there());
    }
}
