//! Users that change files, and record the guarantees of `fsync`.
//!
//! Each user has a directory of its own, so that its records need no lock. Before a user changes a file, it removes the
//! guarantee of the file, or weakens it to the part that holds during the change. It records the new guarantee only
//! when the last necessary `fsync` has returned, and only if the daemon was not yet being killed by then. The reason:
//! on a dead device, ext4 (of Linux 6.18) sometimes lets an `fsync` of a directory succeed. So whenever the daemon
//! dies, the filesystem has really given every recorded guarantee.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_rng::Rng;

use crate::durably::{PAGE, WriteMethod};
use crate::kinds::FilesystemType;

const DIRECTORIES: u64 = 4;
/// Above this number of files, a user only deletes.
const FILES_MAX: usize = 80;
const TREE_FILES: u64 = 8;
/// Changes in place are compared in units of this many bytes: no device tears a smaller unit.
const SECTOR: usize = 512;

type FileBytes = Vec<u8>;

/// The expected content of a path.
#[derive(Debug)]
enum ExpectedPath {
    /// This content.
    File(FileBytes),
    /// This content, possibly followed by more.
    Begins(FileBytes),
    /// Each sector as in one of the two contents.
    Between(FileBytes, FileBytes),
    /// One of the two contents as a whole: a new file is being renamed over an old one.
    Either(FileBytes, FileBytes),
    /// No file.
    Absent,
}

pub(crate) struct CrashUser {
    dir: PathBuf,
    numbers: Rng,
    promises: BTreeMap<PathBuf, ExpectedPath>,
    /// Files that were written and not yet fsynced.
    loose: BTreeMap<PathBuf, FileBytes>,
    /// A file that was renamed over another stays there once the directory was fsynced.
    trusts_replacement: bool,
    serial: u64,
    /// Set before the daemon is killed.
    killed: Arc<AtomicBool>,
    /// Acts of this round, to explain a broken guarantee.
    history: Vec<String>,
}

fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn parent(path: &Path) -> &Path {
    path.parent().expect("it is in a directory")
}

impl CrashUser {
    /// Returns a user of the directory `dir`, in a filesystem of this kind.
    pub(crate) fn new(kind: &FilesystemType, dir: PathBuf, seed: u64) -> CrashUser {
        CrashUser {
            dir,
            numbers: Rng::new(seed),
            promises: BTreeMap::new(),
            loose: BTreeMap::new(),
            trusts_replacement: kind.keeps_replacements,
            serial: 0,
            killed: Arc::default(),
            history: Vec::new(),
        }
    }

    /// Returns the number of guarantees.
    pub(crate) fn promised(&self) -> usize {
        self.promises.len()
    }

    /// Accepts the present files as given, and makes them durable. Guarantees are recorded until `killed` is set.
    pub(crate) fn begin(&mut self, killed: &Arc<AtomicBool>) -> io::Result<()> {
        self.killed = Arc::clone(killed);
        for n in 0..DIRECTORIES {
            fs::create_dir_all(self.dir.join(format!("d{n}")))?;
        }
        self.loose.clear();
        self.history.clear();
        self.promises = files(&self.dir)?
            .into_iter()
            .map(|path| Ok((path.clone(), ExpectedPath::File(fs::read(path)?))))
            .collect::<io::Result<_>>()?;
        rustix::fs::syncfs(File::open(&self.dir)?)?;
        // FUSE does not receive the `syncfs`; it receives this request.
        sync_dir(&self.dir)?;
        Ok(())
    }

    /// Does a random act.
    pub(crate) fn act(&mut self) -> io::Result<()> {
        if self.settled().len() > FILES_MAX {
            return match self.numbers.below(3) {
                0 => self.remove_tree(),
                _ => self.delete(),
            };
        }
        match self.numbers.below(100) {
            0..22 => self.create(true),
            22..40 => self.append(),
            40..60 => self.overwrite(),
            60..70 => self.replace(),
            70..78 => self.rename(),
            78..86 => self.delete(),
            86..90 => self.copy_tree(),
            90..91 => self.remove_tree(),
            91..94 => self.create(false),
            94..97 => self.overwrite_loosely(),
            _ => self.sync(),
        }
    }

