//! SLEDs of a file, made from residency, device and table (the paper's section 4.1, without its kernel).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use serde::Serialize;

use crate::device::{DeviceClass, FilePlace};
use crate::extents::{self, BackingTier};
use crate::forebay::TieredStore;
use crate::level::StorageLevel;
use crate::located::{ByteOrigin, ExtraTiers, LocatedDevice, ZoneRates, refreshed, through};
use crate::observed;
use crate::residency::{self, Presence};
use crate::table::{DeviceTable, DeviceTableError, EstimateRange, RateSource, ReadRates, usual};
use crate::{format, sys};

/// A storage latency estimation descriptor (the paper's figure 2): the cost of reading a part of a file.
///
/// The SLEDs of a file are in order and cover it exactly. Adjacent SLEDs differ in more than their place.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[expect(non_snake_case, reason = "B is the unit's symbol: bytes, not bits")]
pub struct Sled {
    /// First byte.
    pub offset: u64,
    /// Length in bytes; never 0.
    pub length: u64,
    /// Seconds until the first byte; `None` if not known.
    pub latency_s: Option<EstimateRange>,
    /// Bytes per second after the first byte, with the best plan; `None` if not known.
    pub bandwidth_Bps: Option<EstimateRange>,
    /// Bytes per second with the linear plan; `None` if equal to `bandwidth_Bps`, or not known.
    pub linear_Bps: Option<EstimateRange>,
    /// Level that the bytes come from.
    pub level: StorageLevel,
    /// Origin of the numbers.
    pub source: RateSource,
}

impl Sled {
    /// Returns the end of the part (exclusive).
    pub fn end(&self) -> u64 {
        self.offset + self.length
    }

    /// Returns latency and bandwidths together; `None` if they are not known.
    pub fn rates(&self) -> Option<ReadRates> {
        Some(ReadRates {
            latency_s: self.latency_s?,
            bandwidth_Bps: self.bandwidth_Bps?,
            linear_Bps: self.linear_Bps,
        })
    }

    fn is_like(&self, other: &Sled) -> bool {
        self.level == other.level && self.rates() == other.rates() && self.source == other.source
    }
}

/// Reasons for which a file has no SLEDs.
#[derive(thiserror::Error, Debug)]
pub enum DescribeError {
    /// The file is a directory.
    #[error("is a directory")]
    Directory,
    /// The file is a pipe, a socket or a terminal, whose data does not exist yet. Or the kernel generates the file's
    /// content during the read (`/proc`, `/sys`).
    #[error("has no length: a pipe, a socket, a terminal, or made up as it is read")]
    Stream,
    /// The file cannot be examined.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Holder of a part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RangeHolder {
    Cache,
    /// The part is a hole, or was never written.
    Nothing,
    /// The device, or a tier in front of the device.
    Device(ByteOrigin),
    Unknown,
}

/// A part of a file with one holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HeldRange {
    pub(crate) offset: u64,
    pub(crate) end: u64,
    pub(crate) holder: RangeHolder,
}

