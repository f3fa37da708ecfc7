//! Flags of a file that users set with `chattr`.

use super::FileKind;

/// Flags of a file that users set (`man 1 chattr`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct FileFlags(u8);

impl FileFlags {
    /// Changes of the file are durable when they are acknowledged; for a directory, also changes of its entries (`S`).
    pub const SYNC: FileFlags = FileFlags(1);
    /// The file does not change, and neither gets nor loses a name (`i`).
    pub const IMMUTABLE: FileFlags = FileFlags(1 << 1);
    /// Data is only added at the end; in a directory, names are only added (`a`).
    pub const APPEND_ONLY: FileFlags = FileFlags(1 << 2);
    /// Backup programs skip the file (`d`).
    pub const NO_DUMP: FileFlags = FileFlags(1 << 3);
    /// Reads do not update the access time (`A`).
    pub const NO_ACCESS_TIME: FileFlags = FileFlags(1 << 4);
    /// Changes of the directory's entries are durable when they are acknowledged (`D`).
    pub const SYNC_NAMES: FileFlags = FileFlags(1 << 5);

    /// The protecting flags: [`FileFlags::IMMUTABLE`] and [`FileFlags::APPEND_ONLY`].
    pub const PROTECT: FileFlags = FileFlags::IMMUTABLE.with(FileFlags::APPEND_ONLY);

    const ALL: u8 = (1 << 6) - 1;
    const LETTERS: [(FileFlags, char); 6] = [
        (FileFlags::SYNC, 'S'),
        (FileFlags::SYNC_NAMES, 'D'),
        (FileFlags::IMMUTABLE, 'i'),
        (FileFlags::APPEND_ONLY, 'a'),
        (FileFlags::NO_DUMP, 'd'),
        (FileFlags::NO_ACCESS_TIME, 'A'),
    ];

    /// Returns the encoded flags.
    pub fn bits(self) -> u8 {
        self.0
    }

    /// Decodes flags. Returns `None` if a flag is unknown.
    pub fn of_bits(bits: u8) -> Option<FileFlags> {
        (bits & !FileFlags::ALL == 0).then_some(FileFlags(bits))
    }

    /// Returns true if one of `flags` is set.
    pub fn has(self, flags: FileFlags) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns the union of two sets of flags.
    #[must_use]
    pub const fn with(self, flags: FileFlags) -> FileFlags {
        FileFlags(self.0 | flags.0)
    }

    /// Returns the subset of these flags that a file of this kind can have.
    #[must_use]
    pub fn of_kind(self, kind: FileKind) -> FileFlags {
        let possible = match kind {
            FileKind::Directory => FileFlags::ALL,
            FileKind::Regular => FileFlags::ALL & !FileFlags::SYNC_NAMES.0,
            _ => FileFlags::NO_DUMP.0 | FileFlags::NO_ACCESS_TIME.0,
        };
        FileFlags(self.0 & possible)
    }

    /// Returns the flags that a new file of this kind inherits from a directory with these flags: all but the
    /// protecting flags.
    #[must_use]
    pub fn inherited(self, kind: FileKind) -> FileFlags {
        FileFlags(self.0 & !FileFlags::PROTECT.0).of_kind(kind)
    }

    /// Returns the letters of `chattr`.
    pub fn letters(self) -> String {
        let all = FileFlags::LETTERS.into_iter();
        let set = all.filter(|(flag, _)| self.has(*flag));
        set.map(|(_, letter)| letter).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_file_keeps_its_flags_and_new_files_inherit_only_unprotecting_flags() {
        let all = FileFlags::of_bits(FileFlags::ALL).expect("all are known");
        assert_eq!(all.letters(), "SDiadA");
        assert_eq!(FileFlags::of_bits(1 << 6), None);
        assert_eq!(all.of_kind(FileKind::Directory), all);
        assert_eq!(all.of_kind(FileKind::Regular).letters(), "SiadA");
        assert_eq!(all.of_kind(FileKind::Symlink).letters(), "dA");
        assert_eq!(all.inherited(FileKind::Directory).letters(), "SDdA");
        assert_eq!(all.inherited(FileKind::Regular).letters(), "SdA");
        assert_eq!(all.inherited(FileKind::Fifo).letters(), "dA");
    }
}
