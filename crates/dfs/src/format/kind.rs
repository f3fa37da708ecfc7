//! Kinds of files.

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FileKind {
    /// A regular file with data.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link. Its data is its target.
    Symlink,
    /// A character device.
    Character,
    /// A block device.
    Block,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

impl FileKind {
    const ALL: [(FileKind, u8); 7] = [
        (FileKind::Fifo, 1),
        (FileKind::Character, 2),
        (FileKind::Directory, 4),
        (FileKind::Block, 6),
        (FileKind::Regular, 8),
        (FileKind::Symlink, 10),
        (FileKind::Socket, 12),
    ];

    /// Returns the encoded kind: Linux's `DT_…`.
    pub fn code(self) -> u8 {
        let mut all = FileKind::ALL.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or(0, |(_, code)| code)
    }

    /// Decodes a kind.
    pub fn of_code(code: u8) -> Option<FileKind> {
        let mut all = FileKind::ALL.into_iter();
        all.find(|(_, one)| *one == code).map(|(kind, _)| kind)
    }
}
