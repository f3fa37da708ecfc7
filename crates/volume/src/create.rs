//! Creates a volume of any kind: checks its parameters, opens its devices, checks their content, and formats them.

use forebay_units::ByteLen;

use crate::content::{DeviceContent, probe};
use crate::kind::{CreateContext, KindRef, OpenContext, VolumeCreation};
use crate::options::{OptionRow, OptionValues};
use crate::registry::kinds;
use crate::tree::{DeviceMap, LayerTree};
use crate::{DeviceSpec, OpenDevice, VolumeError};

/// Parameters of a volume to be created.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Kind of the uppermost layer, or of the layer below a cache.
    pub kind: KindRef,
    /// The devices by their roles.
    pub devices: DeviceMap,
    /// Options of the volume, and options that only apply while it is created.
    pub options: OptionValues,
    /// Owner of the root directory of a filesystem: user and group.
    pub owner: (u32, u32),
    /// A secret, unguessable key for hashing names in a filesystem.
    pub hash_key: [u8; 16],
}

/// The opened devices of a volume to be created; all are still unchanged.
pub struct OpenedForCreate {
    spec: CreateSpec,
    creation: Box<dyn VolumeCreation>,
}

/// A created volume.
#[derive(Clone, Debug)]
pub struct CreateReport {
    /// The volume's id.
    pub volume: String,
    /// Layers and devices of the volume, with the options of the volume.
    pub tree: LayerTree,
    /// Description for people.
    pub summary: String,
}

impl CreateSpec {
    /// Returns the device in a role of the kind.
    ///
    /// # Errors
    /// If the device is not named.
    pub(crate) fn device(&self, role: &str) -> Result<&DeviceSpec, VolumeError> {
        self.devices.get(role).ok_or_else(|| {
            let what = self.kind.title();
            VolumeError::Usage(format!(
                "a {what} needs a {role} device: name it with --{role} PATH"
            ))
        })
    }

    /// Checks the parameters, as far as is possible without the devices.
    ///
    /// # Errors
    /// If a device is missing, or a parameter does not fit the kind.
    pub fn check(&self) -> Result<(), VolumeError> {
        self.kind.check_spec(self)?;
        let above = self.kind.layers_above(self);
        let layers: Vec<KindRef> = above.iter().copied().chain([self.kind]).collect();
        let has_role = |role: &str| {
            let mut roles = layers.iter().flat_map(|kind| kind.roles());
            roles.any(|known| known.name == role)
        };
        if let Some(role) = self.devices.roles().find(|role| !has_role(role)) {
            let what = self.kind.title();
            return Err(VolumeError::Usage(format!(
                "a {what} has no {role}: leave out --{role}"
            )));
        }
        let mut rows = layers.iter().flat_map(|kind| rows_of(*kind));
        let known: Vec<&str> = rows.by_ref().map(|row| row.spec.key).collect();
        match self.options.keys().find(|key| !known.contains(key)) {
            Some(key) => Err(VolumeError::Usage(self.not_an_option(key))),
            None => Ok(()),
        }
    }

    /// Describes an option that the kind does not have.
    fn not_an_option(&self, key: &str) -> String {
        let has = |kind: &KindRef| rows_of(*kind).any(|row| row.spec.key == key);
        let others: Vec<String> = kinds()
            .filter(has)
            .map(|kind| format!("--volume {kind}"))
            .collect();
        let (what, others) = (self.kind.title(), others.join(" or "));
        format!(
            "a {what} has no option --{key}: leave it out, or make another kind of volume with {others}"
        )
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// If a parameter does not fit, a device cannot be opened, devices do not go together, or a device is unsuitable.
    pub fn open(self, context: OpenContext<'_>) -> Result<OpenedForCreate, VolumeError> {
        self.check()?;
        let creation = self.kind.plan(&self, context)?;
        Ok(OpenedForCreate {
            spec: self,
            creation,
        })
    }
}

/// Returns all options of a kind.
fn rows_of(kind: KindRef) -> impl Iterator<Item = &'static OptionRow> {
    kind.options().iter().chain(kind.create_options())
}

impl OpenedForCreate {
    /// Returns the device that should have no holes if it is a file. A write to a log is acknowledged when it is
    /// durable, and allocating blocks of the file first takes longer.
    pub fn to_fill(&self) -> Option<&OpenDevice> {
        self.creation.to_fill()
    }

