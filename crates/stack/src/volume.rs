//! A volume whose devices are open, whatever its layers: taking it into use, and looking at it.

use std::rc::Rc;

use forebay_dcd::Witness;
use forebay_device::DeviceError;
use forebay_dfs::Clock;
use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;

use crate::cache::{Accept, Attached, cache_of};
use crate::files::DumpError;
use crate::open::open_cache;
use crate::space::{self, SpaceOptions};
use crate::status::{CheckReport, DumpItem, SalvageReport};
use crate::{
    CacheOptions, Kind, Name, Pair, Part, Spec, StackError, Tree, cache, files, open_one, over,
};

/// What a volume is made of, opened.
pub enum Opened {
    /// A write cache's two devices.
    Cache(Box<Pair>),
    /// A log-structured volume's device, and how it is set.
    Space(Box<Part>, SpaceOptions),
    /// A filesystem's device, and how its space is set.
    Files(Box<Part>, SpaceOptions),
}

/// Opens what a volume is made of.
///
/// # Errors
/// If a device cannot be opened, or two do not go together.
pub fn open(
    rt: &Rt,
    ring: &Rc<Ring>,
    tree: &Tree,
    options: OpenOptions,
) -> Result<Opened, StackError> {
    Ok(match tree {
        Tree::Cache(cache) => Opened::Cache(Box::new(open_cache(rt, ring, cache, options)?)),
        Tree::Space(space) => {
            let data = open_one(rt, ring, &space.data, options)?;
            Opened::Space(Box::new(data), space.options.clone())
        }
        Tree::Files(space) => {
            let data = open_one(rt, ring, &space.data, options)?;
            Opened::Files(Box::new(data), space.options.clone())
        }
    })
}

impl Opened {
    /// The device that says what the volume is.
    pub fn own(&self) -> Own {
        match self {
            Opened::Cache(pair) => Own {
                kind: Kind::Cache,
                part: pair.log.clone(),
            },
            Opened::Space(data, _) => Own {
                kind: Kind::Space,
                part: (**data).clone(),
            },
            Opened::Files(data, _) => Own {
                kind: Kind::Files,
                part: (**data).clone(),
            },
        }
    }

    /// The data device, where that is another.
    fn data(&self) -> Option<&Part> {
        match self {
            Opened::Cache(pair) => Some(&pair.data),
            Opened::Space(..) | Opened::Files(..) => None,
        }
    }

    /// The same, set as by default.
    #[must_use]
    pub fn by_default(self) -> Opened {
        match self {
            Opened::Cache(mut pair) => {
                pair.options = CacheOptions::default();
                pair.below = pair.below.map(|_| SpaceOptions::default());
                Opened::Cache(pair)
            }
            Opened::Space(data, _) => Opened::Space(data, SpaceOptions::default()),
            Opened::Files(data, _) => Opened::Files(data, SpaceOptions::default()),
        }
    }

    /// Checks all of it, and whether it belongs together. Changes nothing. `progress` is told bytes done and bytes in
    /// all.
    ///
    /// # Errors
    /// If something is none of ours, or cannot be read.
    pub async fn check(
        &self,
        rt: &Rt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, StackError> {
        match self {
            Opened::Cache(pair) if pair.below.is_some() => over::check(rt, pair, progress).await,
            _ => self.own().look(rt, self.data(), progress).await,
        }
    }

    /// What is there when the volume is removed, in words; nothing if that is lost.
    pub fn stays(&self) -> Option<String> {
        match self {
            Opened::Cache(pair) => Some(match pair.below {
                None => format!("{} is complete by itself", pair.data.spec),
                Some(_) => format!(
                    "the log-structured volume on {0} is complete by itself (forebay attach --data {0})",
                    pair.data.spec
                ),
            }),
            Opened::Space(..) | Opened::Files(..) => None,
        }
    }

    /// What is lost when the volume is removed, in words; nothing if all of it stays on its data device.
    pub fn loses(&self) -> Option<String> {
        match self {
            Opened::Cache(_) => None,
            Opened::Space(data, _) => Some(format!("all that is on {}", data.spec)),
            Opened::Files(data, _) => Some(format!("all files on {}", data.spec)),
        }
    }
}

/// Recovers a volume, and takes it into use under a name. `witness` remembers, on a third device, logs
/// that failed and could not be told so; `clock` says what time it is.
///
/// # Errors
/// If it cannot be taken up, or going on could lose something that is not accepted.
pub async fn attach(
    rt: Rt,
    opened: Opened,
    name: &str,
    accept: Accept,
    (witness, clock): (Option<Rc<dyn Witness>>, Clock),
) -> Result<Attached, StackError> {
    match opened {
        Opened::Cache(pair) => match pair.below.clone() {
            Some(below) => over::attach(rt, *pair, &below, name, accept, witness).await,
            None => cache::attach(rt, *pair, accept, witness).await,
        },
        Opened::Space(data, options) => space::attach(rt, *data, &options, name, accept.loss).await,
        Opened::Files(data, options) => {
            files::attach(rt, *data, &options, name, (accept.loss, clock)).await
        }
    }
}

/// Brings home what was lost with a log that was given up, as far as it can be read from it now.
///
/// # Errors
/// If it is not such a log, is not this data device's, or a device fails.
pub async fn salvage(opened: &Opened) -> Result<SalvageReport, StackError> {
    match opened {
        Opened::Cache(pair) if pair.below.is_some() => {
            Err(StackError::SalvageOver(pair.log.spec.to_string()))
        }
        Opened::Cache(pair) => cache::salvage(pair).await,
        Opened::Space(data, _) | Opened::Files(data, _) => {
            Err(StackError::NothingToSalvage(data.spec.to_string()))
        }
    }
}

/// Who a volume is, as its device says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Info {
    /// Its name; of a volume that does not know it, one made from its device's.
    pub name: String,
    /// Its id.
    pub volume: String,
    /// True if everything is on the data device: the log can be erased without a look at that.
    pub clean: bool,
    /// True if the log failed and was given up: it is never applied.
    pub abandoned: bool,
}

