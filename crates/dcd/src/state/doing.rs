//! What destaging is doing, for those who watch it.

use crate::stats::Destaging;

/// What is being done now, and what of it the map does not know of yet.
#[derive(Default)]
pub(crate) struct Doing {
    what: Destaging,
    /// Sectors of marks that are true at home already, and that the map keeps until that is durable.
    carried: u64,
}

impl Doing {
    /// What is being done.
    pub(crate) fn what(&self) -> Destaging {
        self.what
    }

    /// This is what is being done from now on.
    pub(crate) fn now(&mut self, what: Destaging) {
        self.what = what;
    }

    /// A mark of so many sectors is true at home.
    pub(crate) fn carry(&mut self, sectors: u64) {
        self.carried += sectors;
    }

    /// So many of them are so durably, and the map has forgotten them.
    pub(crate) fn settle(&mut self, sectors: u64) {
        self.carried = self.carried.saturating_sub(sectors);
    }

    /// A burst ended. What it carried home and did not settle is done again by the next.
    pub(crate) fn end(&mut self) {
        *self = Doing::default();
    }

    /// How many of the sectors that the map has as marked are still to be carried home. Users may have
    /// marked or overwritten some since, so it is near the truth, and right when nobody does.
    pub(crate) fn left_of(&self, marked: u64) -> u64 {
        marked.saturating_sub(self.carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_carried_home_is_no_longer_left_until_a_burst_breaks_off() {
        let mut doing = Doing::default();
        doing.now(Destaging::Zeroing);
        doing.carry(30);
        doing.carry(20);
        assert_eq!((doing.left_of(100), doing.what()), (50, Destaging::Zeroing));
        // The first window is settled: the map has forgotten what it marked.
        doing.settle(30);
        assert_eq!(doing.left_of(70), 50);
        doing.end();
        assert_eq!((doing.left_of(70), doing.what()), (70, Destaging::Resting));
        doing.carry(80);
        assert_eq!(doing.left_of(70), 0);
    }
}
