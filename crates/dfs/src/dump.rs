//! Lists all structures of a filesystem in readable form, and finds the owner of a sector.

use std::ops::Range;

use forebay_units::{SECTOR_BYTES, Sector};
use serde::Serialize;

use crate::error::{FsError, Result};
use crate::format::{DirectoryEntry, FileKind, Inode, Orphan, Preallocation};
use crate::fs::Fs;
use crate::geometry::{ATTRIBUTE_SECTORS, PREALLOCATION_SECTORS};

/// The number of sectors read at once.
const AT_ONCE: u64 = 128;

/// A structure of a filesystem, as `dump` prints it. Sectors are sectors of the space.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum FsDumpItem {
    /// The superblock.
    Filesystem {
        /// The volume's identity.
        volume: String,
        /// The number of times that the filesystem was opened.
        mounts: u64,
        /// Base-2 logarithm of the sectors of a chunk.
        chunk_bits: u8,
        /// Sectors of a slot.
        slot_sectors: u32,
        /// The most files that the filesystem can have.
        files: u64,
    },
    /// An i-node.
    Inode {
        /// The i-number.
        file: u64,
        /// The generation.
        generation: u64,
        /// The kind of file.
        of: &'static str,
        /// Permissions, in octal.
        mode: String,
        /// Flags, by the letters of `chattr`.
        flags: String,
        /// The number of names.
        links: u32,
        /// User and group.
        owner: (u32, u32),
        /// Bytes of data; in a directory, the number of names.
        size: u64,
        /// Location of the data: `inode`, `slot`, `chunk`.
        data: &'static str,
        /// Bytes of extended attributes.
        attributes: u32,
        /// Windows for entries beside the first, in a directory.
        further: u8,
    },
    /// An entry of a directory.
    Entry {
        /// The directory.
        directory: u64,
        /// The sector of the entry.
        sector: u64,
        /// The name, with non-printable characters escaped.
        name: String,
        /// The i-number of the named file.
        file: u64,
        /// The generation of the named file.
        generation: u64,
    },
    /// A file without a name.
    Nameless {
        /// The i-number.
        file: u64,
    },
    /// A preallocated range.
    Preallocated {
        /// The i-number.
        file: u64,
        /// The beginning of the range, in bytes of the file.
        at: u64,
        /// The length, in bytes.
        len: u64,
    },
    /// An extent of data.
    Data {
        /// The i-number of its file.
        file: u64,
        /// The beginning of the extent, in bytes of the file.
        at: u64,
        /// The length, in bytes.
        len: u64,
    },
    /// A structure that cannot be decoded.
    Damaged {
        /// The structure and the reason.
        what: String,
    },
}

/// Returns a word for a kind of file.
fn word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Character => "character device",
        FileKind::Block => "block device",
        FileKind::Fifo => "pipe",
        FileKind::Socket => "socket",
    }
}

/// A range of sectors that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadableRange {
    /// The number of the file that owns the range, if any.
    pub file: Option<u64>,
    /// The part of the file, in words.
    pub what: String,
}

