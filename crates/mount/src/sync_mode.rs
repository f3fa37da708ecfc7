//! Durability of a change when it is answered.
//!
//! The kernel sends FSYNC after a write through the page cache, but not after a direct write. For a direct write, only
//! the flags in the request tell the durability: those of the open file (`O_DSYNC`, `O_SYNC`), to which the kernel adds
//! those of the call (`RWF_DSYNC`, `RWF_SYNC`) and of the mount.

/// Durability of a file's change when it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncMode {
    /// Nothing must be durable.
    Nothing,
    /// The data, and the metadata needed to read it.
    Data,
    /// The data and all attributes of the file.
    File,
}

impl SyncMode {
    /// Returns the durability that the flags of an open file, or of a write, request.
    pub(crate) fn of_flags(flags: u32) -> SyncMode {
        let has = |wanted: i32| flags & wanted.cast_unsigned() == wanted.cast_unsigned();
        // O_SYNC consists of the bit of O_DSYNC and another bit.
        match (has(libc::O_SYNC), has(libc::O_DSYNC)) {
            (true, _) => SyncMode::File,
            (false, true) => SyncMode::Data,
            (false, false) => SyncMode::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_flags_map_to_the_sync_modes_of_the_manual() {
        let of = |flags: i32| SyncMode::of_flags(flags.cast_unsigned());
        assert_eq!(of(libc::O_RDWR | libc::O_DIRECT), SyncMode::Nothing);
        assert_eq!(of(libc::O_WRONLY | libc::O_DSYNC), SyncMode::Data);
        assert_eq!(
            of(libc::O_RDWR | libc::O_SYNC | libc::O_DIRECT),
            SyncMode::File
        );
    }
}
