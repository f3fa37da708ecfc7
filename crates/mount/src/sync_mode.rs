//! What must be durable when a change of a file is answered.
//!
//! The kernel sends FSYNC behind a write through the page cache, but not behind a direct write. There the flags in the
//! request are all that says so: those of the open file (`O_DSYNC`, `O_SYNC`), with those of the call (`RWF_DSYNC`,
//! `RWF_SYNC`) and of the mount added by the kernel.

/// What must be durable when a change of a file is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncMode {
    /// Nothing.
    Nothing,
    /// The data, and what is needed to read it.
    Data,
    /// The data and all that is known of the file.
    File,
}

impl SyncMode {
    /// What the flags of an open file, or of a write, ask for.
    pub(crate) fn of_flags(flags: u32) -> SyncMode {
        let has = |wanted: i32| flags & wanted.cast_unsigned() == wanted.cast_unsigned();
        // O_SYNC has the bit of O_DSYNC and one more.
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
    fn each_flag_asks_for_what_the_manual_says() {
        let of = |flags: i32| SyncMode::of_flags(flags.cast_unsigned());
        assert_eq!(of(libc::O_RDWR | libc::O_DIRECT), SyncMode::Nothing);
        assert_eq!(of(libc::O_WRONLY | libc::O_DSYNC), SyncMode::Data);
        assert_eq!(
            of(libc::O_RDWR | libc::O_SYNC | libc::O_DIRECT),
            SyncMode::File
        );
    }
}