/// Returns the parts of bytes `from` to `to`: residency, refined by extents and by the tiers below.
pub(crate) fn parts(
    file: &File,
    (from, to): (u64, u64),
    located: &LocatedDevice,
) -> io::Result<Vec<HeldRange>> {
    let runs = residency::residency(file, from, to)?;
    let absent = || runs.iter().filter(|run| run.presence == Presence::Absent);
    // A single query of the filesystem's map covers all absent runs. If every second page is cached, a query for each
    // run costs more than everything else.
    let map = match (absent().next(), absent().next_back()) {
        (Some(first), Some(last)) => match &located.tiers {
            None => extents::extents(file, first.offset, last.end()),
            Some(tiers) => {
                let bytes = (first.offset, last.end());
                tiers.below.extents(file, bytes, located.place.start)
            }
        },
        _ => Vec::new(),
    };
    let mut map = &map[..];
    let mut parts = Vec::with_capacity(runs.len());
    for run in &runs {
        let mut add = |offset, end, holder| {
            parts.push(HeldRange {
                offset,
                end,
                holder,
            });
        };
        match run.presence {
            Presence::Cached => add(run.offset, run.end(), RangeHolder::Cache),
            Presence::Unknown => add(run.offset, run.end(), RangeHolder::Unknown),
            Presence::Absent => {
                while let [extent, rest @ ..] = map {
                    let (offset, end) = (extent.offset.max(run.offset), extent.end.min(run.end()));
                    if offset < end {
                        let holder = match extent.under {
                            BackingTier::Nothing => RangeHolder::Nothing,
                            BackingTier::Data(at) => {
                                let at = at.map(|at| at + (offset - extent.offset));
                                RangeHolder::Device(ByteOrigin::Device(at))
                            }
                            BackingTier::Memory => RangeHolder::Device(ByteOrigin::Memory),
                            BackingTier::Log => RangeHolder::Device(ByteOrigin::Log),
                            BackingTier::Unknown => RangeHolder::Unknown,
                        };
                        add(offset, end, holder);
                    }
                    if extent.end > run.end() {
                        break;
                    }
                    map = rest;
                }
            }
        }
    }
    Ok(parts)
}

/// Makes SLEDs from one table, and keeps the devices that it has looked up.
pub struct Describer {
    table: DeviceTable,
    problem: Option<DeviceTableError>,
    path: Option<PathBuf>,
    located: HashMap<u64, Arc<LocatedDevice>>,
    /// Generation of the observations that `located` takes into account.
    observed: u64,
}

impl Default for Describer {
    fn default() -> Describer {
        Describer::new()
    }
}

impl Describer {
    /// Makes a describer with this machine's table. Uses defaults if that table cannot be used: see
    /// [`Describer::problem`].
    pub fn new() -> Describer {
        match format::load() {
            Ok((table, path)) => {
                observed::load(&observed::path_beside(&path));
                Describer {
                    path: Some(path),
                    ..Describer::with_table(table)
                }
            }
            Err(problem) => Describer {
                problem: Some(problem),
                ..Describer::with_table(DeviceTable::default())
            },
        }
    }

    /// Makes a describer with the given table.
    pub fn with_table(table: DeviceTable) -> Describer {
        Describer {
            table,
            problem: None,
            path: None,
            located: HashMap::new(),
            observed: 0,
        }
    }

    /// Returns the reason why the machine's table is not used.
    pub fn problem(&self) -> Option<&DeviceTableError> {
        self.problem.as_ref()
    }

    /// Returns the path of the table's file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the table in use.
    pub fn table(&self) -> &DeviceTable {
        &self.table
    }

    /// Returns the device that `file` lies on. Each filesystem is looked up once.
    pub(crate) fn locate(&mut self, file: &File) -> io::Result<Arc<LocatedDevice>> {
        let meta = file.metadata()?;
        let number = match meta.mode() & libc::S_IFMT {
            libc::S_IFBLK => meta.rdev(),
            _ => meta.dev(),
        };
        let observed = observed::generation();
        if observed != self.observed {
            self.located.clear();
            self.observed = observed;
        }
        if let Some(found) = self.located.get(&number) {
            return Ok(Arc::clone(found));
        }
        let place = FilePlace::of(file)?;
        let located = Arc::new(match TieredStore::of(file, &place) {
            None => LocatedDevice {
                start: place.start,
                zones: self.zones(&place),
                tiers: None,
                place,
            },
            Some(below) => self.locate_over(below, place),
        });
        self.located.insert(number, Arc::clone(&located));
        Ok(located)
    }