    /// Returns the broken guarantees, as texts.
    pub(crate) fn broken(&self) -> Vec<String> {
        let looked = self.promises.iter().map(|(path, promise)| {
            let wrong = match fs::read(path) {
                Ok(found) => promise.wrong(&found),
                Err(error) if error.kind() == io::ErrorKind::NotFound => match promise {
                    ExpectedPath::Absent => None,
                    _ => Some("is missing".into()),
                },
                Err(error) => Some(format!("cannot be read: {error}")),
            };
            wrong.map(|wrong| format!("{} {wrong}{}", path.display(), self.story(path)))
        });
        looked.flatten().collect()
    }

    fn note(&mut self, did: &str, path: &Path) {
        self.history.push(format!("{did} {}", path.display()));
    }

    /// Returns the acts on the file at `path`, and on the directories above it.
    fn story(&self, path: &Path) -> String {
        let concerns = |act: &str| act.split([' ', ',']).any(|word| path.starts_with(word));
        let acts = self.history.iter().enumerate();
        let lines = acts.filter(|(_, act)| concerns(act));
        let lines =
            lines.map(|(n, act)| format!("\n    {} of {}: {act}", n + 1, self.history.len()));
        lines.collect()
    }

    /// Fails if the daemon is being killed. Called after an `fsync` has returned, before its guarantee is recorded.
    fn believe(&self) -> io::Result<()> {
        if self.killed.load(Ordering::SeqCst) {
            Err(io::Error::other("the daemon is being killed"))
        } else {
            Ok(())
        }
    }

    fn settled(&self) -> Vec<&PathBuf> {
        let files = self.promises.iter();
        files
            .filter(|(_, promise)| matches!(promise, ExpectedPath::File(_)))
            .map(|(path, _)| path)
            .collect()
    }

    /// Takes a file with a full guarantee, and removes its guarantee.
    fn pick(&mut self) -> Option<(PathBuf, FileBytes)> {
        let settled = self.settled();
        let count = settled.len() as u64;
        if count == 0 {
            return None;
        }
        let settled: Vec<PathBuf> = settled.into_iter().cloned().collect();
        let path = settled[self.numbers.below(count) as usize].clone();
        match self.promises.remove(&path) {
            Some(ExpectedPath::File(content)) => Some((path, content)),
            _ => None,
        }
    }

    fn new_path(&mut self) -> PathBuf {
        self.serial += 1;
        let dir = format!("d{}", self.numbers.below(DIRECTORIES));
        // A new name: no guarantee concerns it.
        self.dir
            .join(dir)
            .join(format!("f{}-{}", self.serial, self.numbers.next()))
    }

    /// Returns random bytes: more than half of the lengths below 8 KiB, some of hundreds of kilobytes.
    fn some_bytes(&mut self) -> Vec<u8> {
        let len = match self.numbers.below(10) {
            0..5 => 1 + self.numbers.below(8 << 10),
            5..9 => self.numbers.below(48 << 10),
            _ => self.numbers.below(400 << 10),
        };
        self.numbers.bytes(len as usize)
    }

    fn create(&mut self, durably: bool) -> io::Result<()> {
        let (path, content) = (self.new_path(), self.some_bytes());
        self.note(if durably { "create" } else { "create loosely" }, &path);
        let mut file = File::create_new(&path)?;
        file.write_all(&content)?;
        if !durably {
            self.loose.insert(path, content);
            return Ok(());
        }
        file.sync_all()?;
        sync_dir(parent(&path))?;
        self.believe()?;
        self.promises.insert(path, ExpectedPath::File(content));
        Ok(())
    }

    fn append(&mut self) -> io::Result<()> {
        let Some((path, mut content)) = self.pick() else {
            return self.create(true);
        };
        self.promises
            .insert(path.clone(), ExpectedPath::Begins(content.clone()));
        self.note("append to", &path);
        let more = self.some_bytes();
        let mut file = File::options().append(true).open(&path)?;
        file.write_all(&more)?;
        file.sync_all()?;
        self.believe()?;
        content.extend(more);
        self.promises.insert(path, ExpectedPath::File(content));
        Ok(())
    }

