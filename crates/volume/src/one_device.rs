//! The opened device of a volume on one device, for all kinds with only one.

use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer, NewIdentity, OpenedVolume};
use crate::kinds::space::renew_identity;
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice, open_one};
use crate::options::OptionValues;
use crate::tree::LayerTree;

/// Future result of attaching a volume.
pub(crate) type AttachFuture = LayerFuture<'static, Result<AttachedLayer, VolumeError>>;

/// The opened device of a volume, and the differences between kinds.
pub(crate) struct OneDeviceVolume {
    data: OpenDevice,
    options: OptionValues,
    /// The contents that a removal loses, such as "all files".
    contents: &'static str,
    attach: fn(OpenDevice, OptionValues, AttachContext) -> AttachFuture,
}

impl OneDeviceVolume {
    /// Opens the device of a volume with these contents, which `attach` can attach.
    ///
    /// # Errors
    /// If the device cannot be opened.
    pub(crate) fn open(
        tree: &LayerTree,
        context: OpenContext<'_>,
        contents: &'static str,
        attach: fn(OpenDevice, OptionValues, AttachContext) -> AttachFuture,
    ) -> Result<Box<dyn OpenedVolume>, VolumeError> {
        Ok(Box::new(OneDeviceVolume {
            data: open_one(context, tree.own())?,
            options: tree.options().clone(),
            contents,
            attach,
        }))
    }
}

impl OpenedVolume for OneDeviceVolume {
    fn own(&self) -> &OpenDevice {
        &self.data
    }

    fn reset_options(&mut self) {
        self.options = OptionValues::default();
    }

    fn loses(&self) -> Option<String> {
        Some(format!("{} on {}", self.contents, self.data.spec))
    }

    fn renew_identity(&self, new: NewIdentity) -> LayerFuture<'_, Result<(), VolumeError>> {
        Box::pin(renew_identity(&self.data, new.id))
    }

    fn attach(self: Box<Self>, context: AttachContext) -> AttachFuture {
        (self.attach)(self.data, self.options, context)
    }
}
