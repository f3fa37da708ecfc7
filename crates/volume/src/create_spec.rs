//! Parameters and results of creating a volume, and texts for both.

use forebay_units::ByteLen;

use crate::error::VolumeError;
use crate::kind_spec::KindSpec;
use crate::options::OptionValues;
use crate::spec::DeviceSpec;
use crate::tree::{DeviceMap, LayerTree};

/// Parameters of a volume to be created.
#[derive(Clone, Debug)]
pub struct CreateSpec {
    /// Kind of the uppermost layer, or of the layer below a cache.
    pub kind: &'static KindSpec,
    /// The devices by their roles.
    pub devices: DeviceMap,
    /// Options of the volume, and options that only apply while it is created.
    pub options: OptionValues,
    /// Owner of the root directory of a filesystem: user and group.
    pub owner: (u32, u32),
    /// A secret, unguessable key for hashing names in a filesystem.
    pub hash_key: [u8; 16],
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
            let what = self.kind.title;
            VolumeError::Usage(format!(
                "a {what} needs a {role} device: name it with --{role} PATH"
            ))
        })
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
