//! User syntax for naming a device: a path, or a part of the device at a path, optionally as an emulated disk.

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_units::{ByteLen, ParseByteLenError};

use crate::backend::{DeviceBackend, StorageIdentity};
use crate::exact::exact;
use crate::{DiskModelSpec, ModelSpecError};

/// Prefix of an emulated disk.
const MODEL: &str = "model:";

/// A device as it is named on the command line: `PATH`, or `PATH@OFFSET+LENGTH` for a part of it. Either form may
/// follow `model:MODEL:`, which adds the timing of that disk.
///
/// `PATH` is a block device or a regular file. Parts of one path share one opened device, so that a log and its data
/// can be on one disk and share its queue. An `@` that is followed by anything but a digit belongs to the path, and so
/// does a `:` after the colon of the model. (A path that itself begins with `model:` can be written `./model:`…)
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceSpec {
    model: Option<DiskModelSpec>,
    backend: DeviceBackend,
    part: Option<Range<u64>>,
}

/// Reason why a text does not name a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceSpecError {
    /// The path is empty.
    #[error(
        "\"{0}\" has no path (write PATH, PATH@OFFSET+LENGTH, or model:MODEL:PATH for an emulated \
         disk)"
    )]
    NoPath(String),
    /// The emulated disk does not exist.
    #[error("in \"{text}\": {error}")]
    Model {
        /// The text as given.
        text: String,
        /// The error in the model.
        error: ModelSpecError,
    },
    /// The part is not `OFFSET+LENGTH`.
    #[error(
        "\"{0}\": the part after @ is not OFFSET+LENGTH (write for example disk.img@64MiB+1GiB)"
    )]
    Part(String),
    /// One of the two sizes is invalid.
    #[error("in \"{text}\": {error}")]
    Size {
        /// The text as given.
        text: String,
        /// The error in the size.
        error: ParseByteLenError,
    },
    /// The part is empty, or ends beyond 64 bits.
    #[error("\"{0}\": the part is empty or its end exceeds 64 bits")]
    Extent(String),
}

impl DeviceSpec {
    /// Returns the spec of the whole device at `path`.
    pub fn whole(path: impl Into<PathBuf>) -> DeviceSpec {
        DeviceSpec {
            model: None,
            backend: DeviceBackend::Path(path.into()),
            part: None,
        }
    }

    /// Returns the path, without model and part.
    pub fn path(&self) -> &Path {
        self.backend.path()
    }

    /// Returns the backend, without model and part.
    pub fn backend(&self) -> &DeviceBackend {
        &self.backend
    }

    /// Returns the device's identity, which does not depend on its name.
    ///
    /// # Errors
    /// If the device does not exist.
    pub fn identity(&self) -> io::Result<StorageIdentity> {
        self.backend.identity(self.part.as_ref())
    }

    /// Returns the emulated disk, if any.
    pub fn model(&self) -> Option<&DiskModelSpec> {
        self.model.as_ref()
    }

    /// Returns the byte range of the part; `None` for the whole device.
    pub fn part(&self) -> Option<&Range<u64>> {
        self.part.as_ref()
    }

    /// Returns the same part of the device at another path, on the same model.
    #[must_use]
    pub fn at(&self, path: impl Into<PathBuf>) -> DeviceSpec {
        DeviceSpec {
            backend: DeviceBackend::Path(path.into()),
            ..self.clone()
        }
    }

    /// Returns the suffix that names the part; empty for the whole device. The part belongs to the identity of the
    /// data; the model does not.
    pub(crate) fn suffix(&self) -> String {
        match &self.part {
            None => String::new(),
            Some(part) => format!("@{}+{}", exact(part.start), exact(part.end - part.start)),
        }
    }
}

impl fmt::Display for DeviceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(model) = &self.model {
            write!(f, "{MODEL}{model}:")?;
        }
        write!(f, "{}{}", self.backend, self.suffix())
    }
}

impl FromStr for DeviceSpec {
    type Err = DeviceSpecError;

