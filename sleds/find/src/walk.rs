//! Walks through the folders: visits every file once, in the order of its directory.
//!
//! Files are looked up relative to their directory's descriptor. Paths may therefore have any length, and a folder that
//! is moved during the walk does no harm. The status of a file is queried only if descending depends on it (folders,
//! types that the directory did not report, followed links).
//!
//! Invariant: the last [`OPEN_LEVELS`] levels have their directory open. Higher levels may be closed; they are reopened
//! on the way back, with a check of their identity.

use std::cell::{Cell, OnceCell};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, Stat};
use rustix::io::Errno;

use super::entry::{VisitedFile, stat_at};
use super::report;
use sleds_common::text;

/// Maximum number of open directories.
const OPEN_LEVELS: usize = 64;

/// Number of files above which a directory is walked in the order of the inodes, which on a disk is the order of their
/// places. GNU find does the same.
const SORT_FROM: usize = 10_000;

/// Filesystems (by the number in `statfs`) whose inodes have no place: tmpfs, NFS, CIFS, Lustre.
const UNPLACED: [u64; 4] = [0x0102_1994, 0x6969, 0xff53_4d42, 0x0bd0_0bd0];

/// Links that stand for their targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum FollowMode {
    #[default]
    Never,
    /// Links on the command line.
    Named,
    Always,
}

/// Options of a walk.
#[derive(Clone, Debug)]
pub(super) struct WalkOptions {
    pub(super) follow: FollowMode,
    pub(super) depth_min: usize,
    pub(super) depth_max: usize,
    /// Visit a folder after its content.
    pub(super) depth_first: bool,
    /// Visit folders of other filesystems, but not their content.
    pub(super) one_filesystem: bool,
    /// Ignore files that vanished after their directory was read.
    pub(super) ignore_race: bool,
}

/// Continuation after a visit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WalkFlow {
    Continue,
    /// Do not descend into this folder.
    Prune,
    /// End the walk.
    Quit,
}

/// Flags for opening a folder to read it.
pub(super) const READ_FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);

/// A file's status, if it was queried. An error was already reported.
type StatResult = Result<Option<Stat>, Errno>;

/// Receiver of the visited files.
pub(super) trait FileVisitor {
    fn visit(&mut self, entry: &VisitedFile<'_>) -> WalkFlow;

    /// Announces a file, or the return to a folder, at this depth below the starting point.
    fn at_depth(&mut self, depth: usize);
}

/// A file of a directory: position of its name, and the data that the directory reported.
struct FolderEntry {
    at: usize,
    kind: FileType,
    inode: u64,
}

/// A folder that is being walked.
struct WalkFolder {
    dir: Option<OwnedFd>,
    stat: Stat,
    /// The names, each with its terminating zero.
    names: Vec<u8>,
    items: Vec<FolderEntry>,
    next: usize,
    /// Length of the folder's path.
    path_len: usize,
}

impl WalkFolder {
    /// Returns true if the status belongs to this folder.
    fn is(&self, stat: &Stat) -> bool {
        self.stat.st_ino == stat.st_ino && self.stat.st_dev == stat.st_dev
    }

    fn name(&self, item: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.names[self.items[item].at..])
            .expect("every name was stored with its end")
    }
}

/// The walk from one starting point.
struct FileWalk<'a, V> {
    options: &'a WalkOptions,
    visitor: &'a mut V,
    start: &'a CStr,
    device: u64,
    path: Vec<u8>,
    levels: Vec<WalkFolder>,
    buffer: Vec<MaybeUninit<u8>>,
}

/// Walks from `start`. Returns true if the walk continues with the next starting point.
pub(super) fn walk<V: FileVisitor>(start: &[u8], options: &WalkOptions, visitor: &mut V) -> bool {
    let Ok(name) = CString::new(start) else {
        return true;
    };
    let follow = options.follow != FollowMode::Never;
    let stat = match stat_at(CWD, &name, follow) {
        Ok(stat) => stat,
        Err(errno) => {
            report::file_error(start, errno);
            return true;
        }
    };
    let mut walk = FileWalk {
        options,
        visitor,
        start: &name,
        device: stat.st_dev,
        path: start.to_vec(),
        levels: Vec::new(),
        buffer: vec![MaybeUninit::uninit(); 32 << 10],
    };
    walk.run(stat)
}

