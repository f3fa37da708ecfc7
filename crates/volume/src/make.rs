//! Creates a volume on devices, for every kind of layer.

use std::rc::Rc;

use forebay_dcd::SuperblockContents;
use forebay_dfs::FsClock;
use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_vsl::SEGMENTS_MAX;

use crate::cache::{self, CacheCreateSpec, DetectedLog};
use crate::content::{DeviceContent, probe};
use crate::files::{self, FilesystemCreateSpec};
use crate::over::{self, is_space, is_under_cache};
use crate::space::{self, RequestedPlacement, SpaceCreateSpec, SpaceLength, SpareShare, layout_on};
use crate::{
    CacheDevices, DeviceSpec, LayerKind, LayerTree, OpenDevice, StackError, VolumeName, open_one,
    open_pair,
};

/// Offset of the first segment, both of a log and of a log-structured volume.
const SEGMENTS_AT: u64 = 1 << 20;

/// Default segment size of a cache's log.
const LOG_SEGMENT: ByteLen = ByteLen::mib(1);

/// The longest volume that a cache supports.
const CACHED_MAX: ByteLen = ByteLen::gib(4 << 20);

/// Parameters of a volume to be created.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Kind of the uppermost layer.
    pub kind: LayerKind,
    /// The data device.
    pub data: DeviceSpec,
    /// The log device of a cache, which may be in front of a log-structured volume.
    pub log: Option<DeviceSpec>,
    /// Bytes in a segment.
    pub segment: Option<ByteLen>,
    /// Length of a log-structured volume.
    pub size: Option<ByteLen>,
    /// Placement of data in a log-structured volume.
    pub placement: Option<RequestedPlacement>,
    /// Page size of a log-structured volume in bytes, for placements that track pages.
    pub page: Option<ByteLen>,
    /// Share of a log-structured volume that is kept free.
    pub spare: Option<SpareShare>,
    /// Further parameters of a filesystem.
    pub files: FilesystemCreateSpec,
}

/// The opened devices of a volume to be created; all are still unchanged.
pub struct OpenedForCreate {
    wanted: CreateSpec,
    devices: DevicesToCreate,
}

enum DevicesToCreate {
    Cache(Box<CacheDevices>),
    Space(Box<OpenDevice>),
    Files(Box<OpenDevice>),
    /// A cache over a log-structured volume; both are created.
    Over(Box<CacheDevices>),
}

/// A created volume.
#[derive(Clone, Debug)]
pub struct CreateReport {
    /// The volume's id.
    pub volume: String,
    /// Layers and devices of the volume.
    pub tree: LayerTree,
    /// Description for people.
    pub said: String,
}

impl CreateSpec {
    /// Returns the device that is formatted. For a log-structured volume with a log, the log is formatted, too.
    ///
    /// # Errors
    /// If no such device is named, or a parameter does not fit the kind.
    pub fn own(&self) -> Result<&DeviceSpec, StackError> {
        let refuse = |text: &str| Err(StackError::Wanted(text.into()));
        match (self.kind, &self.log) {
            (LayerKind::Cache, None) => refuse(
                "a write cache needs a log device: name it with --log PATH (or make a log-structured volume, which \
                 needs no log, with --volume vsl)",
            ),
            (LayerKind::Cache, Some(_))
                if self.size.is_some() || self.placement.is_some() || self.page.is_some() =>
            {
                refuse(
                    "--size, --placement and --page are options of log-structured volumes: add --volume vsl",
                )
            }
            (LayerKind::Cache, Some(log)) => Ok(log),
            (LayerKind::Space, _) => self.sizes().map(|()| &self.data),
            (LayerKind::Files, Some(_)) => refuse(
                "a filesystem has only a data device: leave out --log, or put a cache in front of the device first \
                 and make the filesystem on the cached volume",
            ),
            (LayerKind::Files, None) if self.size.is_some() => {
                refuse("a filesystem has the size of its device: leave out --size")
            }
            (LayerKind::Files, None) => {
                self.sizes()?;
                let possible = self.files.geometry();
                possible.map_err(StackError::Wanted)?;
                Ok(&self.data)
            }
        }
    }