/// The device that says what a volume is: a cache's log, a log-structured volume's or a filesystem's only one.
#[derive(Clone)]
pub struct Own {
    kind: Kind,
    part: Part,
}

/// Which device says what a volume is that is named by its devices: the log if one is named, else the data.
pub fn named_by<'a>(log: Option<&'a Spec>, data: Option<&'a Spec>) -> Option<(Kind, &'a Spec)> {
    let log = log.map(|log| (Kind::Cache, log));
    log.or(data.map(|data| (Kind::Space, data)))
}

impl Own {
    /// Opens it.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(
        rt: &Rt,
        ring: &Rc<Ring>,
        (kind, spec): (Kind, &Spec),
        options: OpenOptions,
    ) -> Result<Own, StackError> {
        let part = open_one(rt, ring, spec, options)?;
        Ok(Own { kind, part })
    }

    /// As it was named.
    pub fn spec(&self) -> &Spec {
        &self.part.spec
    }

    /// Who the volume is.
    ///
    /// # Errors
    /// If it is none, or cannot be read.
    pub async fn inspect(&self) -> Result<Info, StackError> {
        match self.kind {
            Kind::Cache => {
                let info = cache::inspect(&self.part).await?;
                Ok(Info {
                    name: info.name,
                    volume: info.volume,
                    clean: info.clean,
                    abandoned: info.abandoned,
                })
            }
            Kind::Space | Kind::Files => {
                let inspected = space::inspect(&*self.part.device).await;
                let superblock = inspected.map_err(|error| self.not_a_space(error))?;
                let volume = superblock.volume.to_string();
                let name = Name::from_path(self.part.spec.path());
                Ok(Info {
                    name: name.map_or_else(|| volume.clone(), |name| name.to_string()),
                    volume,
                    clean: false,
                    abandoned: false,
                })
            }
        }
    }

    /// Who the volume is, and what it is made of as far as this device knows; its data is on `data`, if that
    /// is said.
    ///
    /// # Errors
    /// If it is none, cannot be read, or does not know where its data is.
    pub async fn tree(&self, data: Option<&Spec>) -> Result<(Info, Tree), StackError> {
        let info = self.inspect().await?;
        let own = self.part.spec.clone();
        let tree = match self.kind {
            Kind::Cache => cache_of(own, &cache::inspect(&self.part).await?, data)?,
            Kind::Space | Kind::Files => match self.holds_files().await {
                true => Tree::files(own),
                false => Tree::space(own),
            },
        };
        Ok((info, tree))
    }

    /// Whether the space on it is a filesystem's, however it was named.
    async fn holds_files(&self) -> bool {
        let superblock = space::inspect(&*self.part.device).await;
        superblock.is_ok_and(|superblock| space::is_of_files(&superblock))
    }

    /// Checks it by itself. Changes nothing. `progress` is told bytes done and bytes in all.
    ///
    /// # Errors
    /// If it is none of ours, or cannot be read.
    pub async fn check(
        &self,
        rt: &Rt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, StackError> {
        self.look(rt, None, progress).await
    }

    async fn look(
        &self,
        rt: &Rt,
        data: Option<&Part>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<CheckReport, StackError> {
        match self.kind {
            Kind::Cache => cache::check(&self.part, data, progress).await,
            Kind::Space | Kind::Files if self.holds_files().await => {
                let report = files::check(rt, &self.part, progress).await?;
                Ok(CheckReport::Files(Box::new(report)))
            }
            Kind::Space | Kind::Files => {
                let checked = space::check(rt, &self.part.device, progress).await;
                let report = checked.map_err(|error| self.not_a_space(error))?;
                Ok(CheckReport::Space(report))
            }
        }
    }

    /// Gives every structure that counts to `out`. Changes nothing.
    ///
    /// # Errors
    /// If it is none of ours, or cannot be read; after the superblocks have been given.
    pub async fn dump(&self, rt: &Rt, out: &mut dyn FnMut(DumpItem)) -> Result<(), StackError> {
        match self.kind {
            Kind::Cache => cache::dump(&self.part, out).await,
            Kind::Space | Kind::Files => {
                let mut each = |item| out(DumpItem::Space(item));
                let dumped = space::dump(&self.part.device, &mut each).await;
                dumped.map_err(|error| self.not_a_space(error))?;
                if !self.holds_files().await {
                    return Ok(());
                }
                let mut each = |item| out(DumpItem::Files(item));
                let dumped = files::dump(rt, &self.part.device, &mut each).await;
                dumped.map_err(|error| self.not_files(error))
            }
        }
    }

    /// Makes it unrecognisable.
    ///
    /// # Errors
    /// The device's.
    pub async fn erase(&self) -> Result<(), DeviceError> {
        match self.kind {
            Kind::Cache => cache::erase(&self.part).await,
            Kind::Space | Kind::Files => space::erase(&*self.part.device).await,
        }
    }

    fn not_a_space(&self, error: forebay_vsl::OpenError) -> StackError {
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
