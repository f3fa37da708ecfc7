//! An attached write cache, as a layer.

use std::ops::Range;
use std::rc::Rc;

use forebay_dcd::{Acknowledge, ResizeError, Volume};
use forebay_device::{Checked, Device, DeviceError};
use forebay_units::ByteLen;

use super::words;
use crate::layer::{Layer, LayerFuture, NotDrained, PlaceExtent, Resized};
use crate::not_done::NotDone;
use crate::{CacheStatus, Cause, Status};

/// An attached write cache.
pub(super) struct Cache {
    volume: Volume,
    device: Rc<Checked<Volume>>,
    /// The log device, as given.
    log: String,
    survives_kill: bool,
}

impl Cache {
    pub(super) fn new(volume: Volume, log: String, acknowledge: Acknowledge) -> Cache {
        Cache {
            device: Rc::new(Checked::new(volume.clone(), "volume")),
            volume,
            log,
            survives_kill: acknowledge != Acknowledge::Flush,
        }
    }
}

impl Layer for Cache {
    fn name(&self) -> String {
        self.volume.name()
    }

    fn id(&self) -> String {
        self.volume.id().to_string()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.device) as Rc<dyn Device>)
    }

    /// Zeroes are one entry in the log.
    fn fast_zeroes(&self) -> bool {
        true
    }

    fn survives_kill(&self) -> bool {
        self.survives_kill
    }

    fn status(&self) -> Status {
        Status::Cache(CacheStatus {
            cache: self.volume.status(),
            below: None,
        })
    }

    fn place(&self, range: Range<u64>) -> Vec<PlaceExtent> {
        self.volume.place(range)
    }

    fn drain(&self) -> LayerFuture<'_, Result<(), NotDrained>> {
        Box::pin(async {
            let drained = self.volume.drain().await;
            drained.map_err(|error| NotDrained(error.to_string()))
        })
    }

    fn what_is_left(&self) -> Option<NotDrained> {
        let left = self.volume.what_is_left()?;
        Some(NotDrained(left.to_string()))
    }

    fn has_to_give_up(&self) -> bool {
        self.volume.has_to_give_up()
    }

    fn give_up(&self) {
        self.volume.give_up_unreadable();
    }

    fn gives_up(&self) -> bool {
        self.volume.gives_up()
    }

    fn resize(&self, size: Option<ByteLen>) -> LayerFuture<'_, Result<Resized, NotDone>> {
        Box::pin(async move {
            if size.is_some() {
                let text = "a cached volume is as long as its data device: leave out --size, and make that longer";
                return Err(NotDone::new(Cause::Usage, text));
            }
            let resized = self.volume.resize().await;
            let resized = resized.map_err(|error| {
                let cause = match &error {
                    ResizeError::Shrunk { .. } => Cause::Refused,
                    ResizeError::Device(_) | ResizeError::Log(_) => Cause::Device,
                };
                NotDone::new(cause, error)
            })?;
            Ok(Resized {
                before: resized.before,
                len: resized.len,
                notes: resized.notes,
            })
        })
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.volume.close())
    }

    fn warning(&self) -> Option<String> {
        let stale = self.volume.stale_log()?;
        Some(format!("{}: {stale}", self.log))
    }

    fn what_holds_up(&self) -> String {
        words::what_holds_up(&self.volume.status())
    }
}