    /// Returns the content of each device that will be formatted, with the device's name and the reason not to
    /// overwrite it.
    ///
    /// # Errors
    /// If a device cannot be read.
    pub async fn holds(&self) -> Result<Vec<(DeviceSpec, DeviceContent, String)>, VolumeError> {
        let mut held = Vec::new();
        for (part, role) in self.creation.formatted() {
            let probed = probe(&part.device).await;
            let content = probed.map_err(|error| VolumeError::Read {
                path: part.spec.to_string(),
                error,
            })?;
            if let Some(content) = content {
                let why = reason_not_to_overwrite(&part.spec, role, &content);
                held.push((part.spec.clone(), content, why));
            }
        }
        Ok(held)
    }

    /// Returns the id of the volume on the device that will identify the new volume, if it holds one.
    pub async fn replaces(&self) -> Option<String> {
        let (own, _) = *self.creation.formatted().first()?;
        for kind in kinds() {
            if let Ok(identity) = kind.identify(own).await {
                return Some(identity.volume);
            }
        }
        None
    }

    /// Creates the volume.
    ///
    /// # Errors
    /// If a device fails.
    pub async fn create(&self, context: CreateContext<'_>) -> Result<CreateReport, VolumeError> {
        let made = self.creation.create(context).await?;
        let only_created = self.spec.kind.create_options();
        let options = self.spec.options.without(only_created);
        Ok(CreateReport {
            tree: made.tree.with(&options)?,
            ..made
        })
    }
}

fn reason_not_to_overwrite(spec: &DeviceSpec, role: &str, content: &DeviceContent) -> String {
    let unsaved = match content {
        DeviceContent::Volume(found) => found.unsaved.as_ref(),
        DeviceContent::Foreign(_) => None,
    };
    match unsaved {
        Some(volume) => format!(
            "{spec} HOLDS UNSAVED DATA of the Forebay volume {volume}: making a new log there loses that data \
             permanently; attach and drain that volume first, or abandon its data with --force"
        ),
        None => format!(
            "{spec} holds {content}, which would be lost; give another {role} device, or overwrite it with --force"
        ),
    }
}

/// Offset of the first segment, both of a log and of a log-structured volume.
const SEGMENTS_AT: u64 = 1 << 20;
/// The largest segment.
const SEGMENT_MAX: ByteLen = ByteLen::mib(64);
/// The least number of unused bytes on a device that is reported.
const UNUSED_WORTH: u64 = 1 << 20;

/// The segments of a new volume on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentUse {
    /// Length of the device in bytes.
    pub(crate) device_bytes: u64,
    /// Number of segments.
    pub(crate) count: u64,
    /// Bytes in a segment.
    pub(crate) segment_bytes: u64,
    /// Maximum number of segments of this size.
    pub(crate) count_max: u64,
}

/// Reports, in words, the bytes of a device that its segments do not use. Returns an empty text if few bytes are unused.
pub(crate) fn unused(spec: &DeviceSpec, segments: SegmentUse) -> String {
    let (count, most) = (segments.count, segments.count_max);
    let used = SEGMENTS_AT + count * segments.segment_bytes;
    let bytes = segments.device_bytes.saturating_sub(used);
    if bytes < UNUSED_WORTH {
        return String::new();
    }
    let size = ByteLen(segments.segment_bytes);
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

/// Returns the error for a device that is unsuitable for its role.
pub(crate) fn unfit(
    spec: &DeviceSpec,
    what: &'static str,
    why: &dyn std::fmt::Display,
) -> VolumeError {
    VolumeError::Unfit {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

/// Returns the error for a volume that cannot be created.
pub(crate) fn cannot_make(
    spec: &DeviceSpec,
    what: &'static str,
    why: &dyn std::fmt::Display,
) -> VolumeError {
    VolumeError::Make {
        path: spec.to_string(),
        what,
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_space_of_a_device_is_reported_with_its_length_and_the_reason() {
        let spec: DeviceSpec = "disk".parse().unwrap();
        let on = |device_bytes, count, segment_bytes| {
            let segments = SegmentUse {
                device_bytes,
                count,
                segment_bytes,
                count_max: 4,
            };
            unused(&spec, segments)
        };
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
