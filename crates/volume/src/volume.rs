//! A volume whose devices are open, for every kind of layer: attaching and inspecting it.

use std::rc::Rc;

use forebay_dcd::FailedLogRegistry;
use forebay_device::DeviceError;
use forebay_dfs::FsClock;
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;

use crate::cache::{AcceptedFaults, AttachedLayer, cache_of};
use crate::files::DumpError;
use crate::open::open_cache;
use crate::space::{self, SpaceOptions};
use crate::status::{LayerCheckReport, LayerDumpItem, LayerSalvageReport};
use crate::{
    CacheDevices, CacheOptions, DeviceSpec, LayerKind, LayerTree, OpenDevice, StackError,
    VolumeName, cache, files, open_one, over,
};

/// The opened devices of a volume.
pub enum VolumeDevices {
    /// The two devices of a write cache.
    Cache(Box<CacheDevices>),
    /// The device of a log-structured volume, and its options.
    Space(Box<OpenDevice>, SpaceOptions),
    /// The device of a filesystem, and the options of its space.
    Files(Box<OpenDevice>, SpaceOptions),
}

/// Opens the devices of a volume.
///
/// # Errors
/// If a device cannot be opened, or two devices do not go together.
pub fn open(
    rt: &Rt,
    ring: &Rc<IoRing>,
    tree: &LayerTree,
    options: DeviceOpenOptions,
) -> Result<VolumeDevices, StackError> {
    Ok(match tree {
        LayerTree::Cache(cache) => {
            VolumeDevices::Cache(Box::new(open_cache(rt, ring, cache, options)?))
        }
        LayerTree::Space(space) => {
            let data = open_one(rt, ring, &space.data, options)?;
            VolumeDevices::Space(Box::new(data), space.options.clone())
        }
        LayerTree::Files(space) => {
            let data = open_one(rt, ring, &space.data, options)?;
            VolumeDevices::Files(Box::new(data), space.options.clone())
        }
    })
}

impl VolumeDevices {
    /// Returns the device that identifies the volume.
    pub fn own(&self) -> SuperblockDevice {
        match self {
            VolumeDevices::Cache(pair) => SuperblockDevice {
                kind: LayerKind::Cache,
                part: pair.log.clone(),
            },
            VolumeDevices::Space(data, _) => SuperblockDevice {
                kind: LayerKind::Space,
                part: (**data).clone(),
            },
            VolumeDevices::Files(data, _) => SuperblockDevice {
                kind: LayerKind::Files,
                part: (**data).clone(),
            },
        }
    }

    /// Returns the data device, if it is separate.
    fn data(&self) -> Option<&OpenDevice> {
        match self {
            VolumeDevices::Cache(pair) => Some(&pair.data),
            VolumeDevices::Space(..) | VolumeDevices::Files(..) => None,
        }
    }

    /// Returns the same devices with default options.
    #[must_use]
    pub fn by_default(self) -> VolumeDevices {
        match self {
            VolumeDevices::Cache(mut pair) => {
                pair.options = CacheOptions::default();
                pair.below = pair.below.map(|_| SpaceOptions::default());
                VolumeDevices::Cache(pair)
            }
            VolumeDevices::Space(data, _) => VolumeDevices::Space(data, SpaceOptions::default()),
            VolumeDevices::Files(data, _) => VolumeDevices::Files(data, SpaceOptions::default()),
        }
    }

