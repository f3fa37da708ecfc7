//! Kinds of files.

/// What kind of file it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Bytes.
    Regular,
    /// Names.
    Directory,
    /// A symbolic link; its data is where it leads to.
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

    /// The number that stands for it: Linux's `DT_…`.
    pub fn code(self) -> u8 {
        let mut all = Kind::ALL.into_iter();
        all.find(|(kind, _)| *kind == self)
            .map_or(0, |(_, code)| code)
    }

    /// What a number stands for.
    pub fn of_code(code: u8) -> Option<Kind> {
        let mut all = Kind::ALL.into_iter();
        all.find(|(_, one)| *one == code).map(|(kind, _)| kind)
    }
}
