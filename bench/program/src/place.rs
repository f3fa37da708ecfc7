//! Scratch files, devices on them, and volumes over these devices.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use forebay_dcd::{AttachOptions, CreateOptions, DataIdentity, DcdVolume, VolumeId};
use forebay_device::Device;
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::{Executor, Rt};
use forebay_units::ByteLen;

/// Files that are removed at the end.
pub(crate) struct ScratchFiles(Vec<PathBuf>);

impl ScratchFiles {
    pub(crate) fn new() -> ScratchFiles {
        ScratchFiles(Vec::new())
    }

    /// Creates a file of `len` bytes, filled with written zeroes unless it must be sparse.
    pub(crate) fn file(
        &mut self,
        dir: &Path,
        name: &str,
        len: ByteLen,
        sparse: bool,
    ) -> anyhow::Result<PathBuf> {
        let path = dir.join(name);
        let _ = std::fs::remove_file(&path);
        forebay_linux::create_file(&path, len.0, sparse)?;
        self.0.push(path.clone());
        if !sparse {
            let filled = path.clone();
            on_ring(move |_, ring| async move {
                let device = open(&ring, &filled)?;
                forebay_linux::zero_fill(&*device, |_, _| {}).await?;
                Ok(())
            })?;
        }
        Ok(path)
    }
}

impl Drop for ScratchFiles {
    fn drop(&mut self) {
        for path in &self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Runs a function on an executor over a ring of its own.
pub(crate) fn on_ring<T, F>(each: impl FnOnce(Rt, Rc<IoRing>) -> F) -> anyhow::Result<T>
where
    T: 'static,
    F: Future<Output = anyhow::Result<T>> + 'static,
{
    let ring = IoRing::new(512).context("io_uring")?;
    let executor = Executor::new(ring.clone());
    executor.block_on(each(executor.rt(), ring))
}

pub(crate) fn open(ring: &Rc<IoRing>, path: &Path) -> anyhow::Result<Rc<dyn Device>> {
    Ok(forebay_linux::open(ring, path, DeviceOpenOptions::default())?.device)
}

fn identity() -> DataIdentity {
    DataIdentity {
        len: 0,
        path: "scratch".into(),
        names: Vec::new(),
    }
}

/// Returns an id that no earlier log on this file had.
pub(crate) fn fresh_id() -> VolumeId {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    VolumeId(now.unwrap_or_default().as_nanos().to_le_bytes())
}

/// Formats a log.
pub(crate) async fn create(log: Rc<dyn Device>, data: Rc<dyn Device>) -> anyhow::Result<()> {
    let options = CreateOptions {
        name: "bench".into(),
        volume: fresh_id(),
        segment: ByteLen::mib(1),
        data: identity(),
    };
    forebay_dcd::create(log, data, options).await?;
    Ok(())
}

pub(crate) async fn attach(
    rt: Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
) -> anyhow::Result<DcdVolume> {
    attach_with(rt, log, data, AttachOptions::default()).await
}

pub(crate) async fn attach_with(
    rt: Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    options: AttachOptions,
) -> anyhow::Result<DcdVolume> {
    let (volume, _) = DcdVolume::attach(rt, log, data, identity(), options).await?;
    Ok(volume)
}
