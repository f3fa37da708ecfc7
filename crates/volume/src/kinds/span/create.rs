//! Creates a span.

use forebay_segment_log::{VolumeId, write_copies};
use forebay_units::{ByteLen, round_down};

use super::format::{DATA_AT, SpanSuperblock};
use super::spec::{FIRST, SECOND, SPEC};
use crate::create_spec::{CreateReport, CreateSpec, cannot_make, unfit};
use crate::error::VolumeError;
use crate::kind::{CreateContext, VolumeCreation};
use crate::layer::LayerFuture;
use crate::open::{OpenContext, OpenDevice, open_pair};
use crate::tree::{DeviceOrLayer, LayerTree};

/// Role of a device that is unsuitable, in sentences.
const WHAT: &str = "a device of a span";

/// The two devices of a span to be created, and the bytes of data on each.
struct SpanCreation {
    devices: [OpenDevice; 2],
    lens: [u64; 2],
    block_size: u32,
}

/// Opens the devices of a span to be created.
///
/// # Errors
/// If a device cannot be opened or is too short, or the two overlap.
pub(super) fn plan(
    spec: &CreateSpec,
    context: OpenContext<'_>,
) -> Result<Box<dyn VolumeCreation>, VolumeError> {
    let given = [(FIRST, spec.device(FIRST)?), (SECOND, spec.device(SECOND)?)];
    let devices = open_pair(context, given)?.devices;
    let geometries = devices.each_ref().map(|device| device.device.geometry());
    let block_size = geometries[0].block_size.max(geometries[1].block_size);
    let lens = geometries
        .map(|geometry| round_down(geometry.len.saturating_sub(DATA_AT), u64::from(block_size)));
    for (device, len) in devices.iter().zip(lens) {
        if len == 0 {
            let why = format!("it has no space behind the first {}", ByteLen(DATA_AT));
            return Err(unfit(&device.spec, WHAT, &why));
        }
    }
    Ok(Box::new(SpanCreation {
        devices,
        lens,
        block_size,
    }))
}

impl VolumeCreation for SpanCreation {
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        let [first, second] = &self.devices;
        vec![(first, FIRST), (second, SECOND)]
    }

    fn create<'a>(
        &'a self,
        context: CreateContext<'a>,
    ) -> LayerFuture<'a, Result<CreateReport, VolumeError>> {
        Box::pin(async move {
            let volume = VolumeId(context.id);
            // The second device first: a span is recognised by its first device.
            for index in [1, 0] {
                let device = &self.devices[index];
                let superblock = SpanSuperblock {
                    volume,
                    index: index as u32,
                    block_size: self.block_size,
                    lens: self.lens,
                    name: context.name.to_string(),
                    second: self.devices[1].spec.to_string(),
                };
                let written = write_copies(&*device.device, &superblock).await;
                written.map_err(|error| cannot_make(&device.spec, WHAT, &error))?;
            }
            let specs = self.devices.each_ref().map(|device| device.spec.clone());
            let [first, second] = specs.clone().map(DeviceOrLayer::Device);
            Ok(CreateReport {
                volume: volume.to_string(),
                tree: LayerTree::new(&SPEC, [(FIRST, first), (SECOND, second)]),
                summary: format!(
                    "{} long, {} and then {}",
                    ByteLen(self.lens[0] + self.lens[1]),
                    specs[0],
                    specs[1]
                ),
            })
        })
    }
}