    /// Checks all devices, and that they belong to one volume. Changes nothing. `progress` receives the bytes done and
    /// the total bytes.
    ///
    /// # Errors
    /// If a device does not hold a Forebay structure, or cannot be read.
    pub async fn check(
        &self,
        rt: &Rt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LayerCheckReport, StackError> {
        match self {
            VolumeDevices::Cache(pair) if pair.below.is_some() => {
                over::check(rt, pair, progress).await
            }
            _ => self.own().look(rt, self.data(), progress).await,
        }
    }

    /// Describes the data that stays when the volume is removed; `None` if it is lost.
    pub fn stays(&self) -> Option<String> {
        match self {
            VolumeDevices::Cache(pair) => Some(match pair.below {
                None => format!("{} is complete by itself", pair.data.spec),
                Some(_) => format!(
                    "the log-structured volume on {0} is complete by itself (forebay attach --data {0})",
                    pair.data.spec
                ),
            }),
            VolumeDevices::Space(..) | VolumeDevices::Files(..) => None,
        }
    }

    /// Describes the data that is lost when the volume is removed; `None` if everything stays on the data device.
    pub fn loses(&self) -> Option<String> {
        match self {
            VolumeDevices::Cache(_) => None,
            VolumeDevices::Space(data, _) => Some(format!("all data on {}", data.spec)),
            VolumeDevices::Files(data, _) => Some(format!("all files on {}", data.spec)),
        }
    }
}

/// Recovers a volume and attaches it under a name. `witness` keeps failed-log records on a third device, for logs that
/// failed and could not be marked so themselves. `clock` returns the time.
///
/// # Errors
/// If the volume cannot be attached, or attaching could lose something that `accept` does not permit.
pub async fn attach(
    rt: Rt,
    opened: VolumeDevices,
    name: &str,
    accept: AcceptedFaults,
    (witness, clock): (Option<Rc<dyn FailedLogRegistry>>, FsClock),
) -> Result<AttachedLayer, StackError> {
    match opened {
        VolumeDevices::Cache(pair) => match pair.below.clone() {
            Some(below) => over::attach(rt, *pair, &below, name, accept, witness).await,
            None => cache::attach(rt, *pair, accept, witness).await,
        },
        VolumeDevices::Space(data, options) => {
            space::attach(rt, *data, &options, name, accept.loss).await
        }
        VolumeDevices::Files(data, options) => {
            files::attach(rt, *data, &options, name, (accept.loss, clock)).await
        }
    }
}

/// Writes to the data device the data that was lost with an abandoned log, as far as the log can be read now.
///
/// # Errors
/// If the log was not abandoned or belongs to another data device, or a device fails.
pub async fn salvage(opened: &VolumeDevices) -> Result<LayerSalvageReport, StackError> {
    match opened {
        VolumeDevices::Cache(pair) if pair.below.is_some() => {
            Err(StackError::SalvageOver(pair.log.spec.to_string()))
        }
        VolumeDevices::Cache(pair) => cache::salvage(pair).await,
        VolumeDevices::Space(data, _) | VolumeDevices::Files(data, _) => {
            Err(StackError::NothingToSalvage(data.spec.to_string()))
        }
    }
}

/// Identity of a volume, as recorded on its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeIdentity {
    /// The volume's name. If the device does not record a name, a name made from the device's name.
    pub name: String,
    /// The volume's id.
    pub volume: String,
    /// True if everything is on the data device, so that the log can be erased without being read.
    pub clean: bool,
    /// True if the log failed and was abandoned: it is never applied.
    pub abandoned: bool,
}

/// The device that identifies a volume: the log of a cache, or the only device of a log-structured volume or a
/// filesystem.
#[derive(Clone)]
pub struct SuperblockDevice {
    kind: LayerKind,
    part: OpenDevice,
}

/// Returns the device that identifies a volume named by its devices: the log if given, else the data device.
pub fn named_by<'a>(
    log: Option<&'a DeviceSpec>,
    data: Option<&'a DeviceSpec>,
) -> Option<(LayerKind, &'a DeviceSpec)> {
    let log = log.map(|log| (LayerKind::Cache, log));
    log.or(data.map(|data| (LayerKind::Space, data)))
}

