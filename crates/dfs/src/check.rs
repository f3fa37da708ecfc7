//! Checks a filesystem: each name must refer to an existing file, counts must be correct, and every mapped sector must
//! belong to a file.
//!
//! The check repairs nothing, since a crash leaves nothing that needs repair.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_units::SECTOR_BYTES;

use crate::error::{FsError, Result};
use crate::format::{DirectoryEntry, FileKind, Inode, Orphan, Preallocation};
use crate::fs::Fs;
use crate::geometry::{ATTRIBUTE_SECTORS, PREALLOCATION_SECTORS, ROOT};
use crate::settle::is_of;

/// The number of sectors read at once.
const AT_ONCE: u64 = 256;

/// An inconsistency of the filesystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsProblem {
    /// The i-number of the file concerned.
    pub file: u64,
    /// The inconsistency, as text.
    pub what: String,
}

/// Totals of a check.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct FsCheckTotals {
    /// Files, including directories.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Names.
    pub names: u64,
    /// Files without a name.
    pub orphans: u64,
    /// Sectors of data.
    pub data_sectors: u64,
}

/// The facts collected about a file so far.
struct CheckedFile {
    inode: Inode,
    /// Names found for this file.
    names: u32,
    /// Subdirectories found in this directory.
    directories: u32,
    /// Entries found in this directory.
    size: u64,
    is_orphan: bool,
}

struct FsChecker<'a> {
    fs: &'a Fs,
    known: BTreeMap<u64, CheckedFile>,
    checked: FsCheckTotals,
    problem: &'a mut dyn FnMut(FsProblem),
}

impl Fs {
    /// Checks the whole filesystem, and reports each problem. The filesystem must not change meanwhile. Times that are
    /// newer in memory than in the space do not matter.
    ///
    /// # Errors
    ///
    /// If a structure cannot be read.
    pub async fn check(&self, problem: &mut dyn FnMut(FsProblem)) -> Result<FsCheckTotals> {
        let mut check = FsChecker {
            fs: self,
            known: BTreeMap::new(),
            checked: FsCheckTotals::default(),
            problem,
        };
        check.inodes().await?;
        check.orphans().await?;
        check.entries().await?;
        check.counts();
        check.preallocations().await?;
        check.owners().await?;
        Ok(check.checked)
    }
}

