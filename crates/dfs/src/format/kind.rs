//! Kinds of files.

/// The kind of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
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

impl Kind {
    const ALL: [(Kind, u8); 7] = [
        (Kind::Fifo, 1),
        (Kind::Character, 2),
        (Kind::Directory, 4),
        (Kind::Block, 6),
        (Kind::Regular, 8),
        (Kind::Symlink, 10),
        (Kind::Socket, 12),
    ];

    /// Returns the encoded kind: Linux's `DT_…`.
    pub fn code(self) -> u8 {
        let mut all = Kind::ALL.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or(0, |(_, code)| code)
    }

    /// Decodes a kind.
    pub fn of_code(code: u8) -> Option<Kind> {
        let mut all = Kind::ALL.into_iter();
        all.find(|(_, one)| *one == code).map(|(kind, _)| kind)
    }
}
