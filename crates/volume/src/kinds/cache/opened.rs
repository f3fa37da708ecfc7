//! Operations on the opened devices of a write cache: check, attach and salvage.

use std::rc::Rc;

use super::attach::attach;
use super::devices::CacheDevices;
use super::error::CacheError;
use super::offline::check_log;
use super::{over_volume, render};
use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer, CheckContext, OpenedVolume, ProgressSink};
use crate::layer::LayerFuture;
use crate::open::OpenDevice;
use crate::options::OptionValues;
use crate::report::{LayerCheckReport, LayerSalvageReport};

impl OpenedVolume for CacheDevices {
    fn own(&self) -> &OpenDevice {
        &self.log
    }

    fn reset_options(&mut self) {
        self.options = OptionValues::default();
        self.below = self.below.take().map(|_| OptionValues::default());
    }

    fn has_several_devices(&self) -> bool {
        true
    }

    fn check<'a>(
        &'a self,
        context: CheckContext<'a>,
        progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async move {
            if self.below.is_some() {
                return over_volume::check(context, self, progress).await;
            }
            let checked =
                check_log(&self.log, Some(&self.data), context.failed_logs, progress).await;
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
                Some(below) => over_volume::attach(*self, &below, context).await,
                None => attach(*self, context).await,
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
                lines: render::salvaged(&report),
                fields: Box::new(report),
            })
        })
    }
}
