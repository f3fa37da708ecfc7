//! Attaches the write cache to its two devices.

use std::rc::Rc;

use forebay_dcd::{AttachOptions, AttachReport, DcdVolume};
use forebay_units::ByteLen;

use super::attached::AttachedCache;
use super::data_name::{in_words, is_space};
use super::devices::CacheDevices;
use super::error::CacheError;
use super::offline::inspect;
use super::options::{BYPASS, PATIENCE};
use crate::error::VolumeError;
use crate::kind::{AcceptedFaults, AttachContext, AttachedLayer};
use crate::options::OptionValues;
use crate::options::shared::{ACK, MAP_MEMORY, MAX_DELAY};
use crate::options::values::BypassSize;

/// Recovers the volume whose log and data device are `pair`, and attaches it with the options of the pair.
///
/// # Errors
/// Those of [`DcdVolume::attach_witnessed`].
pub(super) async fn attach(
    pair: CacheDevices,
    context: AttachContext,
) -> Result<AttachedLayer, VolumeError> {
    if !pair.data.identity.names.iter().any(|name| is_space(name)) {
        over_device(&pair).await?;
    }
    let settings = settings(&pair.options, pair.shared, context.accept);
    let acknowledge = settings.acknowledge;
    let CacheDevices {
        log,
        data,
        same_disk,
        options,
        ..
    } = pair;
    let (log_device, identity) = (log.device, data.identity);
    let (rt, witness) = (context.rt, context.failed_logs);
    let attached =
        DcdVolume::attach_witnessed(rt, log_device, data.device, identity, settings, witness);
    let (volume, report) = attached.await.map_err(|error| CacheError::Attach {
        log: log.spec.to_string(),
        data: data.spec.to_string(),
        error,
    })?;
    let mut notes = found(report);
    if let Some(disk) = same_disk.filter(|_| options.get(&BYPASS).is_none()) {
        notes.push(format!(
            "log and data are files on one disk ({disk}): with --bypass 64KiB, large writes are written there only \
             once, but are ordered as on a disk"
        ));
    }
    Ok(AttachedLayer {
        layer: Rc::new(AttachedCache::new(
            volume,
            log.spec.to_string(),
            acknowledge,
        )),
        notes,
    })
}

/// Refuses the log of a cache over a log-structured volume. Attaching it here would overwrite that volume.
async fn over_device(pair: &CacheDevices) -> Result<(), VolumeError> {
    let Ok(info) = inspect(&pair.log).await else {
        // Attaching reports the errors of the log.
        return Ok(());
    };
    let names = &info.data.names;
    if names.iter().any(|name| is_space(name)) {
        Err(CacheError::OtherBelow {
            log: pair.log.spec.to_string(),
            data: pair.data.spec.to_string(),
            want: in_words(names, &pair.data.spec),
            have: in_words(&[], &pair.data.spec),
        }
        .into())
    } else {
        Ok(())
    }
}

fn found(report: AttachReport) -> Vec<String> {
    let mut notes = report.notes;
    if !report.was_clean && report.records > 0 {
        notes.insert(
            0,
            format!(
                "recovered {} records, {} of them not on the data device yet",
                report.records,
                ByteLen(report.dirty_bytes)
            ),
        );
    }
    notes
}

/// Unset options get defaults that fit a log on the data device's own disk (`shared`), or on another disk.
fn settings(options: &OptionValues, shared: bool, accept: AcceptedFaults) -> AttachOptions {
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
