//! The mounts listed in `/proc/self/mountinfo` (proc(5)). Reading it accesses no filesystem, so it cannot hang on a
//! stale mount.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountEntry {
    /// Major and minor number of the filesystem's device.
    pub device: (u32, u32),
    /// Mount point.
    pub point: PathBuf,
    /// The filesystem's type.
    pub fstype: String,
    /// Source of the mount: a device's path for most filesystems, any text for others.
    pub source: PathBuf,
}

impl MountEntry {
    /// Returns the mount that contains `path`, without accessing the path.
    pub(super) fn of(path: &Path) -> Option<MountEntry> {
        let mounts = mounts().unwrap_or_default().into_iter();
        // The innermost mount, and the uppermost of several in one place.
        let around = mounts.filter(|mount| path.starts_with(&mount.point));
        around.max_by_key(|mount| mount.point.as_os_str().len())
    }
}

/// Returns all mounts that this process sees, in the order of mounting.
///
/// # Errors
/// If `/proc` is missing.
pub fn mounts() -> io::Result<Vec<MountEntry>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    Ok(text.split(|b| *b == b'\n').filter_map(parse).collect())
}

/// Returns the mounts that this process sees and, if the system's first process has other mounts, those as well. A
/// daemon from the initramfs, or in a container, does not see the mounts of the system.
///
/// # Errors
/// If `/proc` is missing.
pub fn system_mounts() -> io::Result<Vec<MountEntry>> {
    let mut all = mounts()?;
    let namespace = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    // Without the permission to look, or without an own namespace, the own mounts are all.
    if namespace("1").is_some_and(|first| Some(first) != namespace("self")) {
        let text = std::fs::read("/proc/1/mountinfo").unwrap_or_default();
        all.extend(text.split(|b| *b == b'\n').filter_map(parse));
    }
    Ok(all)
}

fn parse(line: &[u8]) -> Option<MountEntry> {
    let mut fields = line.split(|b| *b == b' ');
    let device = str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let point = fields.nth(1)?;
    // Any number of optional fields, then a dash.
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    Some(MountEntry {
        device: (major.parse().ok()?, minor.parse().ok()?),
        point: unescape(point).into(),
        fstype: String::from_utf8_lossy(fields.next()?).into_owned(),
        source: unescape(fields.next()?).into(),
    })
}

/// Decodes the kernel's `\040` escapes for characters that would break the fields.
fn unescape(field: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *byte == b'\\');
        if let Some(escaped) =
            octal.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok())
        {
            out.push(escaped);
            rest = &after[3..];
        } else {
            out.push(*byte);
            rest = after;
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mountinfo_line_parses_with_and_without_optional_fields() {
        let with = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 x:2 - ext3 /dev/ro\134ot rw";
        let expected = MountEntry {
            device: (98, 0),
            point: "/mnt 2".into(),
            fstype: "ext3".into(),
            source: r"/dev/ro\ot".into(),
        };
        assert_eq!(parse(with), Some(expected.clone()));
        let without = br"36 35 98:0 /mnt1 /mnt\0402 rw,noatime - ext3 /dev/ro\134ot rw";
        assert_eq!(parse(without), Some(expected));
        for cut in ["", "36 35", "36 35 98:x / / rw - a b c", "1 2 3:4 / /x rw"] {
            assert_eq!(parse(cut.as_bytes()), None, "{cut}");
        }
    }

    #[test]
    fn a_backslash_without_a_valid_escape_is_kept() {
        assert_eq!(unescape(br"a\09\777\"), r"a\09\777\");
        assert_eq!(unescape(br"/plain\9"), r"/plain\9");
    }

    #[test]
    fn the_innermost_mount_of_a_path_is_found_even_if_the_path_is_missing() {
        let root = MountEntry::of("/".as_ref()).expect("something is mounted");
        assert_eq!(root.point, Path::new("/"));
        let proc = MountEntry::of("/proc/self/no/such/file".as_ref()).expect("and this");
        assert_eq!(proc.fstype, "proc");
    }
}
