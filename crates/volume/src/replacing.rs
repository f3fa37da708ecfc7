//! Opens a device that becomes the log of a volume, and checks its content.

use forebay_dcd::{FailedLogRegistry, FormerLog};
use forebay_ring_log::RingGeometry;
use forebay_units::ByteLen;

use crate::content::DeviceContent;
use crate::create::content_of;
use crate::create_spec::unfit;
use crate::error::VolumeError;
use crate::kinds::cache::{LOG_SEGMENT, make_successor};
use crate::new_log::NewLog;
use crate::open::{OpenContext, SharedStorage, open_one, shared_storage};
use crate::spec::DeviceSpec;
use crate::tree::LayerTree;

impl NewLog {
    /// Checks that the volume that `tree` describes has a log.
    ///
    /// # Errors
    /// If it has none.
    pub fn check_owner(tree: &LayerTree) -> Result<(), VolumeError> {
        if tree.log().is_some() {
            return Ok(());
        }
        let what = tree.kind().title;
        let text = format!("a {what} has no log that could be replaced");
        Err(VolumeError::Usage(text))
    }

    /// Opens a device to become the log of the volume that `tree` describes. `segment` is the size of a segment, if it
    /// is not the default.
    ///
    /// # Errors
    /// If the volume has no log, the device cannot be opened or is a device of the volume, or no log fits on it.
    pub fn open(
        spec: &DeviceSpec,
        tree: &LayerTree,
        segment: Option<ByteLen>,
        context: OpenContext<'_>,
    ) -> Result<NewLog, VolumeError> {
        NewLog::check_owner(tree)?;
        let own = tree.devices();
        let used = own.iter().find(|(_, used)| is_shared(used, spec));
        if let Some((role, used)) = used {
            return Err(VolumeError::Usage(format!(
                "{spec} is on the {role} device {used} of the volume, which is in use as a whole; give another device, or \
                 detach the volume and make a new log with `forebay create --force`"
            )));
        }
        let device = open_one(context, spec)?;
        let segment = segment.unwrap_or(LOG_SEGMENT);
        let fits = RingGeometry::for_device(&device.device.geometry(), segment);
        fits.map_err(|error| unfit(spec, "a log", &error))?;
        let data = own.iter().find(|(role, _)| role.starts_with("data"));
        let shared = data.map_or_else(SharedStorage::default, |(_, data)| {
            shared_storage(spec, data)
        });
        Ok(NewLog {
            device,
            segment,
            shared,
        })
    }

    /// Makes this the log of the volume that `tree` describes, whose own log is `former`. Returns notes on the data
    /// device for the administrator. The caller must hold the volume, and then name the new log in its configuration.
    ///
    /// # Errors
    /// If the data device cannot be opened or is not that of the former log, data was lost with that log, or a device
    /// fails.
    pub async fn follow(
        &self,
        former: &FormerLog,
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<Vec<String>, VolumeError> {
        make_successor(self, former, tree, context).await
    }

    /// Returns the reason not to overwrite the content of the device, and the content; `None` if nothing is recognised.
    ///
    /// # Errors
    /// If the device cannot be read.
    pub async fn holds(
        &self,
        failed_logs: Option<&dyn FailedLogRegistry>,
    ) -> Result<Option<(DeviceContent, String)>, VolumeError> {
        content_of(&self.device, "log", failed_logs).await
    }
}

/// Returns true if two specs name the same device, or parts of one device.
fn is_shared(one: &DeviceSpec, other: &DeviceSpec) -> bool {
    let identities = one.identity().ok().zip(other.identity().ok());
    identities.is_some_and(|(one, other)| one.shares_device(&other) || one.overlaps(&other))
}
