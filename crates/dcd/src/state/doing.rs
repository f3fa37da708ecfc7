//! Current activity of destaging, for the status.

use crate::stats::DestageActivity;

/// Current activity, and progress that the map does not contain yet.
#[derive(Default)]
pub(crate) struct DestageProgress {
    what: DestageActivity,
    /// Sectors of marks that were carried out, but stay in the map until this is durable.
    carried: u64,
}

impl DestageProgress {
    /// Returns the current activity.
    pub(crate) fn what(&self) -> DestageActivity {
        self.what
    }

    /// Sets the current activity.
    pub(crate) fn now(&mut self, what: DestageActivity) {
        self.what = what;
    }

    /// Counts the sectors of a mark that was carried out.
    pub(crate) fn carry(&mut self, sectors: u64) {
        self.carried += sectors;
    }

    /// Subtracts sectors that are durable on the data device, since the map has forgotten them.
    pub(crate) fn settle(&mut self, sectors: u64) {
        self.carried = self.carried.saturating_sub(sectors);
    }

    /// Ends a burst. The next burst repeats marks that this burst carried out but did not make durable.
    pub(crate) fn end(&mut self) {
        *self = DestageProgress::default();
    }

    /// Returns how many of the `marked` sectors of the map still have to be carried out. The result is an estimate
    /// while clients mark or overwrite sectors, and exact otherwise.
    pub(crate) fn left_of(&self, marked: u64) -> u64 {
        marked.saturating_sub(self.carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destaged_bytes_are_subtracted_from_the_remaining_bytes_until_the_burst_ends() {
        let mut doing = DestageProgress::default();
        doing.now(DestageActivity::Zeroing);
        doing.carry(30);
        doing.carry(20);
        assert_eq!(
            (doing.left_of(100), doing.what()),
            (50, DestageActivity::Zeroing)
        );
        // The first window is settled: the map has forgotten its marks.
        doing.settle(30);
        assert_eq!(doing.left_of(70), 50);
        doing.end();
        assert_eq!(
            (doing.left_of(70), doing.what()),
            (70, DestageActivity::Resting)
        );
        doing.carry(80);
        assert_eq!(doing.left_of(70), 0);
    }
}
