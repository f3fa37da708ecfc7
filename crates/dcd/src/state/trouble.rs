//! A device that fails: since when, and with what.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use forebay_rt::Instant;

/// What goes on with one device.
#[derive(Default)]
pub(crate) struct Trouble(RefCell<Option<(Instant, Arc<str>)>>);

impl Trouble {
    /// Notes a failure; the trouble began with the first since it was last over.
    pub(crate) fn goes_on(&self, now: Instant, cause: impl Into<Arc<str>>) {
        let mut trouble = self.0.borrow_mut();
        let since = trouble.as_ref().map_or(now, |(since, _)| *since);
        *trouble = Some((since, cause.into()));
    }

    /// What failed works again.
    pub(crate) fn is_over(&self) {
        self.0.replace(None);
    }

    /// The last failure, while it lasts.
    pub(crate) fn cause(&self) -> Option<Arc<str>> {
        let trouble = self.0.borrow();
        trouble.as_ref().map(|(_, cause)| Arc::clone(cause))
    }

    /// When those who wait have been patient for long enough, and what for; none if nothing fails.
    pub(crate) fn ends_patience(&self, patience: Duration) -> Option<(Instant, Arc<str>)> {
        let trouble = self.0.borrow();
        let (since, cause) = trouble.as_ref()?;
        Some((since.plus(patience), Arc::clone(cause)))
    }
}
