//! How far it is with what a failed log held, and with keeping the log from being believed later.

/// How far it is with what a log held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Stage {
    /// The log works.
    #[default]
    NotNeeded,
    /// What only the log or its buffer holds is being taken home, or the log is being marked as given up.
    UnderWay,
    /// All that was not lost is home, and no later attach will believe the log.
    Done,
}

/// What became of a log that failed.
#[derive(Default)]
pub(crate) struct Rescue {
    stage: Stage,
    /// The log could not be told that what it holds no longer counts, and would be believed.
    stale_log: bool,
    /// An administrator answers for it that the log is not attached again.
    forsaken: bool,
    /// A witness, or an administrator, knows that the log was given up.
    witnessed: bool,
}

impl Rescue {
    /// The log has failed.
    pub(crate) fn begin(&mut self) {
        self.stage = Stage::UnderWay;
    }

    /// All is home, and the log is out of the game.
    pub(crate) fn finish(&mut self) {
        self.stage = Stage::Done;
    }

    /// True from the log's failure on, until nothing rests on it any more.
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage == Stage::UnderWay
    }

    /// True once nothing rests on the failed log any more.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// It was tried to write to the log what a later attach must know of it.
    pub(crate) fn marked(&mut self, succeeded: bool) {
        self.stale_log = !succeeded;
    }

    /// True if the log would be believed by a later attach, and must not be.
    pub(crate) fn has_stale_log(&self) -> bool {
        self.stale_log
    }

    /// Whether an administrator answers for it that the log is not attached again.
    pub(crate) fn forsake(&mut self, forsaken: bool) {
        self.forsaken = forsaken;
    }

    /// A witness was asked to remember that the log was given up, and did or did not. True if somebody
    /// knows now, be it the administrator.
    pub(crate) fn asked_witness(&mut self, remembers: bool) -> bool {
        self.witnessed = remembers || self.forsaken;
        self.witnessed
    }

    /// True if somebody knows that the log was given up.
    pub(crate) fn is_witnessed(&self) -> bool {
        self.witnessed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescue_is_under_way_until_it_is_over() {
        let mut rescue = Rescue::default();
        assert!(!rescue.is_under_way() && !rescue.is_done());
        rescue.begin();
        assert!(rescue.is_under_way() && !rescue.is_done());
        rescue.finish();
        assert!(!rescue.is_under_way() && rescue.is_done());
    }

    #[test]
    fn a_witness_or_an_administrator_will_do_and_a_log_is_stale_until_it_is_marked() {
        let mut rescue = Rescue::default();
        assert!(!rescue.asked_witness(false) && !rescue.is_witnessed());
        rescue.forsake(true);
        assert!(rescue.asked_witness(false) && rescue.is_witnessed());
        rescue.forsake(false);
        assert!(rescue.asked_witness(true));
        rescue.marked(false);
        assert!(rescue.has_stale_log());
        rescue.marked(true);
        assert!(!rescue.has_stale_log());
    }
}
