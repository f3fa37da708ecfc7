//! The budget for dividing pages into hot and cold.
//!
//! The model may expect that a division pays while it does not: the pages that become hot leave holes between cold
//! pages, and the cleaner moves cold pages to gain these holes. On a nearly full volume, this multiplied the written
//! bytes by 13 for half as many writes as the volume has pages. The first division also has a cost that is paid once,
//! when the holes of all hot pages are gained.
//!
//! So a division may lose the cost of moving a quarter of the data, against writing everything in place or logging
//! everything, whichever costs less. Then it ends at once, and not after an epoch. Later writes slowly earn a new budget.

/// Cost that a division may lose, for each sector of data: reading and writing a quarter of the data.
const GRANT: f64 = 0.5;
/// Part of the budget that must be left when a division begins.
const BEGUN_WITH: f64 = 0.5;
/// Budget that writes earn, as a part of their cost without a division.
const EARNED: f64 = 1.0 / 64.0;

/// The part of the budget that divisions have lost, in sectors of segment I/O.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub(super) struct DivisionBudget {
    lost: f64,
}

impl DivisionBudget {
    /// Notes a client write of `sectors`, which would cost `otherwise` for each sector without a division. `is_hot` if a
    /// division logged it.
    pub(super) fn wrote(&mut self, sectors: u64, otherwise: f64, is_hot: bool) {
        let gained = if is_hot {
            (otherwise - 1.0).max(0.0)
        } else {
            0.0
        };
        let earned = EARNED * otherwise + gained;
        self.lost = (self.lost - earned * sectors as f64).max(0.0);
    }

    /// Notes that the cleaner of a divided volume moved `sectors`.
    pub(super) fn moved(&mut self, sectors: u64) {
        self.lost += 2.0 * sectors as f64;
    }

    /// Returns true if a division of `live` sectors of data has lost more than its budget.
    pub(super) fn is_used_up(self, live: u64) -> bool {
        self.lost > GRANT * live as f64
    }

    /// Returns true if a division of `live` sectors of data may begin.
    pub(super) fn may_begin(self, live: u64) -> bool {
        self.lost <= (1.0 - BEGUN_WITH) * GRANT * live as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_division_that_pays_never_uses_its_budget_up() {
        let mut budget = DivisionBudget::default();
        for _ in 0..1000 {
            budget.wrote(100, 4.0, true);
            budget.moved(149);
        }
        assert_eq!(budget, DivisionBudget { lost: 298.0 });
        assert!(!budget.is_used_up(1000));
    }

    #[test]
    fn a_division_may_move_a_quarter_of_the_data_and_then_waits_for_a_new_budget() {
        let (mut budget, live) = (DivisionBudget::default(), 1000);
        budget.moved(250);
        assert!(!budget.is_used_up(live) && !budget.may_begin(live));
        budget.moved(1);
        assert!(budget.is_used_up(live));
        let mut written = 0;
        while !budget.may_begin(live) {
            budget.wrote(100, 4.0, false);
            written += 100;
        }
        // Half of the budget is 250 sectors, and each written sector earns a sixteenth.
        assert_eq!(written, 4100);
    }
}