    /// Returns `content` with a changed range, and the bounds of the range.
    fn change(&mut self, content: &[u8]) -> (FileBytes, usize, usize) {
        let mut new = content.to_owned();
        let at = self.numbers.below(content.len().max(1) as u64) as usize;
        let len = 1 + self.numbers.below((content.len() - at).max(1) as u64) as usize;
        let end = content.len().min(at + len);
        let bytes = self.numbers.bytes(end - at);
        new[at..end].copy_from_slice(&bytes);
        (new, at, end)
    }

    fn overwrite(&mut self) -> io::Result<()> {
        let Some((path, old)) = self.pick() else {
            return self.create(true);
        };
        let (mut new, mut at, mut end) = self.change(&old);
        let way = WriteMethod::any(&self.numbers);
        if way.direct {
            // Whole pages only.
            let (from, to) = (at.next_multiple_of(PAGE), end / PAGE * PAGE);
            let part = new[at..end].to_owned();
            new.clone_from(&old);
            if from < to {
                new[from..to].copy_from_slice(&part[from - at..to - at]);
            }
            (at, end) = (from, to.max(from));
        }
        let during = ExpectedPath::Between(old, new.clone());
        self.promises.insert(path.clone(), during);
        self.note(&format!("{way:?}: overwrite"), &path);
        if at < end {
            way.write(&path, &new[at..end], at as u64)?;
        }
        self.believe()?;
        self.promises.insert(path, ExpectedPath::File(new));
        Ok(())
    }

    fn overwrite_loosely(&mut self) -> io::Result<()> {
        let Some((path, old)) = self.pick() else {
            return Ok(());
        };
        let (new, at, end) = self.change(&old);
        let during = ExpectedPath::Between(old, new.clone());
        self.promises.insert(path.clone(), during);
        self.note("overwrite loosely", &path);
        let file = File::options().write(true).open(&path)?;
        file.write_all_at(&new[at..end], at as u64)?;
        self.loose.insert(path, new);
        Ok(())
    }

    /// Replaces a file as editors do: writes a new file beside the old one, makes it durable, and renames it over the
    /// old one.
    fn replace(&mut self) -> io::Result<()> {
        let Some((path, old)) = self.pick() else {
            return self.create(true);
        };
        let new = self.some_bytes();
        self.serial += 1;
        let name = format!("new{}-{}", self.serial, self.numbers.next());
        let temporary = parent(&path).join(name);
        self.promises
            .insert(path.clone(), ExpectedPath::Either(old, new.clone()));
        self.note(
            &format!("write {}, rename it to", temporary.display()),
            &path,
        );
        let mut file = File::create_new(&temporary)?;
        file.write_all(&new)?;
        file.sync_all()?;
        fs::rename(&temporary, &path)?;
        sync_dir(parent(&path))?;
        self.believe()?;
        if self.trusts_replacement {
            self.promises.insert(path, ExpectedPath::File(new));
            self.promises.insert(temporary, ExpectedPath::Absent);
        } else {
            self.loose.insert(path, new);
        }
        Ok(())
    }

    fn rename(&mut self) -> io::Result<()> {
        let Some((from, content)) = self.pick() else {
            return Ok(());
        };
        let to = self.new_path();
        self.note(&format!("rename {} to", from.display()), &to);
        fs::rename(&from, &to)?;
        File::open(&to)?.sync_all()?;
        sync_dir(parent(&to))?;
        sync_dir(parent(&from))?;
        self.believe()?;
        self.promises.insert(to, ExpectedPath::File(content));
        self.promises.insert(from, ExpectedPath::Absent);
        Ok(())
    }

    fn delete(&mut self) -> io::Result<()> {
        let Some((path, _)) = self.pick() else {
            return Ok(());
        };
        self.note("delete", &path);
        fs::remove_file(&path)?;
        sync_dir(parent(&path))?;
        self.believe()?;
        self.promises.insert(path, ExpectedPath::Absent);
        Ok(())
    }

