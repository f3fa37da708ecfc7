//! The mapped files of a process: `/proc/PID/maps` and `smaps`.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::makedev;

use super::{place, unescape};

/// A file in the address space of a process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileMapping {
    /// Number of the filesystem. On btrfs it differs from `st_dev`.
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// Name of the file, with the kernel's remark about a deleted file.
    pub(crate) path: PathBuf,
    /// First address range, in hexadecimal digits, as `map_files` names it.
    pub(super) range: String,
    /// Bytes of all mappings of the file.
    pub(crate) bytes: u64,
    /// Bytes that the process has locked in memory; 0 if not asked for.
    pub(crate) locked: u64,
}

impl FileMapping {
    /// Returns true for shared memory without a name, which the kernel makes for `MAP_SHARED | MAP_ANONYMOUS`, and for
    /// System V shared memory. The kernel has files for them, but no program opened a file.
    pub(super) fn is_nameless(&self) -> bool {
        let path = self.path.as_os_str().as_bytes();
        path.starts_with(b"/dev/zero") || path.starts_with(b"/SYSV")
    }

    /// Returns true if this is the file with these numbers or this name. The numbers of a mapping differ from those of
    /// `stat` on some filesystems.
    pub(crate) fn is(&self, (device, inode): (u64, u64), path: &Path) -> bool {
        self.inode == inode && (self.device == device || self.path == path)
    }
}

/// Returns the mapped files of a process.
///
/// # Errors
/// If the process has ended, or belongs to another user.
pub(crate) fn of_process(pid: u32) -> io::Result<Vec<FileMapping>> {
    Ok(files(&fs::read(place(pid, "maps"))?))
}

/// Returns the mapped files of a process with their locked bytes. Takes longer than [`of_process`], because the kernel
/// counts the pages of each mapping.
///
/// # Errors
/// If the process has ended, or belongs to another user.
pub(crate) fn with_locks(pid: u32) -> io::Result<Vec<FileMapping>> {
    Ok(files(&fs::read(place(pid, "smaps"))?))
}

/// Returns true if a process has locked memory.
pub(crate) fn has_locks(pid: u32) -> bool {
    let status = fs::read_to_string(place(pid, "status")).unwrap_or_default();
    let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    locked.is_some_and(|locked| !locked.trim_start().starts_with("0 "))
}

/// Returns the files in the text of `maps` or `smaps`.
fn files(text: &[u8]) -> Vec<FileMapping> {
    let mut files: BTreeMap<(u64, u64), FileMapping> = BTreeMap::new();
    let mut current = None;
    for line in text.split(|byte| *byte == b'\n') {
        if let Some(mapping) = parse(line) {
            let key = (mapping.device, mapping.inode);
            current = Some(key);
            let bytes = mapping.bytes;
            files
                .entry(key)
                .and_modify(|known| known.bytes += bytes)
                .or_insert(mapping);
        } else if is_head(line) {
            current = None;
        } else if let Some(kib) = line.strip_prefix(b"Locked:")
            && let Some(file) = current.and_then(|key| files.get_mut(&key))
        {
            let kib = String::from_utf8_lossy(kib);
            let kib = kib
                .split_whitespace()
                .next()
                .and_then(|kib| kib.parse().ok());
            file.locked += kib.unwrap_or(0_u64) * 1024;
        }
    }
    files.into_values().collect()
}

/// Returns true if a line of `smaps` begins a mapping: its first word is a range of addresses.
fn is_head(line: &[u8]) -> bool {
    let word = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    word.contains(&b'-') && !word.contains(&b':')
}

/// Returns the mapping of a line, if it is that of a file.
fn parse(line: &[u8]) -> Option<FileMapping> {
    let (range, rest) = word(line)?;
    let (_access, rest) = word(rest)?;
    let (_offset, rest) = word(rest)?;
    let (device, rest) = word(rest)?;
    let (inode, rest) = word(rest)?;
    let inode: u64 = inode.parse().ok()?;
    let start = rest.iter().position(|byte| *byte == b'/')?;
    let (from, to) = range.split_once('-')?;
    let address = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (major, minor) = device.split_once(':')?;
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok();
    (inode > 0).then_some(())?;
    Some(FileMapping {
        device: makedev(number(major)?, number(minor)?),
        inode,
        path: unescape(Path::new(OsStr::from_bytes(&rest[start..]))),
        range: map_files_name(address(from)?, address(to)?),
        bytes: address(to)?.checked_sub(address(from)?)?,
        locked: 0,
    })
}

/// Returns the name of a range in `map_files`, which has no leading zeros.
fn map_files_name(from: u64, to: u64) -> String {
    format!("{from:x}-{to:x}")
}

/// Returns the first word of a line, and the rest.
fn word(line: &[u8]) -> Option<(&str, &[u8])> {
    let start = line.iter().position(|byte| *byte != b' ')?;
    let line = &line[start..];
    let end = line.iter().position(|byte| *byte == b' ');
    let (word, rest) = line.split_at(end.unwrap_or(line.len()));
    Some((std::str::from_utf8(word).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_files_are_mappings_and_others_are_not() {
        let line =
            b"00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/a b\\012c (deleted)";
        let mapping = parse(line).expect("a file");
        assert_eq!(mapping.path, Path::new("/usr/bin/a b\nc (deleted)"));
        assert_eq!(mapping.range, "400000-452000");
        assert_eq!((mapping.inode, mapping.bytes), (173_521, 0x52000));
        assert_eq!(mapping.device, makedev(8, 2));
        for other in [
            &b"7fff0000-7fff1000 rw-p 00000000 00:00 0     [stack]"[..],
            b"7fff0000-7fff1000 rw-p 00000000 00:00 0 ",
            b"",
            b"Size:                  4 kB",
        ] {
            assert_eq!(parse(other), None, "{}", String::from_utf8_lossy(other));
        }
    }
    #[test]
    fn locked_bytes_belong_to_the_file_of_the_mapping() {
        let text =
            b"00400000-00402000 r-xp 00001000 08:02 7      /bin/a\nSize:   8 kB\nLocked:    8 kB\n\
                     00402000-00403000 rw-p 00000000 00:00 0 \nLocked:    4 kB\n\
                     00403000-00404000 r-xp 00001000 08:02 8      /bin/b\nLocked:    0 kB\n\
                     00404000-00405000 r-xp 00001000 08:02 7      /bin/a\nLocked:    4 kB\n";
        let found = files(text);
        let locked: Vec<_> = found
            .iter()
            .map(|file| (file.inode, file.bytes, file.locked))
            .collect();
        assert_eq!(locked, [(7, 12_288, 12_288), (8, 4096, 0)]);
    }
}