    /// Returns the place of `file`, with the devices below it, if Forebay below the file reports them.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn place_of(&mut self, file: &File) -> io::Result<FilePlace> {
        Ok(self.locate(file)?.place.clone())
    }

    /// Returns the level of the file's uncached parts, and the origin of the level's numbers. On a device with zones,
    /// the first zone is used.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn level_of(&mut self, file: &File) -> io::Result<(StorageLevel, RateSource)> {
        let located = self.locate(file)?;
        let zone = located.somewhere();
        Ok((zone.level.clone(), zone.source))
    }

    fn zones(&self, place: &FilePlace) -> Vec<ZoneRates> {
        let top = place.top();
        if top.class == DeviceClass::Memory && self.table.find(&place.chain).is_none() {
            return vec![ZoneRates {
                start: 0,
                level: StorageLevel::Memory,
                rates: Some(self.table.memory),
                source: self.table.memory_source,
                key: top.identity.as_str().into(),
            }];
        }
        let Some(entry) = self.table.find(&place.chain) else {
            let class = place.class();
            let rates = usual(class);
            let level = match rates {
                Some(_) => StorageLevel::Device(top.name.as_str().into()),
                None => StorageLevel::Unknown,
            };
            let source = rates.map_or(RateSource::Unknown, |_| RateSource::Default);
            let key: Arc<str> = top.identity.as_str().into();
            return vec![refreshed(ZoneRates {
                start: 0,
                level,
                rates,
                source,
                key,
            })];
        };
        let zones = entry.zones.iter().map(|zone| {
            let name = match zone.name.as_str() {
                "" => entry.name.clone(),
                zone => format!("{}:{zone}", entry.name),
            };
            refreshed(ZoneRates {
                start: zone.start,
                level: StorageLevel::Device(name.into()),
                rates: Some(zone.rates()),
                source: RateSource::Measured,
                key: format!("{}#{}", entry.identity, zone.start).into(),
            })
        });
        // Zones are places on the device itself. They do not apply to a device that is made of it.
        if entry.identity == top.identity {
            zones.collect()
        } else {
            zones.take(1).collect()
        }
    }

    /// Locates a file on a Forebay device or filesystem. The device below it is looked up in the table as well; its
    /// cost is the cost of that device plus the way through Forebay.
    fn locate_over(&self, below: TieredStore, mut place: FilePlace) -> LocatedDevice {
        let memory = self.table.memory;
        let tier = |what: &str, key: &str, rates, source| ZoneRates {
            start: 0,
            level: StorageLevel::Device(format!("{}/{what}", below.name).into()),
            rates,
            source,
            key: key.into(),
        };
        let over = |zone: ZoneRates| ZoneRates {
            rates: zone.rates.map(|rates| through(rates, below.trip_s, memory)),
            ..zone
        };
        let log = below
            .log
            .as_ref()
            .map(|log| over(self.zones(log)[0].clone()));
        let log = match log {
            Some(log) => tier("log", &log.key, log.rates, log.source),
            None => tier("log", "", None, RateSource::Unknown),
        };
        let in_memory = through(memory, below.trip_s, memory);
        let in_memory = tier("memory", "", Some(in_memory), RateSource::Default);
        let (zones, start) = match &below.home {
            // The Forebay device itself was measured.
            _ if self.table.find(&place.chain).is_some() => (self.zones(&place), place.start),
            None => (self.zones(&place), place.start),
            Some((home, start)) => {
                let zones = self.zones(home).into_iter().map(over).collect();
                let partition = place.start.unwrap_or(0);
                (zones, start.map(|start| start.saturating_add(partition)))
            }
        };
        if let Some((home, _)) = &below.home {
            place.chain.extend(home.chain.iter().cloned());
        }
        LocatedDevice {
            place,
            zones,
            start,
            tiers: Some(ExtraTiers {
                below,
                memory: in_memory,
                log,
            }),
        }
    }

    /// Returns the SLEDs of a file. Empty for an empty file.
    ///
    /// # Errors
    /// If `file` has no length, or cannot be examined. If the kernel refuses the residency, the result is no error but
    /// [`StorageLevel::Unknown`].
    pub fn describe(&mut self, file: &File) -> Result<Vec<Sled>, DescribeError> {
        let length = length(file)?;
        self.describe_part(file, 0, length)
    }

    /// Returns the SLEDs of bytes `from` to `to`.
    pub(crate) fn describe_part(
        &mut self,
        file: &File,
        from: u64,
        to: u64,
    ) -> Result<Vec<Sled>, DescribeError> {
        let located = self.locate(file)?;
        let mut sleds = Vec::new();
        for part in parts(file, (from, to), &located)? {
            let (offset, length) = (part.offset, part.end - part.offset);
            let sled = match part.holder {
                RangeHolder::Cache | RangeHolder::Nothing => self.memory(offset, length),
                RangeHolder::Device(spot) => on_device(offset, length, located.zone(spot)),
                RangeHolder::Unknown => unknown(offset, length),
            };
            push(&mut sleds, sled);
        }
        Ok(sleds)
    }

    pub(crate) fn memory(&self, offset: u64, length: u64) -> Sled {
        let (rates, source) = (self.table.memory, self.table.memory_source);
        sled(offset, length, Some(rates), StorageLevel::Memory, source)
    }
}

