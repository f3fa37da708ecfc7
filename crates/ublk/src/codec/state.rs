//! The state of each tag of a queue.
//!
//! A tag is a place for one request. It goes through a cycle: it is *offered* to the kernel, for its first request or
//! with the answer to the last, comes back with a request and is *under way*, and is offered again. The cycle ends when
//! the device is stopped: the kernel takes the tags back (*gone*).
//!
//! The cycle also ends when the server *withholds* its answers, to leave the device to another server. The kernel sends
//! all requests without an answer to the next server. So errors are no longer answered, because the end of this server
//! may be their only cause, and new requests are not begun. Successes are still answered: a request sent again would be
//! executed twice.
//!
//! Invariants: a tag is offered only while the kernel does not have it, and answered once for each request. The counts
//! agree with the states of the tags. A step that breaks an invariant is a mistake of the caller, and panics.

/// State of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TagState {
    /// Not offered yet.
    New,
    /// The kernel has the tag.
    Offered,
    /// The tag's request is being executed.
    UnderWay,
    /// The tag's request is left to another server.
    Withheld,
    /// The kernel took it back.
    Gone,
}

/// Handling of a new request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrivalAction {
    /// Execute the request.
    Serve,
    /// Leave the request to the next server.
    Withhold,
}

/// Handling of a request that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AnswerAction {
    /// Send this answer: bytes, or a negative error number.
    Commit(i32),
    /// Send no answer.
    Withhold,
}

/// The tags of a queue.
#[derive(Debug)]
pub struct TagQueue {
    tags: Vec<TagState>,
    under_way: usize,
    gone: usize,
    withholds: bool,
}

impl TagQueue {
    /// Creates a queue of `depth` new tags.
    pub fn new(depth: u16) -> TagQueue {
        TagQueue {
            tags: vec![TagState::New; usize::from(depth)],
            under_way: 0,
            gone: 0,
            withholds: false,
        }
    }

    fn step(&mut self, tag: u16, from: &[TagState], to: TagState) {
        let at = &mut self.tags[usize::from(tag)];
        assert!(from.contains(at), "tag {tag} becomes {to:?} and is {at:?}");
        *at = to;
    }

    /// Records that a tag is being offered.
    pub fn offer(&mut self, tag: u16) {
        let answered = self.tags[usize::from(tag)] == TagState::UnderWay;
        self.step(tag, &[TagState::New, TagState::UnderWay], TagState::Offered);
        self.under_way -= usize::from(answered);
    }

    /// Records that a tag came back with a request, and returns its handling.
    pub fn arrive(&mut self, tag: u16) -> ArrivalAction {
        if self.withholds {
            self.step(tag, &[TagState::Offered], TagState::Withheld);
            return ArrivalAction::Withhold;
        }
        self.step(tag, &[TagState::Offered], TagState::UnderWay);
        self.under_way += 1;
        ArrivalAction::Serve
    }

    /// Records the end of a tag's request. If the result is to be answered, the caller must offer the tag with this
    /// answer.
    pub fn end(&mut self, tag: u16, result: Result<i32, i32>) -> AnswerAction {
        match result {
            Err(_) if self.withholds => {
                self.step(tag, &[TagState::UnderWay], TagState::Withheld);
                self.under_way -= 1;
                AnswerAction::Withhold
            }
            Ok(bytes) => AnswerAction::Commit(bytes),
            Err(errno) => AnswerAction::Commit(-errno),
        }
    }

    /// Records that the kernel took a tag back.
    pub fn lose(&mut self, tag: u16) {
        self.step(tag, &[TagState::Offered], TagState::Gone);
        self.gone += 1;
    }

    /// Withholds all further errors and new requests: this server ends, and another will follow.
    pub fn withhold(&mut self) {
        self.withholds = true;
    }

    /// Returns true if answers are withheld.
    pub fn withholds(&self) -> bool {
        self.withholds
    }

    /// Returns true if no request is being executed.
    pub fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Returns true if a tag was taken back or refused. The driver takes back either all tags or none.
    pub fn is_stopped(&self) -> bool {
        self.gone > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a queue whose tags are all offered.
    fn offered(depth: u16) -> TagQueue {
        let mut queue = TagQueue::new(depth);
        (0..depth).for_each(|tag| queue.offer(tag));
        queue
    }

    #[test]
    fn a_tag_is_reusable_and_its_request_is_in_flight_until_answered() {
        let mut queue = offered(2);
        assert!(queue.is_idle());
        for _ in 0..3 {
            assert_eq!(queue.arrive(1), ArrivalAction::Serve);
            assert_eq!(queue.arrive(0), ArrivalAction::Serve);
            assert_eq!(queue.end(1, Ok(4096)), AnswerAction::Commit(4096));
            assert!(!queue.is_idle());
            queue.offer(1);
            assert_eq!(queue.end(0, Err(5)), AnswerAction::Commit(-5));
            queue.offer(0);
            assert!(queue.is_idle() && !queue.is_stopped());
        }
    }

    #[test]
    fn a_withholding_queue_starts_no_request_and_answers_only_successes() {
        let mut queue = offered(3);
        queue.arrive(0);
        queue.arrive(1);
        queue.withhold();
        assert!(!queue.is_idle());
        assert_eq!(queue.end(0, Ok(512)), AnswerAction::Commit(512));
        queue.offer(0);
        assert_eq!(queue.end(1, Err(5)), AnswerAction::Withhold);
        assert!(queue.is_idle());
        // The answered tag brings another request, and so may a free tag.
        assert_eq!(queue.arrive(0), ArrivalAction::Withhold);
        assert_eq!(queue.arrive(2), ArrivalAction::Withhold);
        assert!(queue.is_idle() && !queue.is_stopped());
    }

    #[test]
    fn a_stopped_queue_gets_free_and_answered_tags_back() {
        let mut queue = offered(2);
        queue.arrive(0);
        queue.lose(1);
        assert!(queue.is_stopped() && !queue.is_idle());
        queue.end(0, Ok(0));
        queue.offer(0);
        queue.lose(0);
        assert!(queue.is_idle());
    }

    #[test]
    fn tag_operations_that_the_driver_would_refuse_panic() {
        let mistakes: [fn(&mut TagQueue); 5] = [
            // A tag is offered twice.
            |queue| queue.offer(0),
            // A tag is answered without a request.
            |queue| {
                queue.withhold();
                queue.end(0, Err(5));
            },
            // A tag has two requests at once.
            |queue| {
                queue.arrive(0);
                queue.arrive(0);
            },
            // A tag is offered after it was taken back, and after its request was left to another server.
            |queue| {
                queue.lose(0);
                queue.offer(0);
            },
            |queue| {
                queue.withhold();
                queue.arrive(0);
                queue.offer(0);
            },
        ];
        for (number, mistake) in mistakes.into_iter().enumerate() {
            let mut queue = offered(1);
            let made = std::panic::AssertUnwindSafe(|| mistake(&mut queue));
            assert!(std::panic::catch_unwind(made).is_err(), "{number}");
        }
    }
}