    /// Checks the sizes for a log-structured volume.
    fn sizes(&self) -> Result<(), StackError> {
        let refuse = |text: String| Err(StackError::Wanted(text));
        let pages = ByteLen::kib(4)..=ByteLen::kib(64);
        match (self.size, self.page) {
            (Some(size), _) if size < ByteLen::mib(1) => refuse(format!(
                "a volume of --size {size} is too small: give 1MiB or more"
            )),
            (Some(size), _) if size.0 > i64::MAX as u64 => refuse(format!(
                "a volume of --size {size} is too large: give less than 8EiB"
            )),
            (Some(size), _) if self.log.is_some() && size > CACHED_MAX => refuse(format!(
                "a volume of --size {size} is too large for a cache: give {CACHED_MAX} or less, or no --log"
            )),
            (_, Some(page)) if !(pages.contains(&page) && page.0.is_power_of_two()) => refuse(
                format!("--page {page} is not supported: give a power of two from 4KiB to 64KiB"),
            ),
            _ => Ok(()),
        }
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// If a device cannot be opened, two devices do not go together, or the device to be formatted is unsuitable.
    pub fn open(self, rt: &Rt, ring: &Rc<IoRing>) -> Result<OpenedForCreate, StackError> {
        let own = self.own()?.clone();
        let pair = |log| -> Result<CacheDevices, StackError> {
            let pair = open_pair(rt, ring, log, &self.data, DeviceOpenOptions::default())?;
            let room = cache::room_for_log(&pair.log.device.geometry(), self.log_segment());
            room.map_err(|error| unfit(log, "a log", &error))?;
            Ok(pair)
        };
        let fits = |data: &OpenDevice| match layout_on(&data.device.geometry(), &self.space()) {
            Ok(_) => Ok(()),
            Err(error) => Err(unfit(&own, "a log-structured volume", &error)),
        };
        let devices = match (self.kind, &self.log) {
            (LayerKind::Cache, _) => DevicesToCreate::Cache(Box::new(pair(&own)?)),
            (LayerKind::Space, None) | (LayerKind::Files, _) => {
                let data = open_one(rt, ring, &own, DeviceOpenOptions::default())?;
                fits(&data)?;
                match self.kind {
                    LayerKind::Files => DevicesToCreate::Files(Box::new(data)),
                    _ => DevicesToCreate::Space(Box::new(data)),
                }
            }
            (LayerKind::Space, Some(log)) => {
                let pair = pair(log)?;
                fits(&pair.data)?;
                DevicesToCreate::Over(Box::new(pair))
            }
        };
        let wanted = self;
        Ok(OpenedForCreate { wanted, devices })
    }

    /// Returns the segment size of the log. For a log-structured volume, `segment` is the size of the volume's own
    /// segments.
    fn log_segment(&self) -> ByteLen {
        let said = self.segment.filter(|_| self.kind == LayerKind::Cache);
        said.unwrap_or(LOG_SEGMENT)
    }

    fn space(&self) -> SpaceCreateSpec {
        SpaceCreateSpec {
            size: self.size,
            segment: self.segment,
            placement: self.placement.unwrap_or_default(),
            page: self.page,
            spare: self.spare,
        }
    }
}

fn unfit(spec: &DeviceSpec, what: &'static str, why: &dyn std::fmt::Display) -> StackError {
    StackError::Unfit {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

impl OpenedForCreate {
    /// Returns the devices that will be formatted, each with its role.
    fn formatted(&self) -> Vec<(&OpenDevice, &'static str)> {
        match &self.devices {
            DevicesToCreate::Cache(pair) => vec![(&pair.log, "log")],
            DevicesToCreate::Space(data) | DevicesToCreate::Files(data) => vec![(data, "data")],
            DevicesToCreate::Over(pair) => vec![(&pair.log, "log"), (&pair.data, "data")],
        }
    }

    /// Returns the log among the devices.
    fn log(&self) -> Option<&OpenDevice> {
        match &self.devices {
            DevicesToCreate::Cache(pair) | DevicesToCreate::Over(pair) => Some(&pair.log),
            DevicesToCreate::Space(_) | DevicesToCreate::Files(_) => None,
        }
    }

    /// Returns the device that should have no holes if it is a file. A write to a log is acknowledged when it is
    /// durable, and allocating blocks of the file first takes longer.
    pub fn to_fill(&self) -> Option<&OpenDevice> {
        self.log()
    }

    /// Returns the content of each device that will be formatted, with the device's name and the reason not to
    /// overwrite it.
    ///
    /// # Errors
    /// If a device cannot be read.
    pub async fn holds(&self) -> Result<Vec<(DeviceSpec, DeviceContent, String)>, StackError> {
        let mut held = Vec::new();
        for (part, role) in self.formatted() {
            if let Some((content, why)) = self.held_on(part, role).await? {
                held.push((part.spec.clone(), content, why));
            }
        }
        Ok(held)
    }

    async fn held_on(
        &self,
        own: &OpenDevice,
        role: &str,
    ) -> Result<Option<(DeviceContent, String)>, StackError> {
        let probed = probe(&own.device).await;
        let content = probed.map_err(|error| StackError::Read {
            path: own.spec.to_string(),
            error,
        })?;
        let Some(content) = content else {
            return Ok(None);
        };
        let why = match &content {
            DeviceContent::Log(DetectedLog::DirtyLog { volume }) => format!(
                "{} HOLDS UNSAVED DATA of the Forebay volume {volume} ({}): making a new log there loses that data \
                 permanently; attach and drain that volume first, or abandon its data with --force",
                own.spec,
                described(own).await
            ),
            content => format!(
                "{} holds {content}, which would be lost; give another {role} device, or overwrite it with \
                 --force",
                own.spec,
            ),
        };
        Ok(Some((content, why)))
    }

    /// Returns the id of the volume on the device that will be formatted, if the device holds the log of a volume.
    pub async fn replaces(&self) -> Option<String> {
        let (own, _) = *self.formatted().first()?;
        let log = cache::inspect(own).await.ok();
        log.map(|info| info.volume)
    }

    /// Creates the volume.
    ///
    /// # Errors
    /// If a device fails.
    pub async fn make(
        &self,
        rt: &Rt,
        name: &VolumeName,
        (id, clock): ([u8; 16], &FsClock),
    ) -> Result<CreateReport, StackError> {
        let wanted = &self.wanted;
        let new = CacheCreateSpec {
            name: name.to_string(),
            volume: id,
            segment: wanted.log_segment(),
        };
        match &self.devices {
            DevicesToCreate::Cache(pair) if is_under_cache(&pair.data).await => {
                let info = over::create(rt, pair, new).await?;
                Ok(made_cache(pair, &info, "the log-structured volume on "))
            }
            DevicesToCreate::Cache(pair) => {
                let created = cache::create(&pair.log, &pair.data, new).await;
                let log = &pair.log.spec;
                let info = created.map_err(|error| cannot_make(log, "a log", &error))?;
                Ok(made_cache(pair, &info, ""))
            }
            DevicesToCreate::Space(data) => make_space(rt, data, &wanted.space(), id).await,
            DevicesToCreate::Files(data) => make_files(rt, data, wanted, (id, clock)).await,
            DevicesToCreate::Over(pair) => {
                // The two volumes need different ids.
                let mut below = id;
                below[15] ^= 0xff;
                let below = make_space(rt, &pair.data, &wanted.space(), below).await?;
                let info = over::create(rt, pair, new).await?;
                let made = made_cache(pair, &info, "");
                Ok(CreateReport {
                    said: format!("{}; {}", made.said, below.said),
                    ..made
                })
            }
        }
    }
}

/// The largest segment.
const SEGMENT_MAX: ByteLen = ByteLen::mib(64);

/// The least number of unused bytes on a device that is reported.
const UNUSED_WORTH: u64 = 1 << 20;

/// Reports, in words, the unused bytes of a device of `have` bytes that holds `count` segments of `segment` bytes. A
/// device can have at most `most` segments. Returns an empty text if few bytes are unused.
fn unused(spec: &DeviceSpec, have: u64, (count, segment): (u64, u64), most: u64) -> String {
    let bytes = have.saturating_sub(SEGMENTS_AT + count * segment);
    if bytes < UNUSED_WORTH {
        return String::new();
    }
    let size = ByteLen(segment);
    let why = if count < most {
        format!("less than a segment of {size}")
    } else if size < SEGMENT_MAX {
        format!(
            "it has {most} segments of {size} at most; larger ones, by --segment, use more of a device"
        )
    } else {
        format!("it has {most} segments of {size} at most")
    };
    let unused = ByteLen(bytes);
    format!("; UNUSED: {unused} ({bytes} bytes) at the end of {spec} ({why})")
}

/// Describes a created cache in front of a device, or of the volume on that device.
fn made_cache(pair: &CacheDevices, info: &SuperblockContents, of: &str) -> CreateReport {
    let (log, data) = (pair.log.spec.clone(), pair.data.spec.clone());
    let segment = ByteLen(info.segment_bytes.into());
    CreateReport {
        said: format!(
            "{log} in front of {of}{data}, {} segments of {segment}{}",
            info.segment_count,
            unused(
                &log,
                pair.log.device.geometry().len,
                (info.segment_count, segment.0),
                cache::segments_max(segment)
            )
        ),
        volume: info.volume.clone(),
        tree: if info.data.names.iter().any(|name| is_space(name)) {
            LayerTree::over(log, data)
        } else {
            LayerTree::cache(log, data)
        },
    }
}

/// Reports, in words, the bytes of a device that its log-structured space does not use.
fn unused_of(data: &OpenDevice, layout: &forebay_vsl::SegmentLayout) -> String {
    let segments = (layout.segment_count.into(), layout.segment_bytes.into());
    let have = data.device.geometry().len;
    unused(&data.spec, have, segments, SEGMENTS_MAX.into())
}

async fn make_space(
    rt: &Rt,
    data: &OpenDevice,
    new: &SpaceCreateSpec,
    id: [u8; 16],
) -> Result<CreateReport, StackError> {
    let what = "a log-structured volume";
    let layout = layout_on(&data.device.geometry(), new);
    let layout = layout.map_err(|error| unfit(&data.spec, what, &error))?;
    let made = space::make(rt, &data.device, layout, id, (new, SpaceLength::Wanted)).await;
    let made = made.map_err(|error| cannot_make(&data.spec, what, &error))?;
    let thin = if made.len > made.mappable {
        format!(
            " (thin: holds at most {} of data in extents of 512 bytes, {} in extents of 4KiB)",
            ByteLen(made.mappable),
            ByteLen(made.mappable_in_blocks)
        )
    } else {
        String::new()
    };
    let slow = made.warning();
    Ok(CreateReport {
        volume: forebay_vsl::VolumeId(id).to_string(),
        tree: LayerTree::space(data.spec.clone()),
        said: format!(
            "{} long{thin}, log-structured on {}, {} segments of {}{}; placement: {}{slow}",
            ByteLen(made.len),
            data.spec,
            made.layout.segment_count,
            ByteLen(made.layout.segment_bytes.into()),
            unused_of(data, &made.layout),
            made.placement.trim_end_matches('.')
        ),
    })
}

async fn make_files(
    rt: &Rt,
    data: &OpenDevice,
    wanted: &CreateSpec,
    (id, clock): ([u8; 16], &FsClock),
) -> Result<CreateReport, StackError> {
    let (new, what) = (wanted.space(), "a filesystem");
    let layout = layout_on(&data.device.geometry(), &new);
    let layout = layout.map_err(|error| unfit(&data.spec, what, &error))?;
    let made = files::make(rt, &data.device, layout, id, (&new, &wanted.files, clock)).await;
    let (made, geometry) = made.map_err(|error| cannot_make(&data.spec, what, &error))?;
    Ok(CreateReport {
        volume: forebay_vsl::VolumeId(id).to_string(),
        tree: LayerTree::files(data.spec.clone()),
        said: format!(
            "a filesystem on {} with a capacity of {}, files of up to {}, {} segments of {}{}; placement: {}",
            data.spec,
            ByteLen(made.mappable),
            ByteLen(geometry.size_max()),
            made.layout.segment_count,
            ByteLen(made.layout.segment_bytes.into()),
            unused_of(data, &made.layout),
            made.placement.trim_end_matches('.')
        ),
    })
}

fn cannot_make(spec: &DeviceSpec, what: &'static str, why: &dyn std::fmt::Display) -> StackError {
    StackError::Make {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

/// Describes the volume that a log belongs to.
async fn described(log: &OpenDevice) -> String {
    match cache::inspect(log).await {
        Ok(info) => format!("named {}, data device {}", info.name, info.data.path),
        Err(StackError::NotALog { error, .. }) => error.to_string(),
        Err(error) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_space_of_a_device_is_reported_with_its_length_and_the_reason() {
        let spec: DeviceSpec = "disk".parse().unwrap();
        let on = |have, count, segment| unused(&spec, have, (count, segment), 4);
        // The device is used completely, or but for a few bytes.
        assert_eq!(on(SEGMENTS_AT + 4 * SEGMENTS_AT, 4, SEGMENTS_AT), "");
        assert_eq!(on(SEGMENTS_AT + 4 * SEGMENTS_AT + 4096, 4, SEGMENTS_AT), "");
        let rest = on(SEGMENTS_AT + (3 << 26) + (5 << 20), 3, 1 << 26);
        assert!(
            rest.contains("UNUSED: 5MiB (5242880 bytes) at the end of disk (less than"),
            "{rest}"
        );
        let most = on(SEGMENTS_AT + (9 << 20), 4, 1 << 20);
        assert!(
            most.contains("UNUSED: 5MiB") && most.contains("4 segments of 1MiB at most"),
            "{most}"
        );
        assert!(most.contains("--segment"), "{most}");
        let largest = on(1 << 40, 4, 1 << 26);
        assert!(
            largest.contains("at most") && !largest.contains("--segment"),
            "{largest}"
        );
    }
}
