//! Which streams there are, and what they are called.

use forebay_placement::placement;

use crate::format::Stream;

/// Which streams there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Streams that users' writes go to: numbers 0 to this.
    pub(crate) user: u8,
    /// Streams of moved data, behind those.
    pub(crate) moved: u8,
    /// The page of a placement that writes in place, in sectors; nothing for the others.
    pub(crate) page_in_place: Option<u64>,
}

impl Counts {
    /// The stream that checkpoints write to, behind all others.
    pub(crate) fn meta(self) -> Stream {
        Stream(self.user + self.moved)
    }

    /// What placements call a stream. What checkpoints write, they know nothing of.
    pub(crate) fn named(self, stream: Stream) -> placement::Stream {
        match stream.0.checked_sub(self.user) {
            None => placement::Stream::User(stream.0),
            Some(moved) => placement::Stream::Moved(moved),
        }
    }

    /// All streams.
    pub(crate) fn all(self) -> u8 {
        self.user + self.moved + 1
    }
}
