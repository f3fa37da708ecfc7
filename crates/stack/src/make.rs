//! Making a volume of devices, whatever its layers.

use std::rc::Rc;

use forebay_dcd::VolumeInfo;
use forebay_dfs::Clock;
use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_units::ByteLen;
use forebay_vsl::SEGMENTS_MAX;

use crate::cache::{self, Held, New};
use crate::content::{Content, probe};
use crate::files::{self, FilesWanted};
use crate::over::{self, is_space, is_under_cache};
use crate::space::{self, Long, NewSpace, Placing, SpareShare, layout_on};
use crate::{Kind, Name, Pair, Part, Spec, StackError, Tree, open_one, open_pair};

/// Where the first segment lies, of a log and of a log-structured volume.
const SEGMENTS_AT: u64 = 1 << 20;

/// A segment of a cache's log where nothing is said.
const LOG_SEGMENT: ByteLen = ByteLen::mib(1);

/// The longest volume that a cache can be in front of.
const CACHED_MAX: ByteLen = ByteLen::gib(4 << 20);

/// A volume as it is to be made.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What it does.
    pub kind: Kind,
    /// The data device.
    pub data: Spec,
    /// The log device of a cache, or of one in front of a log-structured volume.
    pub log: Option<Spec>,
    /// Bytes in a segment.
    pub segment: Option<ByteLen>,
    /// Of a log-structured volume: its length.
    pub size: Option<ByteLen>,
    /// Of a log-structured volume: how data is placed.
    pub placement: Option<Placing>,
    /// Of a log-structured volume: bytes of a page, for placements that go by pages.
    pub page: Option<ByteLen>,
    /// Of a log-structured volume: the share that is kept free.
    pub spare: Option<SpareShare>,
    /// Of a filesystem: what else there is to say.
    pub files: FilesWanted,
}

/// The devices for a volume to be made, opened; none of them is changed yet.
pub struct Blank {
    wanted: Wanted,
    devices: Devices,
}

enum Devices {
    Cache(Box<Pair>),
    Space(Box<Part>),
    Files(Box<Part>),
    /// A cache over a log-structured volume, both to be made.
    Over(Box<Pair>),
}

/// A volume that was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its id.
    pub volume: String,
    /// What it is made of.
    pub tree: Tree,
    /// The same for people.
    pub said: String,
}

impl Wanted {
    /// The device that is formatted, with the log beside it of a log-structured volume that has one.
    ///
    /// # Errors
    /// If none is named, or something is said that does not go with the kind.
    pub fn own(&self) -> Result<&Spec, StackError> {
        let refuse = |text: &str| Err(StackError::Wanted(text.into()));
        match (self.kind, &self.log) {
            (Kind::Cache, None) => refuse(
                "a write cache needs a log device: name it with --log PATH (or make a log-structured \
                 volume, which needs none, with --volume vsl)",
            ),
            (Kind::Cache, Some(_))
                if self.size.is_some() || self.placement.is_some() || self.page.is_some() =>
            {
                refuse(
                    "--size, --placement and --page are of log-structured volumes: add --volume vsl",
                )
            }
            (Kind::Cache, Some(log)) => Ok(log),
            (Kind::Space, _) => self.sizes().map(|()| &self.data),
            (Kind::Files, Some(_)) => refuse(
                "a filesystem is on its data device alone: leave out --log, or put a cache in front of the device first \
                 and make the filesystem on that",
            ),
            (Kind::Files, None) if self.size.is_some() => {
                refuse("a filesystem is as large as its device: leave out --size")
            }
            (Kind::Files, None) => {
                self.sizes()?;
                let possible = self.files.geometry();
                possible.map_err(StackError::Wanted)?;
                Ok(&self.data)
            }
        }
    }

