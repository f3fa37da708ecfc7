//! Paths of files that a check names by their number.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use forebay_units::SECTOR_BYTES;

use crate::format::{DirectoryEntry, FileKind};
use crate::fs::Fs;
use crate::geometry::ROOT;

/// The number of sectors read at once.
const AT_ONCE: u64 = 256;
/// Maximum number of directories above a file. Damaged directories can contain each other.
const DEPTH_MAX: usize = 4096;

/// A name of a file: the number of its directory, and the name in it.
struct FileName {
    directory: u64,
    name: Vec<u8>,
}

impl Fs {
    /// Returns a path from the root, beginning with `/`, for each of these files that has one. Unreadable parts of the
    /// filesystem are passed over, so files in them have no path. The filesystem must not change meanwhile.
    pub async fn paths(&self, files: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
        if files.is_empty() {
            return BTreeMap::new();
        }
        let mut names = BTreeMap::new();
        for (directory, base) in self.directories().await {
            let end = base + self.geometry().chunk_sectors();
            self.each_sector(base..end, |_, bytes| {
                let Ok(Some(entry)) = DirectoryEntry::decode(bytes) else {
                    return;
                };
                if entry.kind == FileKind::Directory || files.contains(&entry.file) {
                    let name = entry.name;
                    names.insert(entry.file, FileName { directory, name });
                }
            })
            .await;
        }
        let found = files.iter();
        found
            .filter_map(|file| Some((*file, path_of(*file, &names)?)))
            .collect()
    }

    /// Returns the number of each directory, and the first sector of its entries.
    async fn directories(&self) -> Vec<(u64, u64)> {
        let geometry = self.geometry();
        let first = geometry.inode(0).0;
        let mut found = Vec::new();
        let inodes = first..geometry.inode(geometry.files()).0;
        self.each_sector(inodes, |sector, bytes| {
            if let Ok(Some(inode)) = self.inode_in(sector - first, bytes)
                && inode.kind == FileKind::Directory
            {
                found.push((inode.file, inode.base));
            }
        })
        .await;
        found
    }

    /// Passes each mapped sector that can be read to `seen`, with its place.
    async fn each_sector(&self, range: Range<u64>, mut seen: impl FnMut(u64, &[u8])) {
        let (mut at, mut most) = (range.start, AT_ONCE);
        loop {
            match self.mapped_piece(at..range.end, most).await {
                Ok(Some((start, bytes))) => {
                    for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                        seen(sector, bytes);
                        at = sector + 1;
                    }
                    most = AT_ONCE;
                }
                Ok(None) => return,
                // Of a piece that cannot be read, each sector is tried alone.
                Err(_) if most > 1 => most = 1,
                Err(_) => match self.space().next_mapped(at..range.end).await {
                    Ok(Some(run)) => at = run.start + 1,
                    Ok(None) | Err(_) => return,
                },
            }
        }
    }
}

/// Returns the path of a file, if its directories lead to the root.
fn path_of(file: u64, names: &BTreeMap<u64, FileName>) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    let mut at = file;
    while at != ROOT {
        let name = names.get(&at)?;
        parts.push(&name.name);
        if parts.len() > DEPTH_MAX {
            return None;
        }
        at = name.directory;
    }
    let mut path = Vec::new();
    for part in parts.iter().rev() {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if path.is_empty() {
        path.push(b'/');
    }
    Some(path)
}