impl Fs {
    /// Passes all structures to `out`: the superblock; i-nodes in the order of their numbers, each followed by its
    /// entries and data; and the orphan records.
    ///
    /// # Errors
    ///
    /// If a structure cannot be read. Damaged structures are reported and skipped.
    pub async fn dump(&self, out: &mut dyn FnMut(FsDumpItem)) -> Result<()> {
        let (superblock, geometry) = (self.superblock(), self.geometry());
        out(FsDumpItem::Filesystem {
            volume: superblock.volume.to_string(),
            mounts: superblock.mounts,
            chunk_bits: geometry.chunk_bits,
            slot_sectors: geometry.slot_sectors,
            files: geometry.files(),
        });
        let (first, end) = (geometry.inode(0).0, geometry.inode(geometry.files()).0);
        let mut at = first;
        while let Some((start, bytes)) = self.mapped_piece(at..end, AT_ONCE).await? {
            for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                match self.inode_in(sector - first, bytes) {
                    Ok(Some(inode)) => self.dump_file(&inode, out).await?,
                    Ok(None) => {}
                    Err(error) => damaged(error, out)?,
                }
            }
        }
        self.dump_marks(out).await
    }

    async fn dump_file(&self, inode: &Inode, out: &mut dyn FnMut(FsDumpItem)) -> Result<()> {
        let geometry = self.geometry();
        let data = match inode.base {
            0 => "inode",
            base if base == geometry.slot(inode.file).0 => "slot",
            _ => "chunk",
        };
        out(FsDumpItem::Inode {
            file: inode.file,
            generation: inode.generation,
            of: word(inode.kind),
            mode: format!("{:04o}", inode.permissions),
            flags: inode.flags.letters(),
            links: inode.links,
            owner: (inode.user, inode.group),
            size: inode.size,
            data,
            attributes: inode.attributes,
            further: inode.further,
        });
        self.dump_preallocated(inode.file, out).await?;
        let (mut at, end) = (inode.base, inode.base + geometry.sectors_at(inode));
        if inode.kind == FileKind::Directory {
            return self.dump_entries(inode, at..end, out).await;
        }
        while let Some(run) = self.space().next_mapped(at..end).await? {
            out(FsDumpItem::Data {
                file: inode.file,
                at: (run.start - inode.base) * SECTOR_BYTES,
                len: (run.end - run.start) * SECTOR_BYTES,
            });
            at = run.end;
        }
        Ok(())
    }

    async fn dump_preallocated(&self, file: u64, out: &mut dyn FnMut(FsDumpItem)) -> Result<()> {
        let place = self.geometry().preallocation(file);
        let read = self.read_sectors(place, PREALLOCATION_SECTORS).await?;
        match Preallocation::decode(&read) {
            Ok(record) => {
                let ranges = record.map(|record| record.ranges).unwrap_or_default();
                ranges.iter().for_each(|range| {
                    out(FsDumpItem::Preallocated {
                        file,
                        at: range.start * SECTOR_BYTES,
                        len: (range.end - range.start) * SECTOR_BYTES,
                    });
                });
            }
            Err(why) => out(FsDumpItem::Damaged {
                what: format!("the preallocated ranges of file {file}: {why}"),
            }),
        }
        Ok(())
    }

    async fn dump_entries(
        &self,
        directory: &Inode,
        range: Range<u64>,
        out: &mut dyn FnMut(FsDumpItem),
    ) -> Result<()> {
        let mut at = range.start;
        while let Some((start, bytes)) = self.mapped_piece(at..range.end, AT_ONCE).await? {
            for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                match DirectoryEntry::decode(bytes) {
                    Ok(Some(entry)) => out(FsDumpItem::Entry {
                        directory: directory.file,
                        sector,
                        name: entry.name.escape_ascii().to_string(),
                        file: entry.file,
                        generation: entry.generation,
                    }),
                    Ok(None) => {}
                    Err(why) => out(FsDumpItem::Damaged {
                        what: format!("an entry of file {}: {why}", directory.file),
                    }),
                }
            }
        }
        Ok(())
    }

    async fn dump_marks(&self, out: &mut dyn FnMut(FsDumpItem)) -> Result<()> {
        let geometry = self.geometry();
        let (mut at, end) = (geometry.orphan(0).0, geometry.orphan(geometry.files()).0);
        while let Some((start, bytes)) = self.mapped_piece(at..end, AT_ONCE).await? {
            for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                match Orphan::decode(bytes) {
                    Ok(Some(mark)) => out(FsDumpItem::Nameless { file: mark.file }),
                    Ok(None) => {}
                    Err(why) => out(FsDumpItem::Damaged {
                        what: format!("an orphan record: {why}"),
                    }),
                }
            }
        }
        Ok(())
    }

    /// Returns the first mapped extent in a range, limited to `most` sectors: its first sector and its bytes.
    pub(crate) async fn mapped_piece(
        &self,
        range: Range<u64>,
        most: u64,
    ) -> Result<Option<(u64, Vec<u8>)>> {
        let Some(run) = self.space().next_mapped(range).await? else {
            return Ok(None);
        };
        let sectors = (run.end - run.start).min(most);
        let read = self.read_sectors(Sector(run.start), sectors).await?;
        Ok(Some((run.start, read.to_vec())))
    }

    /// Describes a range of sectors that cannot be read: the number of the file that owns it, if any, and its part of
    /// the file in words.
    pub fn unreadable(&self, run: Range<u64>) -> UnreadableRange {
        let geometry = self.geometry();
        let files = geometry.files();
        let arrays = [
            (geometry.inode(0).0, 1, "the i-node"),
            (geometry.orphan(0).0, 1, "the orphan record"),
            (
                geometry.preallocation(0).0,
                PREALLOCATION_SECTORS,
                "the record of preallocated ranges",
            ),
            (
                geometry.attributes(0).0,
                ATTRIBUTE_SECTORS,
                "extended attributes",
            ),
            (geometry.slot(0).0, u64::from(geometry.slot_sectors), "data"),
            (
                geometry.chunk(0).0,
                geometry.chunk_sectors(),
                "data or entries",
            ),
        ];
        let found = arrays
            .into_iter()
            .rev()
            .find(|(first, ..)| *first <= run.start);
        let sectors = run.end - run.start;
        match found {
            Some((first, each, what)) if (run.start - first) / each < files => {
                let (file, at) = ((run.start - first) / each, (run.start - first) % each);
                UnreadableRange {
                    file: Some(file),
                    what: format!(
                        "{what} cannot be read: {} bytes from {} on",
                        sectors * SECTOR_BYTES,
                        at * SECTOR_BYTES
                    ),
                }
            }
            _ => UnreadableRange {
                file: None,
                what: format!("{sectors} sectors from {} on cannot be read", run.start),
            },
        }
    }
}

fn damaged(error: FsError, out: &mut dyn FnMut(FsDumpItem)) -> Result<()> {
    match error {
        FsError::Damaged { .. } | FsError::Contradiction { .. } => {
            let what = error.to_string();
            out(FsDumpItem::Damaged { what });
            Ok(())
        }
        other => Err(other),
    }
}
