//! Volumes of any kind in files.

use std::path::Path;
use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::{Executor, Rt};
use forebay_volume::{
    AcceptedFaults, AttachContext, CreateContext, CreateSpec, DeviceMap, DeviceSpec, FileTime,
    FsClock, KindSpec, Layer, OpenContext, OptionValues, open,
};

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

/// Returns the devices of a volume in `dir`: one file of `bytes` bytes for each role of `layers`.
fn devices(dir: &Path, layers: &[&'static KindSpec], bytes: u64) -> DeviceMap {
    let mut devices = DeviceMap::default();
    for role in layers.iter().flat_map(|kind| kind.roles) {
        let path = dir.join(role.name);
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(bytes).expect("a length");
        devices.set(role.name, DeviceSpec::whole(path));
    }
    devices
}

/// Creates and attaches a volume with devices of `bytes` bytes, the lowest layer last, and tests it.
pub(crate) fn on_a_volume<F: Future<Output = ()> + 'static>(
    layers: &[&'static KindSpec],
    bytes: u64,
    test: impl FnOnce(Rt, Rc<dyn Layer>, String) -> F + 'static,
) {
    let titles: Vec<&str> = layers.iter().map(|kind| kind.title).collect();
    let what = titles.join(" over a ");
    let dir = tempfile::tempdir().expect("a directory");
    let spec = CreateSpec {
        kind: layers.last().expect("a layer"),
        devices: devices(dir.path(), layers, bytes),
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
        test(rt, layer, what).await;
    });
}