impl SuperblockDevice {
    /// Opens the device.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(
        rt: &Rt,
        ring: &Rc<IoRing>,
        (kind, spec): (LayerKind, &DeviceSpec),
        options: DeviceOpenOptions,
    ) -> Result<SuperblockDevice, StackError> {
        let part = open_one(rt, ring, spec, options)?;
        Ok(SuperblockDevice { kind, part })
    }

    /// Returns the device as given.
    pub fn spec(&self) -> &DeviceSpec {
        &self.part.spec
    }

    /// Returns the identity of the volume.
    ///
    /// # Errors
    /// If the device holds no volume, or cannot be read.
    pub async fn inspect(&self) -> Result<VolumeIdentity, StackError> {
        match self.kind {
            LayerKind::Cache => {
                let info = cache::inspect(&self.part).await?;
                Ok(VolumeIdentity {
                    name: info.name,
                    volume: info.volume,
                    clean: info.clean,
                    abandoned: info.abandoned,
                })
            }
            LayerKind::Space | LayerKind::Files => {
                let inspected = space::inspect(&*self.part.device).await;
                let superblock = inspected.map_err(|error| self.not_a_space(error))?;
                let volume = superblock.volume.to_string();
                let name = VolumeName::from_path(self.part.spec.path());
                Ok(VolumeIdentity {
                    name: name.map_or_else(|| volume.clone(), |name| name.to_string()),
                    volume,
                    clean: false,
                    abandoned: false,
                })
            }
        }
    }

    /// Returns the identity and the structure of the volume, as far as this device records them. If `data` is given, it
    /// names the data device.
    ///
    /// # Errors
    /// If the device holds no volume, cannot be read, or does not record its data device.
    pub async fn tree(
        &self,
        data: Option<&DeviceSpec>,
    ) -> Result<(VolumeIdentity, LayerTree), StackError> {
        let info = self.inspect().await?;
        let own = self.part.spec.clone();
        let tree = match self.kind {
            LayerKind::Cache => cache_of(own, &cache::inspect(&self.part).await?, data)?,
            LayerKind::Space | LayerKind::Files => {
                if self.holds_files().await {
                    LayerTree::files(own)
                } else {
                    LayerTree::space(own)
                }
            }
        };
        Ok((info, tree))
    }

    /// Returns true if the device holds the space of a filesystem, however it was named.
    async fn holds_files(&self) -> bool {
        let superblock = space::inspect(&*self.part.device).await;
        superblock.is_ok_and(|superblock| space::is_of_files(&superblock))
    }

    /// Checks the device by itself. Changes nothing. `progress` receives the bytes done and the total bytes.
    ///
    /// # Errors
    /// If the device does not hold a Forebay structure, or cannot be read.
    pub async fn check(
        &self,
        rt: &Rt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LayerCheckReport, StackError> {
        self.look(rt, None, progress).await
    }

    async fn look(
        &self,
        rt: &Rt,
        data: Option<&OpenDevice>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<LayerCheckReport, StackError> {
        match self.kind {
            LayerKind::Cache => cache::check(&self.part, data, progress).await,
            LayerKind::Space | LayerKind::Files if self.holds_files().await => {
                let report = files::check(rt, &self.part, progress).await?;
                Ok(LayerCheckReport::Files(Box::new(report)))
            }
            LayerKind::Space | LayerKind::Files => {
                let checked = space::check(rt, &self.part.device, progress).await;
                let report = checked.map_err(|error| self.not_a_space(error))?;
                Ok(LayerCheckReport::Space(report))
            }
        }
    }

    /// Passes every valid structure to `out`. Changes nothing.
    ///
    /// # Errors
    /// If the device does not hold a Forebay structure, or cannot be read. The superblocks have been passed before.
    pub async fn dump(
        &self,
        rt: &Rt,
        out: &mut dyn FnMut(LayerDumpItem),
    ) -> Result<(), StackError> {
        match self.kind {
            LayerKind::Cache => cache::dump(&self.part, out).await,
            LayerKind::Space | LayerKind::Files => {
                let mut each = |item| out(LayerDumpItem::Space(item));
                let dumped = space::dump(&self.part.device, &mut each).await;
                dumped.map_err(|error| self.not_a_space(error))?;
                if !self.holds_files().await {
                    return Ok(());
                }
                let mut each = |item| out(LayerDumpItem::Files(item));
                let dumped = files::dump(rt, &self.part.device, &mut each).await;
                dumped.map_err(|error| self.not_files(error))
            }
        }
    }

    /// Erases the structures by which the volume is recognised.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn erase(&self) -> Result<(), DeviceError> {
        match self.kind {
            LayerKind::Cache => cache::erase(&self.part).await,
            LayerKind::Space | LayerKind::Files => space::erase(&*self.part.device).await,
        }
    }

    fn not_a_space(&self, error: forebay_vsl::SpaceOpenError) -> StackError {
        StackError::not_a_space(&self.part.spec, error)
    }

    fn not_files(&self, error: DumpError) -> StackError {
        let path = self.part.spec.to_string();
        match error {
            DumpError::Space(error) => self.not_a_space(error),
            DumpError::Files(error) => StackError::NotFiles { data: path, error },
            DumpError::Fs(error) => StackError::ReadFiles { path, error },
        }
    }
}
