//! The contract of `Layer::close`, for every kind of volume.

use std::rc::Rc;

use forebay_device::{BufMut, DeviceError, Durability, ZeroedSpace};
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::{Executor, Rt};
use forebay_volume::{
    AcceptedFaults, AttachContext, CreateContext, CreateSpec, DEFAULT_KIND, DeviceMap, DeviceSpec,
    FileTime, FsClock, KindSpec, LOG_STRUCTURED, Layer, OpenContext, OptionValues, kind_specs,
    open,
};

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

/// Runs work on an executor of its own. At its end, the executor has released all devices.
fn run<T: 'static, F: Future<Output = T> + 'static>(work: impl FnOnce(Rt, Rc<IoRing>) -> F) -> T {
    let ring = IoRing::new(64).expect("a ring");
    let executor = Executor::new(ring.clone());
    let rt = executor.rt();
    executor.block_on(work(rt, ring))
}

fn context<'a>(rt: &'a Rt, ring: &'a Rc<IoRing>) -> OpenContext<'a> {
    let options = DeviceOpenOptions::existing();
    OpenContext { rt, ring, options }
}

/// Creates a volume with a device in each role of `layers`, the lowest layer last, and tests it.
fn test_volume(layers: &[&'static KindSpec]) {
    let titles: Vec<&str> = layers.iter().map(|kind| kind.title).collect();
    let what = titles.join(" over a ");
    let dir = tempfile::tempdir().expect("a directory");
    let mut devices = DeviceMap::default();
    for role in layers.iter().flat_map(|kind| kind.roles) {
        let path = dir.path().join(role.name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(DEVICE_BYTES).expect("a length");
        devices.set(role.name, DeviceSpec::whole(path));
    }
    let spec = CreateSpec {
        kind: layers.last().expect("a layer"),
        devices,
        options: OptionValues::default(),
        owner: (0, 0),
        hash_key: [7; 16],
    };
    let clock = || -> FsClock { Rc::new(FileTime::default) };
    let title = what.clone();
    let tree = run(|rt, ring| async move {
        let created = spec.open(context(&rt, &ring)).expect(&title);
        let (name, clock) = ("v".parse().expect("a name"), clock());
        let report = created.create(CreateContext {
            rt: &rt,
            name: &name,
            id: [9; 16],
            clock: &clock,
        });
        report.await.expect(&title).tree
    });
    run(|rt, ring| async move {
        let opened = open(&tree, context(&rt, &ring)).expect(&what);
        let attached = opened.attach(AttachContext {
            rt: rt.clone(),
            name: "v".into(),
            accept: AcceptedFaults::default(),
            failed_logs: None,
            clock: clock(),
        });
        let layer = attached.await.expect(&what).layer;
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
