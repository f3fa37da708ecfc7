//! What a user writes to name a device: a path, or a part of what is at one.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_units::{ByteLen, ParseByteLenError};

use crate::text::exact;

/// A device as it is named on the command line: `PATH`, or `PATH@OFFSET+LENGTH` for a part of it.
///
/// `PATH` is a block device or a regular file. Parts of one path share one opened device, so that a
/// log and its data can lie on one disk and share its one queue. An `@` that is followed by anything
/// but a digit belongs to the path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    path: PathBuf,
    part: Option<Range<u64>>,
}

/// Why a text names no device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no path.
    #[error("\"{0}\" has no path (write PATH or PATH@OFFSET+LENGTH)")]
    NoPath(String),
    /// An emulated disk, which this version cannot do.
    #[error(
        "\"{0}\" asks for an emulated disk; disk models come with a later version; give the path \
         alone"
    )]
    Model(String),
    /// The part is not `OFFSET+LENGTH`.
    #[error(
        "\"{0}\": the part after @ is not OFFSET+LENGTH (write for example disk.img@64MiB+1GiB)"
    )]
    Part(String),
    /// One of the two sizes is none.
    #[error("in \"{text}\": {error}")]
    Size {
        /// What was written.
        text: String,
        /// What is wrong with the size.
        error: ParseByteLenError,
    },
    /// The part has no bytes.
    #[error("\"{0}\": the part is empty or ends beyond what 64 bits can say")]
    Extent(String),
}

impl Spec {
    /// All of what is at `path`.
    pub fn whole(path: impl Into<PathBuf>) -> Spec {
        Spec {
            path: path.into(),
            part: None,
        }
    }

    /// The path, without the part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The part, in bytes, if it is not all.
    pub fn part(&self) -> Option<&Range<u64>> {
        self.part.as_ref()
    }

    /// The same part of what is at another path.
    #[must_use]
    pub fn at(&self, path: impl Into<PathBuf>) -> Spec {
        Spec {
            path: path.into(),
            part: self.part.clone(),
        }
    }

    /// The suffix that names the part; empty for all.
    pub(crate) fn suffix(&self) -> String {
        match &self.part {
            None => String::new(),
            Some(part) => format!("@{}+{}", exact(part.start), exact(part.end - part.start)),
        }
    }

    /// True if both have bytes in common, given that the paths are of one device.
    pub(crate) fn overlaps(&self, other: &Spec) -> bool {
        match (&self.part, &other.part) {
            (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
            _ => true,
        }
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.path.display(), self.suffix())
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Spec, SpecError> {
        if text.starts_with("model:") {
            return Err(SpecError::Model(text.into()));
        }
        let (path, part) = match text.rsplit_once('@') {
            Some((path, part)) if part.starts_with(|c: char| c.is_ascii_digit()) => {
                (path, Some(part))
            }
            _ => (text, None),
        };
        if path.is_empty() {
            return Err(SpecError::NoPath(text.into()));
        }
        Ok(Spec {
            path: path.into(),
            part: part.map(|part| parse_part(text, part)).transpose()?,
        })
    }
}

fn parse_part(text: &str, part: &str) -> Result<Range<u64>, SpecError> {
    let (start, len) = part
        .split_once('+')
        .ok_or_else(|| SpecError::Part(text.into()))?;
    let size = |size: &str| {
        size.parse::<ByteLen>().map_err(|error| SpecError::Size {
            text: text.into(),
            error,
        })
    };
    let (start, len) = (size(start)?.0, size(len)?.0);
    match start.checked_add(len) {
        Some(end) if len > 0 => Ok(start..end),
        _ => Err(SpecError::Extent(text.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_part_of_one_are_understood_and_print_as_they_read() {
        let spec: Spec = "disk.img@64MiB+1900MiB".parse().unwrap();
        assert_eq!(spec.path(), Path::new("disk.img"));
        assert_eq!(spec.part(), Some(&(64 << 20..(64 + 1900) << 20)));
        assert_eq!(spec.to_string(), "disk.img@64MiB+1900MiB");
        assert_eq!("/dev/sdb".parse(), Ok(Spec::whole("/dev/sdb")));
    }

    #[test]
    fn a_part_of_odd_size_prints_exactly() {
        let spec: Spec = "d@0+1500160".parse().unwrap();
        assert_eq!(spec.to_string(), "d@0+1465KiB");
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }

    #[test]
    fn an_at_sign_in_a_name_belongs_to_the_path() {
        let spec: Spec = "/dev/disk/by-id/a@b".parse().unwrap();
        assert_eq!(spec, Spec::whole("/dev/disk/by-id/a@b"));
    }

    #[test]
    fn what_names_no_device_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "no path"),
            ("@0+1MiB", "no path"),
            ("d@64MiB", "not OFFSET+LENGTH"),
            ("d@1floppy+2MiB", "unknown unit"),
            ("d@0+0", "empty"),
            ("d@16777215TiB+16777215TiB", "64 bits"),
            (
                "model:barracuda:disk.img",
                "disk models come with a later version",
            ),
        ] {
            let error = text.parse::<Spec>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn parts_overlap_only_where_they_share_a_byte() {
        let spec = |text: &str| text.parse::<Spec>().unwrap();
        assert!(!spec("d@0+1M").overlaps(&spec("d@1M+1M")));
        assert!(spec("d@0+1M").overlaps(&spec("d@512K+1M")));
        assert!(spec("d").overlaps(&spec("d@512K+1M")));
    }
}
