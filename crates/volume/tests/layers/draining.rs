//! A volume in use continues after a drain, and after its devices were held still.

use std::time::Duration;

use forebay_device::BufMut;
use forebay_dfs::{FileKind, FileSpec, ROOT};
use forebay_volume::{KindSpec, kind_specs};

use crate::made::on_a_volume;

const DEVICE_BYTES: u64 = 64 << 20;
const FILE_BYTES: u64 = 24 << 20;
const WRITE_BYTES: u64 = 1 << 20;
/// Maximum time of a write. A write that waits for a resting cleaner never ends.
const SOON: Duration = Duration::from_secs(60);

fn filesystem() -> &'static KindSpec {
    let mut kinds = kind_specs();
    kinds.find(|kind| kind.title == "filesystem").expect("one")
}

/// Drains a filesystem, and then overwrites a file until only the cleaner can provide free space.
#[test]
fn the_cleaner_of_a_filesystem_works_after_a_drain_and_after_a_freeze() {
    on_a_volume(&[filesystem()], DEVICE_BYTES, |rt, layer, _| async move {
        let (fs, _) = layer.files().expect("a filesystem");
        let new = FileSpec::of(FileKind::Regular, 0o600);
        let file = fs.make(ROOT, b"file", &new).await.expect("made").file;
        layer.drain().await.expect("drained");
        layer.hold_still().await.expect("held");
        layer.resume();
        for round in 0..8 {
            for at in (0..FILE_BYTES).step_by(WRITE_BYTES as usize) {
                let data = BufMut::copy_of(&vec![round; WRITE_BYTES as usize]).freeze();
                let written = rt.timeout(SOON, fs.write(file, Some(at), data)).await;
                let written = written.unwrap_or_else(|_| panic!("round {round} hangs at {at}"));
                written.expect("free space");
            }
        }
        layer.close().await.expect("closed");
    });
}
