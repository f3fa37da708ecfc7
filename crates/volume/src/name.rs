//! Names of volumes.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// A volume's name: 1 to 64 letters, digits, `_`, `.` and `-`, not beginning with a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeName(String);

/// Reason why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeNameError {
    /// The name is empty, too long, or has other characters.
    #[error("\"{}\" cannot be a volume's name: use 1 to 64 of the characters A-Z a-z 0-9 _ . -", .0.escape_debug())]
    Characters(String),
    /// The name begins with a dot. In the directory with the links to block devices it would be hidden, or be a
    /// directory (`.`, `..`).
    #[error("\"{0}\" cannot be a volume's name: it begins with a dot")]
    Hidden(String),
    /// The control socket would have the path of another volume's NBD socket.
    #[error("\"{0}\" cannot be a volume's name: the ending .nbd is reserved for sockets")]
    Reserved(String),
}

const NAME_LEN_MAX: usize = 64;

impl VolumeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a name from the last part of a path, for callers that have no name.
    pub fn from_path(path: &Path) -> Option<VolumeName> {
        let stem = path.file_stem()?.to_str()?;
        stem.parse().ok()
    }
}

impl FromStr for VolumeName {
    type Err = VolumeNameError;

    fn from_str(text: &str) -> Result<VolumeName, VolumeNameError> {
        let fits = (1..=NAME_LEN_MAX).contains(&text.len());
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !fits || !text.bytes().all(good) {
            return Err(VolumeNameError::Characters(text.into()));
        }
        if text.starts_with('.') {
            return Err(VolumeNameError::Hidden(text.into()));
        }
        if text.ends_with(".nbd") {
            return Err(VolumeNameError::Reserved(text.into()));
        }
        Ok(VolumeName(text.into()))
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volume_names_are_short_and_have_only_plain_characters() {
        for name in ["a", "A_b.c-9", &"x".repeat(64)] {
            assert_eq!(name.parse::<VolumeName>().unwrap().as_str(), name);
        }
        for name in ["", "a/b", "a b", "ä", "a\n", &"x".repeat(65), "a.nbd"] {
            assert!(name.parse::<VolumeName>().is_err(), "{name}");
        }
        assert_eq!(
            VolumeName::from_path(Path::new("/dev/sdb1"))
                .unwrap()
                .as_str(),
            "sdb1"
        );
        assert_eq!(VolumeName::from_path(Path::new("/x/disk 1.img")), None);
    }
}
