//! The two opened devices of a span.

use std::rc::Rc;

use forebay_device::{BufMut, CheckVerdict, Device, DeviceError, DeviceSlice, Durability};
use forebay_segment_log::{PLACES, read_copies};
use forebay_units::ByteLen;
use serde::Serialize;

use super::attached::AttachedSpan;
use super::error::SpanError;
use super::format::{DATA_AT, SpanSuperblock, VERSION};
use super::joined::JoinedDevices;
use super::spec::{FIRST, SECOND};
use crate::error::VolumeError;
use crate::kind::{AttachContext, AttachedLayer, CheckContext, OpenedVolume, ProgressSink};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice, open_pair};
use crate::report::LayerCheckReport;
use crate::tree::LayerTree;

/// Bytes that are erased at each superblock.
const SUPERBLOCK_BYTES: usize = 4096;

/// The two devices of a span, in order.
pub(super) struct SpanDevices(pub(super) [OpenDevice; 2]);

/// Findings of a check of a span.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct SpanCheck {
    /// Verdict.
    verdict: CheckVerdict,
    /// The volume's id.
    volume: String,
    /// Version of the format.
    format_version: u32,
    /// Bytes of data on each device.
    lens: [u64; 2],
}

impl SpanCheck {
    pub(super) fn into_report(self) -> LayerCheckReport {
        let [first, second] = self.lens;
        let lines = vec![
            format!("span {}, {} long", self.volume, ByteLen(first + second)),
            format!(
                "{} on the first device, {} on the second, format version {}",
                ByteLen(first),
                ByteLen(second),
                self.format_version
            ),
            "clean: nothing to recover".into(),
        ];
        LayerCheckReport::new(self.verdict, lines, self)
    }
}

/// Returns the superblock of a device.
///
/// # Errors
/// If the device holds none.
pub(super) async fn superblock(
    device: &OpenDevice,
    role: &'static str,
) -> Result<SpanSuperblock, VolumeError> {
    let copies = read_copies::<SpanSuperblock>(&*device.device).await;
    let newest = copies.and_then(|copies| copies.newest_readable().cloned());
    newest.map_err(|error| {
        let path = device.spec.to_string();
        SpanError::NotASpan { path, role, error }.into()
    })
}

/// Returns the findings on the first device of a span.
///
/// # Errors
/// If the device is not the first device of a span.
pub(super) async fn check_first(device: &OpenDevice) -> Result<SpanCheck, VolumeError> {
    let superblock = superblock(device, FIRST).await?;
    Ok(SpanCheck {
        verdict: CheckVerdict::Clean,
        volume: superblock.volume.to_string(),
        format_version: VERSION,
        lens: superblock.lens,
    })
}

/// Erases the superblocks of a device.
///
/// # Errors
/// Those of the device.
pub(super) async fn erase(device: &dyn Device) -> Result<(), DeviceError> {
    for at in PLACES {
        let zeroes = BufMut::zeroed(SUPERBLOCK_BYTES).freeze();
        device.write(at, zeroes, Durability::Fua).await?;
    }
    Ok(())
}

impl SpanDevices {
    /// Opens the devices of a span.
    ///
    /// # Errors
    /// If a device cannot be opened, or the two overlap.
    pub(super) fn open(
        tree: &LayerTree,
        context: OpenContext<'_>,
    ) -> Result<SpanDevices, VolumeError> {
        let given = [FIRST, SECOND].map(|role| (role, tree.must_have(role)));
        Ok(SpanDevices(open_pair(context, given)?.devices))
    }

    /// Checks that both devices belong to one span, in this order, and have the necessary length.
    ///
    /// # Errors
    /// If they do not.
    async fn superblocks(&self) -> Result<SpanSuperblock, VolumeError> {
        let [first, second] = &self.0;
        let found = (
            superblock(first, FIRST).await?,
            superblock(second, SECOND).await?,
        );
        let together = SpanSuperblock {
            index: 1,
            ..found.0.clone()
        };
        if found.0.index != 0 || found.1 != together {
            let [first, second] = [first, second].map(|device| device.spec.to_string());
            return Err(SpanError::NotTogether { first, second }.into());
        }
        for (device, len) in self.0.iter().zip(found.0.lens) {
            let (have, need) = (device.device.geometry().len, DATA_AT + len);
            if have < need {
                let path = device.spec.to_string();
                return Err(SpanError::Truncated { path, have, need }.into());
            }
        }
        Ok(found.0)
    }

    async fn attached(&self, name: String) -> Result<AttachedLayer, VolumeError> {
        let superblock = self.superblocks().await?;
        let parts = self.0.iter().zip(superblock.lens).map(|(device, len)| {
            let part = DeviceSlice::new(Rc::clone(&device.device), DATA_AT, len);
            part.map(|part| Rc::new(part) as Rc<dyn Device>)
        });
        let parts: Option<Vec<Rc<dyn Device>>> = parts.collect();
        let parts = parts.and_then(|parts| parts.try_into().ok());
        let Some(parts) = parts else {
            let [first, second] = self.0.each_ref().map(|device| device.spec.to_string());
            return Err(SpanError::NotTogether { first, second }.into());
        };
        let device = JoinedDevices::new(parts, superblock.block_size);
        let whole = self.0.each_ref().map(|device| Rc::clone(&device.device));
        Ok(AttachedLayer {
            layer: Rc::new(AttachedSpan::new(name, superblock, device, whole)),
            notes: Vec::new(),
        })
    }
}

impl OpenedVolume for SpanDevices {
    fn own(&self) -> &OpenDevice {
        &self.0[0]
    }

    /// A span has no options.
    fn reset_options(&mut self) {}

    fn has_several_devices(&self) -> bool {
        true
    }

    fn check<'a>(
        &'a self,
        _context: CheckContext<'a>,
        _progress: ProgressSink<'a>,
    ) -> LayerFuture<'a, Result<LayerCheckReport, VolumeError>> {
        Box::pin(async {
            self.superblocks().await?;
            Ok(check_first(&self.0[0]).await?.into_report())
        })
    }

    fn loses(&self) -> Option<String> {
        let [first, second] = &self.0;
        Some(format!("all data on {} and {}", first.spec, second.spec))
    }

    fn attach(
        self: Box<Self>,
        context: AttachContext,
    ) -> LayerFuture<'static, Result<AttachedLayer, VolumeError>> {
        Box::pin(async move { self.attached(context.name).await })
    }

    fn erase_others(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(erase(&*self.0[1].device))
    }
}
