//! The opened devices of a write cache.

use forebay_device::AckMode;

use super::error::CacheError;
use crate::error::VolumeError;
use crate::kind_spec::ServedAs;
use crate::kinds::space::{self, SpaceVolumeError};
use crate::open::{DevicePair, OpenContext, OpenDevice, open_pair};
use crate::options::OptionValues;
use crate::options::shared::ACK;
use crate::spec::DeviceSpec;
use crate::tree::{DeviceOrLayer, LayerTree};

/// A log and its data device.
#[derive(Clone)]
pub(crate) struct CacheDevices {
    /// The log.
    pub(crate) log: OpenDevice,
    /// The data device.
    pub(crate) data: OpenDevice,
    /// True if both are parts of one device, or are on one disk through partitions, volumes or arrays.
    pub(crate) shared: bool,
    /// The disk that holds both although they are not `shared`, because a filesystem is in between.
    pub(crate) same_disk: Option<String>,
    /// Options of the cache.
    pub(crate) options: OptionValues,
    /// Options of the log-structured volume on the data device, if the cache is over a log-structured volume.
    pub(crate) below: Option<OptionValues>,
}

impl CacheDevices {
    /// Opens a log and its data device, with default options.
    ///
    /// # Errors
    /// If a device cannot be opened, or the two do not go together.
    pub(crate) fn open_devices(
        log: &DeviceSpec,
        data: &DeviceSpec,
        context: OpenContext<'_>,
    ) -> Result<CacheDevices, VolumeError> {
        let DevicePair {
            devices: [log, data],
            shared,
            same_disk,
        } = open_pair(context, [("log", log), ("data", data)])?;
        Ok(CacheDevices {
            log,
            data,
            shared,
            same_disk,
            options: OptionValues::default(),
            below: None,
        })
    }

    /// Opens the devices of a cache.
    ///
    /// # Errors
    /// Those of [`CacheDevices::open_devices`], and if the cache is over a layer that it does not support.
    pub(super) fn open(
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<CacheDevices, VolumeError> {
        let (data, below) = CacheDevices::data_of(tree)?;
        Ok(CacheDevices {
            options: tree.options().clone(),
            below,
            ..CacheDevices::open_devices(tree.own(), data, context)?
        })
    }

    /// Returns the data device of a cache, and the options of the log-structured volume on it, if the cache is over one.
    ///
    /// # Errors
    /// If the cache is over a layer that it does not support.
    pub(super) fn data_of(
        tree: &LayerTree,
    ) -> Result<(&DeviceSpec, Option<OptionValues>), VolumeError> {
        match tree.data() {
            DeviceOrLayer::Device(data) => Ok((data, None)),
            DeviceOrLayer::Layer(layer) if *layer.kind() == space::SPEC => {
                let options = options_below(tree.options(), layer.options().clone());
                Ok((layer.own(), Some(options)))
            }
            DeviceOrLayer::Layer(layer) if layer.kind().served_as == ServedAs::Files => {
                Err(SpaceVolumeError::HoldsFiles(layer.own().to_string()).into())
            }
            DeviceOrLayer::Layer(layer) => Err(CacheError::LayerBelow(layer.to_string()).into()),
        }
    }
}

/// Returns the options of a log-structured volume under a cache. If data that goes through the log survives the death
/// of the process, data that bypasses the log must survive it, too.
fn options_below(cache: &OptionValues, below: OptionValues) -> OptionValues {
    if cache.get(&ACK).is_some_and(|when| when != AckMode::Memory) {
        return below.or_set(&ACK, "device");
    }
    below
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_below_survives_the_process_if_the_cache_over_it_does() {
        let options = |text: &str| OptionValues::default().or_set(&ACK, text);
        for (cache, below) in [
            ("memory", None),
            ("device", Some("device")),
            ("durable", Some("device")),
        ] {
            let set = options_below(&options(cache), OptionValues::default());
            assert_eq!(set.text("ack"), below, "{cache}");
        }
        assert_eq!(
            options_below(&options("device"), options("durable")),
            options("durable")
        );
    }
}