    /// Whether a log-structured volume can have these sizes.
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
                format!("a --page of {page} cannot be: give a power of two from 4KiB to 64KiB"),
            ),
            _ => Ok(()),
        }
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// If one cannot be opened, two do not go together, or the one that is to be formatted does not do.
    pub fn open(self, rt: &Rt, ring: &Rc<Ring>) -> Result<Blank, StackError> {
        let own = self.own()?.clone();
        let pair = |log| -> Result<Pair, StackError> {
            let pair = open_pair(rt, ring, log, &self.data, OpenOptions::default())?;
            let room = cache::room_for_log(&pair.log.device.geometry(), self.log_segment());
            room.map_err(|error| unfit(log, "a log", &error))?;
            Ok(pair)
        };
        let fits = |data: &Part| match layout_on(&data.device.geometry(), &self.space()) {
            Ok(_) => Ok(()),
            Err(error) => Err(unfit(&own, "a log-structured volume", &error)),
        };
        let devices = match (self.kind, &self.log) {
            (Kind::Cache, _) => Devices::Cache(Box::new(pair(&own)?)),
            (Kind::Space, None) | (Kind::Files, _) => {
                let data = open_one(rt, ring, &own, OpenOptions::default())?;
                fits(&data)?;
                match self.kind {
                    Kind::Files => Devices::Files(Box::new(data)),
                    _ => Devices::Space(Box::new(data)),
                }
            }
            (Kind::Space, Some(log)) => {
                let pair = pair(log)?;
                fits(&pair.data)?;
                Devices::Over(Box::new(pair))
            }
        };
        let wanted = self;
        Ok(Blank { wanted, devices })
    }

    /// Of a log-structured volume, what is said of segments is said of its own.
    fn log_segment(&self) -> ByteLen {
        let said = self.segment.filter(|_| self.kind == Kind::Cache);
        said.unwrap_or(LOG_SEGMENT)
    }

    fn space(&self) -> NewSpace {
        NewSpace {
            size: self.size,
            segment: self.segment,
            placement: self.placement.unwrap_or_default(),
            page: self.page,
            spare: self.spare,
        }
    }
}

