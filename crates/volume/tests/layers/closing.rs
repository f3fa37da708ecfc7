//! The contract of `Layer::close`, for every kind of volume.

use forebay_device::{BufMut, DeviceError, Durability, ZeroedSpace};
use forebay_volume::{DEFAULT_KIND, KindSpec, LOG_STRUCTURED, Layer, kind_specs};

use crate::made::on_a_volume;

const DEVICE_BYTES: u64 = 256 << 20;

/// Returns true if a request was refused because the volume is closed.
fn is_refused<T>(done: &Result<T, DeviceError>) -> bool {
    matches!(done, Err(DeviceError::Closed { .. }))
}

async fn serves_until_closed(layer: &dyn Layer, what: &str) {
    // A filesystem has no device: the daemon unmounts it before it closes the layer.
    let Some(device) = layer.device() else {
        assert!(layer.files().is_some(), "{what}");
        return layer.close().await.expect("closes");
    };
    let block = u64::from(device.geometry().block_size);
    let data = || BufMut::zeroed(block as usize).freeze();
    let written = device.write(0, data(), Durability::Flush).await;
    written.unwrap_or_else(|error| panic!("{what}: {error}"));
    layer.close().await.expect("closes");

    let read = device.read(0, BufMut::zeroed(block as usize)).await;
    assert!(is_refused(&read), "{what}: a read");
    let written = device.write(0, data(), Durability::Flush).await;
    assert!(is_refused(&written), "{what}: a write");
    assert!(is_refused(&device.flush().await), "{what}: a flush");
    let discarded = device.discard(0..block).await;
    assert!(is_refused(&discarded), "{what}: a discard");
    let zeroed = device.write_zeroes(0..block, ZeroedSpace::Keep).await;
    assert!(is_refused(&zeroed), "{what}: zeroes");
}

fn test_volume(layers: &[&'static KindSpec]) {
    on_a_volume(layers, DEVICE_BYTES, |_, layer, what| async move {
        serves_until_closed(&*layer, &what).await;
    });
}

#[test]
fn a_closed_volume_of_any_kind_refuses_requests() {
    for kind in kind_specs() {
        test_volume(&[kind]);
    }
    test_volume(&[DEFAULT_KIND, LOG_STRUCTURED]);
}