    /// Copies some files into a new directory with a subdirectory, all made durable at the end.
    fn copy_tree(&mut self) -> io::Result<()> {
        let settled: Vec<PathBuf> = self.settled().into_iter().cloned().collect();
        let count = settled.len() as u64;
        let chosen: Vec<&PathBuf> = (0..count.min(TREE_FILES))
            .map(|_| &settled[self.numbers.below(count) as usize])
            .collect();
        self.serial += 1;
        let tree = self
            .dir
            .join(format!("tree{}-{}", self.serial, self.numbers.next()));
        let inner = tree.join("inner");
        fs::create_dir_all(&inner)?;
        let mut copies = Vec::new();
        for (n, from) in chosen.into_iter().enumerate() {
            let to = if n % 2 == 0 { &tree } else { &inner }.join(format!("copy{n}"));
            self.note(&format!("copy {} to", from.display()), &to);
            fs::copy(from, &to)?;
            copies.push((from, to));
        }
        for (_, to) in &copies {
            File::open(to)?.sync_all()?;
        }
        for dir in [&inner, &tree, &self.dir] {
            sync_dir(dir)?;
        }
        self.believe()?;
        self.note("copied", &tree);
        for (from, to) in copies {
            if let Some(ExpectedPath::File(content)) = self.promises.get(from) {
                let content = content.clone();
                self.promises.insert(to, ExpectedPath::File(content));
            }
        }
        Ok(())
    }

    fn remove_tree(&mut self) -> io::Result<()> {
        let is_tree = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("tree");
        let mut trees: Vec<PathBuf> = fs::read_dir(&self.dir)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.file_name().is_some_and(is_tree))
            .collect();
        trees.sort();
        let Some(tree) = trees.first() else {
            return Ok(());
        };
        let tree = tree.clone();
        self.note("remove all below", &tree);
        let inside: Vec<PathBuf> = self
            .promises
            .keys()
            .filter(|path| path.starts_with(&tree))
            .cloned()
            .collect();
        self.promises.retain(|path, _| !path.starts_with(&tree));
        self.loose.retain(|path, _| !path.starts_with(&tree));
        fs::remove_dir_all(&tree)?;
        sync_dir(&self.dir)?;
        self.believe()?;
        self.promises
            .extend(inside.into_iter().map(|path| (path, ExpectedPath::Absent)));
        Ok(())
    }

    /// Makes all loose files durable.
    fn sync(&mut self) -> io::Result<()> {
        self.note("sync all of", &self.dir.clone());
        rustix::fs::syncfs(File::open(&self.dir)?)?;
        // FUSE does not receive the `syncfs`; it receives this request, and makes all files durable for it.
        sync_dir(&self.dir)?;
        self.believe()?;
        for (path, content) in std::mem::take(&mut self.loose) {
            self.promises.insert(path, ExpectedPath::File(content));
        }
        Ok(())
    }
}

impl ExpectedPath {
    /// Returns a text that describes the violation by a file with the content `found`.
    fn wrong(&self, found: &[u8]) -> Option<String> {
        match self {
            ExpectedPath::File(content) => differs(found, content),
            ExpectedPath::Begins(content) if found.len() >= content.len() => {
                differs(&found[..content.len()], content)
            }
            ExpectedPath::Begins(content) => differs(found, content),
            ExpectedPath::Between(old, new) => {
                let lost = |at: &usize| {
                    let piece = |of: &[u8]| of[*at..of.len().min(at + SECTOR)].to_owned();
                    piece(found) != piece(old) && piece(found) != piece(new)
                };
                if found.len() != old.len() {
                    return differs(found, old);
                }
                let at = (0..found.len()).step_by(SECTOR).find(lost)?;
                Some(format!("has neither the old nor the new content at {at}"))
            }
            ExpectedPath::Either(old, new) if found == old || found == new => None,
            ExpectedPath::Either(old, _) => Some(format!(
                "is neither the old nor the new file: {:?}",
                differs(found, old)
            )),
            ExpectedPath::Absent => Some("is there again".into()),
        }
    }
}

/// Describes the difference of `found` from `expected`, with details that help to find the cause.
fn differs(found: &[u8], expected: &[u8]) -> Option<String> {
    if found == expected {
        return None;
    }
    let mut pairs = found.iter().zip(expected);
    let first = pairs
        .position(|(a, b)| a != b)
        .unwrap_or(found.len().min(expected.len()));
    let wrong = found.iter().zip(expected).filter(|(a, b)| a != b).count();
    let zeroes = found[first..].iter().take_while(|&&byte| byte == 0).count();
    Some(format!(
        "has {} bytes, {} expected; {wrong} differ, the first at {first}, where {zeroes} zeroes \
         follow",
        found.len(),
        expected.len(),
    ))
}

/// Returns all files below `dir`.
fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut found, mut left) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(next)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                left.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    Ok(found)
}
