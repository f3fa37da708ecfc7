//! Cache of aged states, from which many scenarios begin.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_sim::Violation;

use super::ageing::age;
use super::recipe::{AgedVolume, Recipe};

/// Number of states in a thread's cache.
const KEPT: usize = 3;

/// The result of ageing.
pub(super) type AgedStart = Rc<Result<AgedVolume, Violation>>;

impl Recipe {
    /// Returns the volume at the beginning of scenarios. The thread makes a volume that its cache does not contain.
    pub(super) fn start(&self) -> AgedStart {
        thread_local! {
            static STARTS: RefCell<Vec<(Recipe, AgedStart)>> = const { RefCell::new(Vec::new()) };
        }
        let known = STARTS.with_borrow(|starts| {
            let known = starts.iter().find(|(recipe, _)| recipe == self);
            known.map(|(_, start)| Rc::clone(start))
        });
        known.unwrap_or_else(|| {
            let start = Rc::new(age(self));
            STARTS.with_borrow_mut(|starts| {
                starts.truncate(KEPT - 1);
                starts.insert(0, (self.clone(), Rc::clone(&start)));
            });
            start
        })
    }
}
