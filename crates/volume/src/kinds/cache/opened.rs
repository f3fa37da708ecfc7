//! Operations on the opened devices of a write cache: check, attach and salvage.

use std::rc::Rc;

use forebay_units::ByteLen;

use super::attach::attach;
use super::devices::CacheDevices;
use super::error::CacheError;
use super::log::{CacheCreateSpec, make_log};
use super::offline::{check_log, inspect};
use super::{over_volume, render};
use crate::error::VolumeError;
use crate::kind::{
    AttachContext, AttachedLayer, CheckContext, NewIdentity, OpenedVolume, ProgressSink,
};
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

    fn renew_identity(&self, new: NewIdentity) -> LayerFuture<'_, Result<(), VolumeError>> {
        Box::pin(renewed(self, new))
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

/// Makes the empty log of a copied cache again, with another id.
async fn renewed(pair: &CacheDevices, new: NewIdentity) -> Result<(), VolumeError> {
    let log = pair.log.spec.to_string();
    if pair.below.is_some() {
        return Err(VolumeError::Usage(format!(
            "{log} is the log of a log-structured volume: drain the original, copy its data device, and give only that \
             copy another id"
        )));
    }
    let info = inspect(&pair.log).await?;
    if !info.clean || info.abandoned {
        return Err(CacheError::NotEmpty(log).into());
    }
    let spec = CacheCreateSpec {
        name: new.name.to_string(),
        volume: new.id,
        segment: ByteLen(info.segment_bytes.into()),
    };
    make_log(&pair.log, &pair.data, spec).await.map(drop)
}
