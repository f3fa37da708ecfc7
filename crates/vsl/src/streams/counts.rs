//! The streams in use, and their names.

use forebay_placement::placement;

use crate::format::StreamNumber;

/// The streams in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StreamCounts {
    /// Number of streams for clients' writes. They have the numbers from 0 on.
    pub(crate) user: u8,
    /// Number of streams of moved data.
    pub(crate) moved: u8,
    /// Sectors of a page, for a placement that writes in place; otherwise `None`.
    pub(crate) page_in_place: Option<u64>,
}

impl StreamCounts {
    /// Maximum number of streams of a placement, including the stream of checkpoints.
    pub(crate) const MOST: usize = 9;

    /// Returns the streams that a placement needs.
    ///
    /// # Panics
    /// The placement needs more streams than are numbered.
    pub(crate) fn of(needs: placement::PolicyNeeds, page: u64) -> StreamCounts {
        let (user, moved) = (needs.user, needs.moved);
        assert!(StreamNumber(user).is_user() && StreamNumber::moved(moved) <= StreamNumber::META);
        let counts = StreamCounts {
            user,
            moved,
            page_in_place: needs.in_place.then_some(page),
        };
        assert!(usize::from(counts.all()) <= StreamCounts::MOST);
        counts
    }

    /// Returns the placement's name of a stream. Placements have no name for the stream of checkpoints.
    pub(crate) fn named(stream: StreamNumber) -> placement::PlacementStream {
        match stream.0.checked_sub(StreamNumber::moved(0).0) {
            None => placement::PlacementStream::User(stream.0),
            Some(moved) => placement::PlacementStream::Moved(moved),
        }
    }

    /// Returns the number of all streams, including the stream of checkpoints.
    pub(crate) fn all(self) -> u8 {
        self.user + self.moved + 1
    }

    /// Returns the last stream of moved data: the stream of the coldest data, if the placement separates it.
    pub(crate) fn last_moved(self) -> StreamNumber {
        StreamNumber::moved(self.moved - 1)
    }

    /// Returns the index of a stream among the streams in use. A stream that is not in use has the index of the last
    /// stream of its kind.
    pub(crate) fn index(self, stream: StreamNumber) -> u8 {
        match self.nearest(stream) {
            StreamNumber::META => self.user + self.moved,
            stream if stream.is_user() => stream.0,
            stream => self.user + stream.0 - StreamNumber::moved(0).0,
        }
    }

    /// Returns the stream itself if it is in use, otherwise the last stream of its kind that is in use.
    pub(crate) fn nearest(self, stream: StreamNumber) -> StreamNumber {
        match stream {
            StreamNumber::META => stream,
            _ if stream.is_user() => StreamNumber(stream.0.min(self.user - 1)),
            _ => stream.min(self.last_moved()),
        }
    }

    /// Returns true if the stream is in use.
    pub(crate) fn has(self, stream: StreamNumber) -> bool {
        self.nearest(stream) == stream
    }
}
