//! The opened devices of a write cache.

use std::rc::Rc;

use forebay_device::AckMode;
use forebay_rt::Rt;

use super::{CacheError, CacheKind, offline};
use crate::kind::{
    AttachContext, AttachedLayer, KindRef, OpenContext, OpenedVolume, ProgressSink,
    SuperblockDevice,
};
use crate::kinds::cached_volume;
use crate::kinds::files::FilesError;
use crate::layer::LayerFuture;
use crate::open::{DevicePair, OpenDevice, open_pair};
use crate::options::OptionValues;
use crate::options::shared::ACK;
use crate::registry::{FILESYSTEM, LOG_STRUCTURED};
use crate::report::{LayerCheckReport, LayerSalvageReport};
use crate::tree::{DeviceOrLayer, LayerTree};
use crate::{DeviceSpec, VolumeError};

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
        let (data, below) = match tree.data() {
            DeviceOrLayer::Device(data) => (data, None),
            DeviceOrLayer::Layer(layer) if layer.kind() == LOG_STRUCTURED => {
                let options = options_below(tree.options(), layer.options().clone());
                (layer.own(), Some(options))
            }
            DeviceOrLayer::Layer(layer) if layer.kind() == FILESYSTEM => {
                return Err(FilesError::IsFiles(layer.own().to_string()).into());
            }
            DeviceOrLayer::Layer(layer) => {
                return Err(CacheError::LayerBelow(layer.to_string()).into());
            }
        };
        Ok(CacheDevices {
            options: tree.options().clone(),
            below,
            ..CacheDevices::open_devices(tree.own(), data, context)?
        })
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

impl OpenedVolume for CacheDevices {
    fn own(&self) -> SuperblockDevice {
        SuperblockDevice::new(KindRef(&CacheKind), self.log.clone())
    }

    fn reset_options(&mut self) {
        self.options = OptionValues::default();
        self.below = self.below.take().map(|_| OptionValues::default());
    }

    fn check<'a>(
        &'a self,
        rt: &'a Rt,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            if self.below.is_some() {
                return cached_volume::check(rt, self, progress).await;
            }
            let checked = offline::check_log(&self.log, Some(&self.data), progress).await;
            Ok(checked?.into_report())
        })
    }

    fn stays(&self) -> Option<String> {
        let data = &self.data.spec;
        Some(match self.below {
            None => format!("{data} is complete by itself"),
            Some(_) => format!(
                "the log-structured volume on {data} is complete by itself (forebay attach --data {data})"
            ),
        })
    }

    fn loses(&self) -> Option<String> {
        None
    }

    fn attach(
        self: Box<Self>,
        context: AttachContext,
    ) -> LayerFuture<'static, Result<AttachedLayer, VolumeError>> {
        Box::pin(async move {
            match self.below.clone() {
                Some(below) => cached_volume::attach(*self, &below, context).await,
                None => super::attach(*self, context).await,
            }
        })
    }

    fn salvage(&self) -> LayerFuture<'_, Result<LayerSalvageReport, VolumeError>> {
        Box::pin(async {
            let (log, data) = (self.log.spec.to_string(), self.data.spec.to_string());
            if self.below.is_some() {
                return Err(CacheError::SalvageOver(log).into());
            }
            let devices = [&self.log, &self.data].map(|part| Rc::clone(&part.device));
            let [log_device, data_device] = devices;
            let salvaged = forebay_dcd::salvage(log_device, data_device, &self.data.identity).await;
            let report = salvaged.map_err(|error| CacheError::Salvage { log, data, error })?;
            Ok(LayerSalvageReport {
                is_whole: report.lost_bytes == report.found_bytes,
                lines: super::render::salvaged(&report),
                fields: Box::new(report),
            })
        })
    }
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
