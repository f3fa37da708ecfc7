//! Which streams are in use, and what they are called.

use forebay_placement::placement;

use crate::format::Stream;

/// Which streams are in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Counts {
    /// Streams that users' writes go to: numbers 0 to this.
    pub(crate) user: u8,
    /// Streams of moved data.
    pub(crate) moved: u8,
    /// The page of a placement that writes in place, in sectors; nothing for the others.
    pub(crate) page_in_place: Option<u64>,
}

impl Counts {
    /// The most streams that a placement has, with that of checkpoints.
    pub(crate) const MOST: usize = 9;

    /// The streams that a placement needs.
    ///
    /// # Panics
    /// If it needs more than there are numbers for.
    pub(crate) fn of(needs: placement::Needs, page: u64) -> Counts {
        let (user, moved) = (needs.user, needs.moved);
        assert!(Stream(user).is_user() && Stream::moved(moved) <= Stream::META);
        let counts = Counts {
            user,
            moved,
            page_in_place: needs.in_place.then_some(page),
        };
        assert!(usize::from(counts.all()) <= Counts::MOST);
        counts
    }

    /// What placements call a stream. What checkpoints write, they know nothing of.
    pub(crate) fn named(stream: Stream) -> placement::Stream {
        match stream.0.checked_sub(Stream::moved(0).0) {
            None => placement::Stream::User(stream.0),
            Some(moved) => placement::Stream::Moved(moved),
        }
    }

    /// The number of all streams, with that of checkpoints.
    pub(crate) fn all(self) -> u8 {
        self.user + self.moved + 1
    }

    /// The last stream of moved data: of what is cold, where the placement tells.
    pub(crate) fn last_moved(self) -> Stream {
        Stream::moved(self.moved - 1)
    }

    /// The number of a stream among those in use. One that is not in use has that of the last like it.
    pub(crate) fn index(self, stream: Stream) -> u8 {
        match stream.0.checked_sub(Stream::moved(0).0) {
            _ if stream == Stream::META => self.user + self.moved,
            None => stream.0.min(self.user - 1),
            Some(moved) => self.user + moved.min(self.moved - 1),
        }
    }

    /// True if the stream is in use.
    pub(crate) fn has(self, stream: Stream) -> bool {
        match stream.is_user() {
            true => stream.0 < self.user,
            false => stream == Stream::META || stream <= self.last_moved(),
        }
    }
}