pub(crate) fn on_device(offset: u64, length: u64, zone: &ZoneRates) -> Sled {
    sled(offset, length, zone.rates, zone.level.clone(), zone.source)
}

pub(crate) fn unknown(offset: u64, length: u64) -> Sled {
    sled(
        offset,
        length,
        None,
        StorageLevel::Unknown,
        RateSource::Unknown,
    )
}

fn sled(
    offset: u64,
    length: u64,
    rates: Option<ReadRates>,
    level: StorageLevel,
    source: RateSource,
) -> Sled {
    Sled {
        offset,
        length,
        latency_s: rates.map(|rates| rates.latency_s),
        bandwidth_Bps: rates.map(|rates| rates.bandwidth_Bps),
        linear_Bps: rates.and_then(|rates| rates.linear_Bps),
        level,
        source,
    }
}

fn push(sleds: &mut Vec<Sled>, sled: Sled) {
    match sleds.last_mut() {
        Some(last) if last.is_like(&sled) => last.length += sled.length,
        _ => sleds.push(sled),
    }
}

/// Returns the length of a file or block device in bytes.
pub(crate) fn length(file: &File) -> Result<u64, DescribeError> {
    let meta = file.metadata()?;
    match meta.mode() & libc::S_IFMT {
        libc::S_IFREG if is_made_up(file) => Err(DescribeError::Stream),
        libc::S_IFREG => Ok(meta.len()),
        libc::S_IFDIR => Err(DescribeError::Directory),
        libc::S_IFBLK => Ok(sys::block_device_bytes(file.as_fd())?),
        _ => Err(DescribeError::Stream),
    }
}

/// Returns true if the kernel generates the file's content during the read. The length of such a file is meaningless.
fn is_made_up(file: &File) -> bool {
    const PROC: i64 = 0x9fa0;
    const SYSFS: i64 = 0x6265_6572;
    const DEBUGFS: i64 = 0x6462_6720;
    const TRACEFS: i64 = 0x7472_6163;
    const CGROUP: i64 = 0x27_e0eb;
    const CGROUP2: i64 = 0x6367_7270;
    let made_up = [PROC, SYSFS, DEBUGFS, TRACEFS, CGROUP, CGROUP2];
    rustix::fs::fstatfs(file).is_ok_and(|fs| made_up.contains(&fs.f_type))
}

/// Returns the describer of this process, with this machine's table.
pub(crate) fn shared() -> MutexGuard<'static, Describer> {
    static SHARED: OnceLock<Mutex<Describer>> = OnceLock::new();
    let shared = SHARED.get_or_init(|| Mutex::new(Describer::new()));
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the SLEDs of a file by this machine's table (the paper's `FSLEDS_GET`). Empty for an empty file.
///
/// # Errors
/// If `file` has no length, or cannot be examined. If the kernel refuses the residency, the result is no error but
/// [`StorageLevel::Unknown`].
pub fn describe(file: &File) -> Result<Vec<Sled>, DescribeError> {
    shared().describe(file)
}

/// Returns the level of a file's uncached parts by this machine's table, and the origin of the level's numbers. On a
/// device with zones, the first zone is used.
///
/// # Errors
/// If the file cannot be examined.
pub fn level_of(file: &File) -> io::Result<(StorageLevel, RateSource)> {
    shared().level_of(file)
}
