//! What a service manager is told.

/// Tells the service manager, if there is one.
pub(super) fn notify(states: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
