//! The settings of an attached write cache, which follow from its options and the storage of its log.

use forebay_dcd::AttachOptions;

use super::options::{BYPASS, PATIENCE};
use crate::kind::AcceptedFaults;
use crate::options::OptionValues;
use crate::options::shared::{ACK, MAP_MEMORY, MAX_DELAY};
use crate::options::values::BypassSize;

/// Returns a note for a log on the disk of the data device, both behind a filesystem.
pub(super) fn beside_data(same_disk: Option<&str>, options: &OptionValues) -> Option<String> {
    let disk = same_disk.filter(|_| options.get(&BYPASS).is_none())?;
    Some(format!(
        "log and data are files on one disk ({disk}): with --bypass 64KiB, large writes are written there only once, but \
         are ordered as on a disk"
    ))
}

/// Unset options get defaults that fit a log on the data device's own disk (`shared`), or on another disk.
pub(super) fn settings(
    options: &OptionValues,
    shared: bool,
    accept: AcceptedFaults,
) -> AttachOptions {
    let defaults = if shared {
        AttachOptions::on_one_disk()
    } else {
        AttachOptions::default()
    };
    AttachOptions {
        acknowledge: options.get(&ACK).unwrap_or_default(),
        max_delay: options
            .get(&MAX_DELAY)
            .map_or(defaults.max_delay, |span| span.0),
        patience: options
            .get(&PATIENCE)
            .map_or(defaults.patience, |span| span.0),
        bypass: match options.get(&BYPASS) {
            Some(BypassSize::Off) => None,
            Some(BypassSize::From(size)) => Some(size),
            None => defaults.bypass,
        },
        map_memory: options.get(&MAP_MEMORY).unwrap_or(defaults.map_memory),
        gaps: defaults.gaps,
        accept_loss: accept.loss,
        accept_changed: accept.changed,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_units::ByteLen;

    use super::*;

    /// Returns the resulting maximum delay of writes, and the size from which writes bypass the log.
    fn set(options: &OptionValues, shared: bool) -> (Duration, Option<ByteLen>) {
        let settings = settings(options, shared, AcceptedFaults::default());
        (settings.max_delay, settings.bypass)
    }

    #[test]
    fn a_log_on_the_data_disk_has_a_longer_delay_and_a_bypass_by_default() {
        let open = OptionValues::default();
        assert_eq!(set(&open, false), (Duration::from_millis(50), None));
        let on_one_disk = (Duration::from_millis(500), Some(ByteLen::kib(64)));
        assert_eq!(set(&open, true), on_one_disk);
        let said = OptionValues::default()
            .or_set(&MAX_DELAY, "20ms")
            .or_set(&BYPASS, "off");
        for shared in [false, true] {
            assert_eq!(set(&said, shared), (Duration::from_millis(20), None));
        }
    }
}
