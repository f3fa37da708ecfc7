//! An attached span, as a layer.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{DataLocation, Device, DeviceError, LocatedExtent, ScrubTarget};

use super::format::SpanSuperblock;
use super::joined::JoinedDevices;
use super::report::SpanStatus;
use super::scrub::SpanScrub;
use super::spec::SPEC;
use crate::closing::ClosingDevice;
use crate::layer::{DrainFailure, Layer, LayerFuture};
use crate::report::LayerStatus;
use crate::scrub::plain::PlainScrub;

/// An attached span.
pub(super) struct AttachedSpan {
    name: String,
    superblock: SpanSuperblock,
    device: Rc<ClosingDevice<JoinedDevices>>,
    /// Both devices from their starts on, with their superblocks.
    whole: [Rc<dyn Device>; 2],
}

impl AttachedSpan {
    pub(super) fn new(
        name: String,
        superblock: SpanSuperblock,
        device: JoinedDevices,
        whole: [Rc<dyn Device>; 2],
    ) -> AttachedSpan {
        AttachedSpan {
            whole,
            name,
            superblock,
            device: Rc::new(ClosingDevice::new(device)),
        }
    }
}

impl Layer for AttachedSpan {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn id(&self) -> String {
        self.superblock.volume.to_string()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.device) as Rc<dyn Device>)
    }

    /// A write is acknowledged when its device has it.
    fn survives_kill(&self) -> bool {
        true
    }

    fn status(&self) -> LayerStatus {
        let [first_bytes, second_bytes] = self.superblock.lens;
        let status = SpanStatus {
            mode: "serving".into(),
            len: first_bytes + second_bytes,
            block_size: self.superblock.block_size,
            first_bytes,
            second_bytes,
        };
        LayerStatus::new(&SPEC, status)
    }

    fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
        let place = DataLocation::Home;
        vec![LocatedExtent { range, place }]
    }

    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let flushed = self.device.below().flush().await;
            flushed.map_err(|error| DrainFailure(error.to_string()))
        })
    }

    fn what_is_left(&self) -> Option<DrainFailure> {
        None
    }

    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        let volume = self.superblock.volume;
        let superblocks = self.whole.iter().map(|device| {
            Rc::new(SpanScrub::new(Rc::clone(device), volume)) as Rc<dyn ScrubTarget>
        });
        let data = PlainScrub::new(Rc::clone(&self.device) as Rc<dyn Device>);
        superblocks
            .chain([Rc::new(data) as Rc<dyn ScrubTarget>])
            .collect()
    }

    fn is_busy(&self) -> bool {
        self.device.is_busy()
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.device.close())
    }

    fn what_holds_up(&self) -> String {
        "its devices".into()
    }
}