impl FsChecker<'_> {
    fn report(&mut self, file: u64, what: impl Into<String>) {
        let what = what.into();
        (self.problem)(FsProblem { file, what });
    }

    /// Returns the next mapped piece of a range: its first sector and its bytes.
    async fn next_piece(&self, range: Range<u64>) -> Result<Option<(u64, Vec<u8>)>> {
        self.fs.mapped_piece(range, AT_ONCE).await
    }

    async fn inodes(&mut self) -> Result<()> {
        let geometry = self.fs.geometry();
        let (first, end) = (geometry.inode(0).0, geometry.inode(geometry.files()).0);
        let mut at = first;
        while let Some((start, bytes)) = self.next_piece(at..end).await? {
            for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                let number = sector - first;
                match self.fs.inode_in(number, bytes) {
                    Ok(Some(inode)) => {
                        self.checked.files += 1;
                        self.checked.directories += u64::from(inode.kind == FileKind::Directory);
                        let known = CheckedFile {
                            inode,
                            names: 0,
                            directories: 0,
                            size: 0,
                            is_orphan: false,
                        };
                        self.known.insert(number, known);
                    }
                    Ok(None) => self.report(number, "its i-node is mapped but empty"),
                    Err(error) => self.damaged(number, error)?,
                }
            }
        }
        Ok(())
    }

    fn damaged(&mut self, file: u64, error: FsError) -> Result<()> {
        match error {
            FsError::Damaged { .. } | FsError::Contradiction { .. } => {
                self.report(file, error.to_string());
                Ok(())
            }
            other => Err(other),
        }
    }

    async fn orphans(&mut self) -> Result<()> {
        let geometry = self.fs.geometry();
        let (first, end) = (geometry.orphan(0).0, geometry.orphan(geometry.files()).0);
        let mut at = first;
        while let Some((start, bytes)) = self.next_piece(at..end).await? {
            for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                at = sector + 1;
                let number = sector - first;
                self.checked.orphans += 1;
                let mark = Orphan::decode(bytes);
                match (mark, self.known.get_mut(&number)) {
                    (Ok(Some(mark)), Some(known))
                        if mark.file == number && mark.generation == known.inode.generation =>
                    {
                        known.is_orphan = true;
                    }
                    (Ok(Some(_)), _) => {
                        self.report(number, "its orphan record does not match its i-node");
                    }
                    (Ok(None), _) => self.report(number, "its orphan record is mapped but empty"),
                    (Err(why), _) => {
                        self.report(number, format!("its orphan record is damaged: {why}"));
                    }
                }
            }
        }
        Ok(())
    }

    async fn entries(&mut self) -> Result<()> {
        let of_kind = |known: &CheckedFile| known.inode.kind == FileKind::Directory;
        let directories = self.known.values().filter(|known| of_kind(known));
        let directories: Vec<Inode> = directories.map(|known| known.inode.clone()).collect();
        let sectors = self.fs.geometry().chunk_sectors();
        for directory in directories {
            let end = directory.base + sectors;
            let mut at = directory.base;
            while let Some((start, bytes)) = self.next_piece(at..end).await? {
                for (sector, bytes) in (start..).zip(bytes.chunks(SECTOR_BYTES as usize)) {
                    at = sector + 1;
                    self.entry(&directory, sector, bytes);
                }
            }
        }
        Ok(())
    }

    fn entry(&mut self, directory: &Inode, at: u64, bytes: &[u8]) {
        let number = directory.file;
        let entry = match DirectoryEntry::decode(bytes) {
            Ok(Some(entry)) => entry,
            Ok(None) => return self.report(number, "an entry is mapped but empty"),
            Err(why) => return self.report(number, format!("an entry is damaged: {why}")),
        };
        self.checked.names += 1;
        let name = entry.name.escape_ascii().to_string();
        if !self.fs.is_findable(directory, &entry.name, at) {
            self.report(
                number,
                format!("the name {name} is at a place where lookups do not find it"),
            );
        }
        let Some(named) = self.known.get_mut(&entry.file) else {
            let what = format!(
                "its name {name} refers to file {}, which is missing",
                entry.file
            );
            return self.report(number, what);
        };
        named.names += 1;
        let inode = &named.inode;
        let is_directory = inode.kind == FileKind::Directory;
        let mut wrong = Vec::new();
        if inode.generation != entry.generation {
            wrong.push(format!(
                "its name {name} belongs to an earlier file with this number"
            ));
        }
        if inode.kind != entry.kind {
            wrong.push(format!("its name {name} records another file type"));
        }
        if is_directory && inode.parent != number {
            wrong.push(format!(
                "its name {name} is in directory {number}, but its i-node records another parent"
            ));
        }
        for what in wrong {
            self.report(entry.file, what);
        }
        if let Some(parent) = self.known.get_mut(&number) {
            parent.size += 1;
            parent.directories += u32::from(is_directory);
        }
    }

    fn counts(&mut self) {
        let mut wrong = Vec::new();
        for (number, known) in &self.known {
            let CheckedFile { inode, names, .. } = known;
            let mut say = |what: String| wrong.push((*number, what));
            let is_directory = inode.kind == FileKind::Directory;
            let links = match (is_directory, known.is_orphan || *names == 0) {
                (true, true) if *number != ROOT => 0,
                (true, _) => 2 + known.directories,
                (false, _) => *names,
            };
            if inode.links != links {
                say(format!(
                    "its i-node records {} names, but it has {links}",
                    inode.links
                ));
            }
            if is_directory && inode.size != known.size {
                let (says, has) = (inode.size, known.size);
                say(format!(
                    "its i-node records {says} names in the directory, but it has {has}"
                ));
            }
            if is_directory && *names > 1 {
                say(format!("it is a directory with {names} names"));
            }
            match (known.is_orphan, *names == 0 && *number != ROOT) {
                (true, false) => say("it has an orphan record, but also a name".into()),
                (false, true) => say("it has no name and no orphan record".into()),
                _ => {}
            }
        }
        if !self.known.contains_key(&ROOT) {
            wrong.push((ROOT, "the root directory is missing".into()));
        }
        for (file, what) in wrong {
            self.report(file, what);
        }
    }

    /// Checks that each record of preallocated ranges belongs to a file and lies within its possible size.
    async fn preallocations(&mut self) -> Result<()> {
        let geometry = self.fs.geometry();
        let first = geometry.preallocation(0).0;
        let end = geometry.preallocation(geometry.files()).0;
        let mut at = first;
        while let Some(run) = self.fs.space().next_mapped(at..end).await? {
            let file = (run.start - first) / PREALLOCATION_SECTORS;
            let place = geometry.preallocation(file);
            at = place.0 + PREALLOCATION_SECTORS;
            let read = self.fs.read_sectors(place, PREALLOCATION_SECTORS).await?;
            let inode = self.known.get(&file).map(|known| &known.inode);
            let is_right = |record: &Preallocation| {
                let end = record.ranges.iter().last().map(|range| range.end);
                let is_within = end.is_some_and(|end| end <= geometry.chunk_sectors());
                is_within && inode.is_some_and(|inode| is_of(record, inode))
            };
            match Preallocation::decode(&read) {
                Ok(Some(record)) if is_right(&record) => {}
                Ok(_) => self.report(
                    file,
                    "its record of preallocated ranges does not match its i-node",
                ),
                Err(why) => {
                    self.report(file, format!("its preallocated ranges are damaged: {why}"));
                }
            }
        }
        Ok(())
    }

    /// Checks that every mapped sector belongs to a file.
    async fn owners(&mut self) -> Result<()> {
        let geometry = self.fs.geometry();
        let files = geometry.files();
        self.owned(8..geometry.inode(0).0, 1, |_, _| 0).await?;
        let attributes = geometry.attributes(0).0..geometry.attributes(files).0;
        let before = geometry.orphan(files).0..geometry.preallocation(0).0;
        self.owned(before, 1, |_, _| 0).await?;
        self.owned(attributes, ATTRIBUTE_SECTORS, |inode, _| {
            u64::from(inode.attributes).div_ceil(SECTOR_BYTES)
        })
        .await?;
        let slots = geometry.slot(0).0..geometry.slot(files).0;
        let chunks = geometry.chunk(0).0..geometry.chunk(files).0;
        let between = slots.end..chunks.start;
        self.owned(slots, geometry.slot_sectors.into(), data_at)
            .await?;
        self.owned(between, 1, |_, _| 0).await?;
        self.owned(chunks, geometry.chunk_sectors(), data_at).await
    }

    /// Checks an array with one place for each file: mapped sectors must lie within the part that the file uses.
    async fn owned(
        &mut self,
        range: Range<u64>,
        each: u64,
        has: fn(&Inode, u64) -> u64,
    ) -> Result<()> {
        let mut at = range.start;
        while let Some(run) = self.fs.space().next_mapped(at..range.end).await? {
            let number = (run.start - range.start) / each;
            let base = range.start + number * each;
            let known = self.known.get(&number);
            let end = base + known.map_or(0, |known| has(&known.inode, base));
            let within = run.end.min(base + each);
            if end < within {
                let beyond = within - end.max(run.start);
                self.report(
                    number,
                    format!("{beyond} sectors beyond its data are mapped"),
                );
            }
            self.checked.data_sectors += within - run.start;
            at = within;
        }
        Ok(())
    }
}

/// Returns the number of sectors that a file's data may have at `base`.
fn data_at(inode: &Inode, base: u64) -> u64 {
    match inode.kind {
        _ if inode.base != base => 0,
        FileKind::Directory => u64::MAX - base,
        _ => inode.size.div_ceil(SECTOR_BYTES),
    }
}