impl<V: FileVisitor> FileWalk<'_, V> {
    fn run(&mut self, stat: Stat) -> bool {
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.come_to(kind, Some(stat)) == WalkFlow::Quit {
            return false;
        }
        while let Some(level) = self.levels.last_mut() {
            if level.next < level.items.len() {
                let item = level.next;
                level.next += 1;
                let kind = level.items[item].kind;
                self.enter_name(item);
                if self.come_to(kind, None) == WalkFlow::Quit {
                    return false;
                }
            } else if self.leave() == WalkFlow::Quit {
                return false;
            }
        }
        true
    }

    /// Sets the path to that of a file of the last level.
    fn enter_name(&mut self, item: usize) {
        let level = self.levels.last().expect("a file has a folder");
        self.path.truncate(level.path_len);
        if !self.path.ends_with(b"/") {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(level.name(item).to_bytes());
    }

    /// Calls the visitor for the file in `path`, which is at depth `depth`.
    fn visit(&mut self, depth: usize, kind: FileType, stat: StatResult) -> WalkFlow {
        if depth < self.options.depth_min {
            return WalkFlow::Continue;
        }
        let (dir, name) = place(&self.levels[..depth], self.start);
        let entry = VisitedFile {
            path: &self.path,
            dir,
            name,
            depth,
            start_len: self.start.to_bytes().len(),
            follow: follows(self.options.follow, depth),
            kind: Cell::new((kind != FileType::Unknown).then_some(kind)),
            complained: Cell::new(stat.is_err()),
            stat: match stat {
                Ok(None) => OnceCell::new(),
                Ok(Some(stat)) => OnceCell::from(Ok(stat)),
                Err(errno) => OnceCell::from(Err(errno)),
            },
        };
        self.visitor.visit(&entry)
    }

    /// Visits the file in `path`, and descends into it if it is a folder.
    fn come_to(&mut self, kind: FileType, stat: Option<Stat>) -> WalkFlow {
        let depth = self.levels.len();
        self.visitor.at_depth(depth);
        let (kind, stat) = match self.look(kind, stat) {
            Ok(seen) => seen,
            Err(errno) => {
                self.complain(errno);
                let vanished = errno == Errno::NOENT && self.options.ignore_race;
                if errno == Errno::LOOP || vanished {
                    return WalkFlow::Continue;
                }
                // The expression may still match its name.
                return self.visit(depth, kind, Err(errno));
            }
        };
        match stat.filter(|_| kind == FileType::Directory) {
            Some(stat) => self.come_to_folder(depth, stat),
            None => self.visit(depth, kind, Ok(stat)),
        }
    }

    /// Returns the type of the file in `path`, and its status if the walk depends on it.
    fn look(&self, kind: FileType, stat: Option<Stat>) -> Result<(FileType, Option<Stat>), Errno> {
        let follow = follows(self.options.follow, self.levels.len());
        let matters = matches!(kind, FileType::Unknown | FileType::Directory)
            || kind == FileType::Symlink && follow;
        if stat.is_some() || !matters {
            return Ok((kind, stat));
        }
        let (dir, name) = place(&self.levels, self.start);
        let found = stat_at(dir, name, follow)?;
        Ok((FileType::from_raw_mode(found.st_mode), Some(found)))
    }

    fn come_to_folder(&mut self, depth: usize, stat: Stat) -> WalkFlow {
        let same = |level: &&WalkFolder| level.is(&stat);
        if let Some(above) = self.levels.iter().find(same) {
            self.complain_about_loop(above.path_len);
            return WalkFlow::Continue;
        }
        if !self.options.depth_first {
            match self.visit(depth, FileType::Directory, Ok(Some(stat))) {
                WalkFlow::Continue => {}
                WalkFlow::Prune => return WalkFlow::Continue,
                WalkFlow::Quit => return WalkFlow::Quit,
            }
        }
        let entered = self.enter_folder(depth, stat);
        if self.options.depth_first && !entered {
            return self.visit(depth, FileType::Directory, Ok(Some(stat)));
        }
        WalkFlow::Continue
    }

    /// Makes the folder in `path` the last level. Returns false if the walk does not enter it.
    fn enter_folder(&mut self, depth: usize, stat: Stat) -> bool {
        let stays = !self.options.one_filesystem || stat.st_dev == self.device;
        if depth >= self.options.depth_max || !stays {
            return false;
        }
        match self.open(stat) {
            Ok(level) => self.levels.push(level),
            Err(errno) => {
                report::file_error(&self.path, errno);
                return false;
            }
        }
        if let Some(far) = self.levels.len().checked_sub(OPEN_LEVELS + 1) {
            self.levels[far].dir = None;
        }
        true
    }

    fn complain(&self, errno: Errno) {
        let vanished = errno == Errno::NOENT && !self.levels.is_empty();
        if !(vanished && self.options.ignore_race) {
            report::file_error(&self.path, errno);
        }
    }

    fn complain_about_loop(&self, above: usize) {
        let [path, above] = [&self.path[..], &self.path[..above]].map(report::quote);
        let what = " is part of the same file system loop as ";
        report::error(text!("File system loop detected; ", path, what, above, "."));
    }

    /// Opens and reads the folder in `path`.
    fn open(&mut self, stat: Stat) -> Result<WalkFolder, Errno> {
        let (parent, name) = place(&self.levels, self.start);
        let mut flags = READ_FOLDER;
        if !follows(self.options.follow, self.levels.len()) {
            flags |= OFlags::NOFOLLOW;
        }
        let dir = rustix::fs::openat(parent, name, flags, Mode::empty())?;
        let mut level = WalkFolder {
            dir: None,
            stat,
            names: Vec::new(),
            items: Vec::new(),
            next: 0,
            path_len: self.path.len(),
        };
        if let Err(errno) = list(&dir, &mut self.buffer, &mut level) {
            self.complain(errno);
        }
        if level.items.len() > SORT_FROM {
            let magic = rustix::fs::fstatfs(&dir).map_or(0, |fs| fs.f_type as u64);
            if !UNPLACED.contains(&magic) {
                level.items.sort_by_key(|item| item.inode);
            }
        }
        level.dir = Some(dir);
        Ok(level)
    }

    /// Leaves a folder whose files were all visited, and visits the folder if it follows its content.
    fn leave(&mut self) -> WalkFlow {
        let left = self.levels.pop().expect("there is a level to leave");
        self.path.truncate(left.path_len);
        if let Some(parent) = self.levels.last_mut()
            && parent.dir.is_none()
        {
            match reopen(parent, left.dir.as_ref(), &self.path) {
                Ok(dir) => parent.dir = Some(dir),
                Err(errno) => {
                    let path = self.path[..parent.path_len].to_vec();
                    parent.next = parent.items.len();
                    report::file_error(&path, errno);
                }
            }
        }
        let depth = self.levels.len();
        self.visitor.at_depth(depth);
        if self.options.depth_first {
            return self.visit(depth, FileType::Directory, Ok(Some(left.stat)));
        }
        WalkFlow::Continue
    }
}

