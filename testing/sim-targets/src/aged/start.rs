//! The aged states that are kept, so that many scenarios can begin with one.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_sim::Violation;

use super::ageing::age;
use super::recipe::{AgedVolume, Recipe};

/// States that a thread keeps.
const KEPT: usize = 3;

/// What ageing led to.
pub(super) type AgedStart = Rc<Result<AgedVolume, Violation>>;

impl Recipe {
    /// The volume as it is when scenarios begin; made once, while it is among the last asked for.
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