    fn from_str(text: &str) -> Result<DeviceSpec, DeviceSpecError> {
        let (model, place) = match text.strip_prefix(MODEL) {
            Some(rest) => {
                let (model, place) = rest.split_once(':').unwrap_or((rest, ""));
                let model = model.parse().map_err(|error| DeviceSpecError::Model {
                    text: text.into(),
                    error,
                })?;
                (Some(model), place)
            }
            None => (None, text),
        };
        let (path, part) = match place.rsplit_once('@') {
            Some((path, part)) if part.starts_with(|c: char| c.is_ascii_digit()) => {
                (path, Some(part))
            }
            _ => (place, None),
        };
        if path.is_empty() {
            return Err(DeviceSpecError::NoPath(text.into()));
        }
        Ok(DeviceSpec {
            model,
            backend: DeviceBackend::Path(path.into()),
            part: part.map(|part| parse_part(text, part)).transpose()?,
        })
    }
}

fn parse_part(text: &str, part: &str) -> Result<Range<u64>, DeviceSpecError> {
    let (start, len) = part
        .split_once('+')
        .ok_or_else(|| DeviceSpecError::Part(text.into()))?;
    let size = |size: &str| {
        size.parse::<ByteLen>()
            .map_err(|error| DeviceSpecError::Size {
                text: text.into(),
                error,
            })
    };
    let (start, len) = (size(start)?.0, size(len)?.0);
    match start.checked_add(len) {
        Some(end) if len > 0 => Ok(start..end),
        _ => Err(DeviceSpecError::Extent(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_path_with_an_optional_range_survives_parse_and_print() {
        let spec: DeviceSpec = "disk.img@64MiB+1900MiB".parse().unwrap();
        assert_eq!(spec.path(), Path::new("disk.img"));
        assert_eq!(spec.part(), Some(&(64 << 20..(64 + 1900) << 20)));
        assert_eq!(spec.to_string(), "disk.img@64MiB+1900MiB");
        assert_eq!("/dev/sdb".parse(), Ok(DeviceSpec::whole("/dev/sdb")));
    }

    #[test]
    fn a_range_of_odd_size_prints_exactly() {
        let spec: DeviceSpec = "d@0+1500160".parse().unwrap();
        assert_eq!(spec.to_string(), "d@0+1465KiB");
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn an_at_sign_in_a_name_belongs_to_the_path() {
        let spec: DeviceSpec = "/dev/disk/by-id/a@b".parse().unwrap();
        assert_eq!(spec, DeviceSpec::whole("/dev/disk/by-id/a@b"));
    }

    #[test]
    fn an_emulated_disk_has_a_model_and_a_path_that_may_have_colons() {
        let text = "model:barracuda,cache=on:/mnt/a:b@c:d.img@64MiB+1GiB";
        let spec: DeviceSpec = text.parse().unwrap();
        assert_eq!(spec.model().map(DiskModelSpec::name), Some("barracuda"));
        assert_eq!(spec.path(), Path::new("/mnt/a:b@c:d.img"));
        assert_eq!(spec.part(), Some(&(64 << 20..(64 + 1024) << 20)));
        assert_eq!(spec.to_string(), text);
        let elsewhere = spec.at("/dev/sdb");
        assert_eq!(
            elsewhere.to_string(),
            "model:barracuda,cache=on:/dev/sdb@64MiB+1GiB"
        );
        assert_eq!("./model:x".parse(), Ok(DeviceSpec::whole("./model:x")));
    }

    #[test]
    fn an_invalid_device_spec_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no path"),
            ("@0+1MiB", "no path"),
            ("d@64MiB", "not OFFSET+LENGTH"),
            ("d@1floppy+2MiB", "unknown unit"),
            ("d@0+0", "empty"),
            ("d@16777215TiB+16777215TiB", "64 bits"),
            ("model:barracuda", "no path"),
            ("model:barracuda:", "no path"),
            ("model:barracuda:@0+1MiB", "no path"),
            ("model:floppy:disk.img", "known models: dec_rz26, barracuda"),
            ("model::disk.img", "unknown disk model \"\""),
            (
                "model:barracuda,cache=big:d",
                "\"cache=big\" is not an option",
            ),
        ] {
            let error = text.parse::<DeviceSpec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
