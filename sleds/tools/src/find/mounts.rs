//! Which type of filesystem a file lies on.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

/// Types of filesystems by device number, read from the kernel's list of mounts when first asked.
#[derive(Default)]
pub(super) struct Mounts {
    types: Option<HashMap<u64, Vec<u8>>>,
    points: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Mounts {
    /// The type of the filesystem with this device number; `unknown` if it is not mounted.
    pub(super) fn type_of(&mut self, device: u64) -> &[u8] {
        if self.types.is_none() {
            let list = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
            self.types = Some(self.read(&list));
        }
        let points = &self.points;
        let types = self.types.as_mut().expect("it was read above");
        // Some filesystems give files another number than the mount has: ask the mount points.
        types.entry(device).or_insert_with(|| {
            let has_device = |point: &[u8]| {
                let path = std::ffi::OsStr::from_bytes(point);
                rustix::fs::stat(path).is_ok_and(|stat| stat.st_dev == device)
            };
            let found = points.iter().rev().find(|(point, _)| has_device(point));
            found.map_or_else(|| b"unknown".to_vec(), |(_, kind)| kind.clone())
        })
    }

    fn read(&mut self, list: &[u8]) -> HashMap<u64, Vec<u8>> {
        let mut types = HashMap::new();
        for line in list.split(|b| *b == b'\n') {
            let mut words = line.split(|b| *b == b' ');
            let (Some(number), Some(point)) = (words.nth(2), words.nth(1)) else {
                continue;
            };
            let Some(kind) = words.skip_while(|word| *word != b"-").nth(1) else {
                continue;
            };
            if let Some(device) = device(number) {
                types.insert(device, kind.to_vec());
            }
            self.points.push((unescape(point), kind.to_vec()));
        }
        types
    }
}

/// `MAJOR:MINOR`.
fn device(text: &[u8]) -> Option<u64> {
    let (major, minor) = std::str::from_utf8(text).ok()?.split_once(':')?;
    Some(rustix::fs::makedev(
        major.parse().ok()?,
        minor.parse().ok()?,
    ))
}

/// Undoes the `\040` that the kernel writes for a space.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let octal = |digits: &[u8]| {
            let text = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(text, 8).ok()
        };
        match (first, after.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                plain.push(byte);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}