/// Returns true if a link at this depth stands for its target.
fn follows(follow: FollowMode, depth: usize) -> bool {
    match follow {
        FollowMode::Never => false,
        FollowMode::Named => depth == 0,
        FollowMode::Always => true,
    }
}

/// Returns the directory of the file after these levels, and its name in that directory.
fn place<'a>(levels: &'a [WalkFolder], start: &'a CStr) -> (BorrowedFd<'a>, &'a CStr) {
    match levels.last() {
        None => (CWD, start),
        Some(level) => (
            level.dir.as_ref().map_or(CWD, |dir| dir.as_fd()),
            level.name(level.next - 1),
        ),
    }
}

/// Reads a directory.
fn list(
    dir: &OwnedFd,
    buffer: &mut [MaybeUninit<u8>],
    level: &mut WalkFolder,
) -> Result<(), Errno> {
    let mut entries = RawDir::new(dir, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        level.items.push(FolderEntry {
            at: level.names.len(),
            kind: entry.file_type(),
            inode: entry.ino(),
        });
        level.names.extend_from_slice(name.to_bytes_with_nul());
    }
    Ok(())
}

/// Reopens a folder that was closed while the walk was deep below it.
fn reopen(level: &WalkFolder, below: Option<&OwnedFd>, path: &[u8]) -> Result<OwnedFd, Errno> {
    let same = |dir: OwnedFd| {
        let stat = rustix::fs::fstat(&dir).ok()?;
        level.is(&stat).then_some(dir)
    };
    let up = below.and_then(|dir| rustix::fs::openat(dir, c"..", READ_FOLDER, Mode::empty()).ok());
    if let Some(dir) = up.and_then(same) {
        return Ok(dir);
    }
    // The folder below was reached by a link, or was moved.
    let dir = rustix::fs::openat(CWD, &path[..level.path_len], READ_FOLDER, Mode::empty())?;
    same(dir).ok_or(Errno::NOENT)
}
