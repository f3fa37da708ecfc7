//! Progress of the rescue from a failed log, and of preventing a later attach from using this log.

/// Progress of the rescue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum RescueStage {
    /// The log works.
    #[default]
    NotNeeded,
    /// The data that only the log or its buffer holds is being written to the data device, or the log is being marked
    /// as abandoned.
    UnderWay,
    /// All data that is not lost is on the data device, and no later attach will use the log.
    Done,
}

/// State of the rescue from a failed log.
#[derive(Default)]
pub(crate) struct RescueState {
    stage: RescueStage,
    /// True if the log could not be marked as abandoned, so that a later attach would use it.
    stale_log: bool,
    /// True if an administrator guarantees that the log is not attached again.
    forsaken: bool,
    /// True if a failed-log record exists, or an administrator guarantees that the log is not attached again.
    witnessed: bool,
}

impl RescueState {
    /// Begins the rescue, since the log has failed.
    pub(crate) fn begin(&mut self) {
        self.stage = RescueStage::UnderWay;
    }

    /// Ends the rescue: all data is on the data device, and no later attach will use the log.
    pub(crate) fn finish(&mut self) {
        self.stage = RescueStage::Done;
    }

    /// Returns true from the log's failure until no data depends on the log any more.
    pub(crate) fn is_under_way(&self) -> bool {
        self.stage == RescueStage::UnderWay
    }

    /// Returns true once no data depends on the failed log any more.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == RescueStage::Done
    }

    /// Records the result of an attempt to mark the log as abandoned.
    pub(crate) fn marked(&mut self, succeeded: bool) {
        self.stale_log = !succeeded;
    }

    /// Returns true if a later attach would use the log although it must not.
    pub(crate) fn has_stale_log(&self) -> bool {
        self.stale_log
    }

    /// Records whether an administrator guarantees that the log is not attached again.
    pub(crate) fn forsake(&mut self, forsaken: bool) {
        self.forsaken = forsaken;
    }

    /// Records the result of storing a failed-log record. Returns true if the record exists, or if an administrator's
    /// guarantee replaces it.
    pub(crate) fn asked_witness(&mut self, remembers: bool) -> bool {
        self.witnessed = remembers || self.forsaken;
        self.witnessed
    }

    /// Returns true if a failed-log record exists, or an administrator guarantees that the log is not attached again.
    pub(crate) fn is_witnessed(&self) -> bool {
        self.witnessed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rescue_is_in_progress_from_its_begin_to_its_finish() {
        let mut rescue = RescueState::default();
        assert!(!rescue.is_under_way() && !rescue.is_done());
        rescue.begin();
        assert!(rescue.is_under_way() && !rescue.is_done());
        rescue.finish();
        assert!(!rescue.is_under_way() && rescue.is_done());
    }

    #[test]
    fn a_failed_log_record_or_a_command_is_enough_and_a_log_is_stale_until_marked() {
        let mut rescue = RescueState::default();
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