fn unfit(spec: &Spec, what: &'static str, why: &dyn std::fmt::Display) -> StackError {
    StackError::Unfit {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

impl Blank {
    /// The devices that are to be formatted, and what they are to be.
    fn formatted(&self) -> Vec<(&Part, &'static str)> {
        match &self.devices {
            Devices::Cache(pair) => vec![(&pair.log, "log")],
            Devices::Space(data) | Devices::Files(data) => vec![(data, "data")],
            Devices::Over(pair) => vec![(&pair.log, "log"), (&pair.data, "data")],
        }
    }

    /// The log among them.
    fn log(&self) -> Option<&Part> {
        match &self.devices {
            Devices::Cache(pair) | Devices::Over(pair) => Some(&pair.log),
            Devices::Space(_) | Devices::Files(_) => None,
        }
    }

    /// The device that should have no holes, if it is a file: what is written to a log is acknowledged when it is
    /// durable, which takes longer where room must be found first.
    pub fn to_fill(&self) -> Option<&Part> {
        self.log()
    }

    /// What the devices that are to be formatted hold, each with its name, and why it should not be overwritten.
    ///
    /// # Errors
    /// If one cannot be read.
    pub async fn holds(&self) -> Result<Vec<(Spec, Content, String)>, StackError> {
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
        own: &Part,
        role: &str,
    ) -> Result<Option<(Content, String)>, StackError> {
        let probed = probe(&own.device).await;
        let content = probed.map_err(|error| StackError::Read {
            path: own.spec.to_string(),
            error,
        })?;
        let Some(content) = content else {
            return Ok(None);
        };
        let why = match &content {
            Content::Log(Held::DirtyLog { volume }) => format!(
                "{} HOLDS UNSAVED DATA of the Forebay volume {volume} ({}): making a new log of it loses \
                 that data for ever; attach and drain that volume first, or give it up with --force",
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

    /// The id of the volume that is on the device that is to be formatted, if there is one.
    pub async fn replaces(&self) -> Option<String> {
        let (own, _) = *self.formatted().first()?;
        let log = cache::inspect(own).await.ok();
        log.map(|info| info.volume)
    }

    /// Makes the volume.
    ///
    /// # Errors
    /// If a device fails.
    pub async fn make(
        &self,
        rt: &Rt,
        name: &Name,
        (id, clock): ([u8; 16], &Clock),
    ) -> Result<Made, StackError> {
        let wanted = &self.wanted;
        let new = New {
            name: name.to_string(),
            volume: id,
            segment: wanted.log_segment(),
        };
        match &self.devices {
            Devices::Cache(pair) if is_under_cache(&pair.data).await => {
                let info = over::create(rt, pair, new).await?;
                Ok(made_cache(pair, &info, "the log-structured volume on "))
            }
            Devices::Cache(pair) => {
                let created = cache::create(&pair.log, &pair.data, new).await;
                let log = &pair.log.spec;
                let info = created.map_err(|error| cannot_make(log, "a log", &error))?;
                Ok(made_cache(pair, &info, ""))
            }
            Devices::Space(data) => make_space(rt, data, &wanted.space(), id).await,
            Devices::Files(data) => make_files(rt, data, wanted, (id, clock)).await,
            Devices::Over(pair) => {
                // Two volumes, each with an id.
                let mut below = id;
                below[15] ^= 0xff;
                let below = make_space(rt, &pair.data, &wanted.space(), below).await?;
                let info = over::create(rt, pair, new).await?;
                let made = made_cache(pair, &info, "");
                Ok(Made {
                    said: format!("{}; {}", made.said, below.said),
                    ..made
                })
            }
        }
    }
}

/// The largest segment.
const SEGMENT_MAX: ByteLen = ByteLen::mib(64);

/// A device from this many unused bytes on is worth a word.
const UNUSED_WORTH: u64 = 1 << 20;

/// What is not used of a device of `have` bytes on which `count` segments of `segment` bytes lie, in words; the most that
/// there may be of them are `most`. Empty if it is little.
fn unused(spec: &Spec, have: u64, (count, segment): (u64, u64), most: u64) -> String {
    let bytes = have.saturating_sub(SEGMENTS_AT + count * segment);
    if bytes < UNUSED_WORTH {
        return String::new();
    }
    let size = ByteLen(segment);
    let why = match count < most {
        true => format!("less than a segment of {size}"),
        false if size < SEGMENT_MAX => format!(
            "it has {most} segments of {size} at most; larger ones, by --segment, use more of a device"
        ),
        false => format!("it has {most} segments of {size} at most"),
    };
    let unused = ByteLen(bytes);
    format!("; UNUSED: {unused} ({bytes} bytes) at the end of {spec} ({why})")
}

/// A cache that was made in front of a device or of what lies there, in words.
fn made_cache(pair: &Pair, info: &VolumeInfo, of: &str) -> Made {
    let (log, data) = (pair.log.spec.clone(), pair.data.spec.clone());
    let segment = ByteLen(info.segment_bytes.into());
    Made {
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
        tree: match info.data.names.iter().any(|name| is_space(name)) {
            true => Tree::over(log, data),
            false => Tree::cache(log, data),
        },
    }
}

/// What a log-structured space does not use of its device, in words.
fn unused_of(data: &Part, layout: &forebay_vsl::Layout) -> String {
    let segments = (layout.segment_count.into(), layout.segment_bytes.into());
    let have = data.device.geometry().len;
    unused(&data.spec, have, segments, SEGMENTS_MAX.into())
}

async fn make_space(
    rt: &Rt,
    data: &Part,
    new: &NewSpace,
    id: [u8; 16],
) -> Result<Made, StackError> {
    let what = "a log-structured volume";
    let layout = layout_on(&data.device.geometry(), new);
    let layout = layout.map_err(|error| unfit(&data.spec, what, &error))?;
    let made = space::make(rt, &data.device, layout, id, (new, Long::Wanted)).await;
    let made = made.map_err(|error| cannot_make(&data.spec, what, &error))?;
    let thin = match made.len > made.mappable {
        true => format!(
            " (thin: at a time, {} of it can hold data in pieces of 512 bytes, {} in pieces of 4KiB)",
            ByteLen(made.mappable),
            ByteLen(made.mappable_in_blocks)
        ),
        false => String::new(),
    };
    let slow = made.warning();
    Ok(Made {
        volume: forebay_vsl::VolumeId(id).to_string(),
        tree: Tree::space(data.spec.clone()),
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
    data: &Part,
    wanted: &Wanted,
    (id, clock): ([u8; 16], &Clock),
) -> Result<Made, StackError> {
    let (new, what) = (wanted.space(), "a filesystem");
    let layout = layout_on(&data.device.geometry(), &new);
    let layout = layout.map_err(|error| unfit(&data.spec, what, &error))?;
    let made = files::make(rt, &data.device, layout, id, (&new, &wanted.files, clock)).await;
    let (made, geometry) = made.map_err(|error| cannot_make(&data.spec, what, &error))?;
    Ok(Made {
        volume: forebay_vsl::VolumeId(id).to_string(),
        tree: Tree::files(data.spec.clone()),
        said: format!(
            "a filesystem on {} with room for {}, files of up to {}, {} segments of {}{}; placement: {}",
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

fn cannot_make(spec: &Spec, what: &'static str, why: &dyn std::fmt::Display) -> StackError {
    StackError::Make {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

/// Which volume a log is of, in words.
async fn described(log: &Part) -> String {
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
    fn what_a_device_has_more_than_a_volume_can_use_is_said_with_its_length_and_the_reason() {
        let spec: Spec = "disk".parse().unwrap();
        let on = |have, count, segment| unused(&spec, have, (count, segment), 4);
        // All of it, and a little more.
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
