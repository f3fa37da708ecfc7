//! Selects the files and devices that `sleds calibrate` reads.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_rng::Rng;
use rustix::fs::{Mode, OFlags};
use sleds::{FilePlace, StorageLevel, calibrate, describe};

/// Bytes of the scratch file in a directory.
const SCRATCH_BYTES: u64 = 128 << 20;

/// Returns the files to read for these devices and paths, with their names, and true if all of them could be opened.
/// Without devices and paths: all disks (root), or the disk that `table` is on.
pub(super) fn of(
    devices: &[PathBuf],
    paths: &[PathBuf],
    table: &Path,
) -> (Vec<(PathBuf, File)>, bool) {
    let mut wanted: Vec<(PathBuf, io::Result<File>)> = Vec::new();
    for device in devices {
        wanted.push((device.clone(), File::open(device)));
    }
    for path in paths {
        wanted.push((path.clone(), file_to_read(path)));
    }
    if wanted.is_empty() && rustix::process::geteuid().is_root() {
        let disks = disks().into_iter();
        wanted.extend(disks.map(|(disk, point)| disk_to_read(disk, point)));
    }
    if wanted.is_empty() {
        let directory = directory_of(table);
        let file = fs::create_dir_all(directory);
        let file = file.and_then(|()| match old_file(directory) {
            Some(file) => Ok(file),
            None => scratch(directory, SCRATCH_BYTES),
        });
        wanted.push((directory.to_owned(), file));
    }
    let mut complete = true;
    let mut targets = Vec::new();
    for (path, file) in wanted {
        match file {
            Ok(file) => targets.push((path, file)),
            Err(error) => {
                eprintln!("sleds calibrate: {}: {error}", path.display());
                complete = false;
            }
        }
    }
    (targets, complete)
}

/// Returns the disks below the mounted filesystems, each once, with a mount point on the disk.
fn disks() -> BTreeMap<PathBuf, PathBuf> {
    let mut disks = BTreeMap::new();
    for point in sleds::mounts().into_iter().map(|mount| mount.point) {
        let place = File::open(&point).and_then(|directory| FilePlace::of(&directory));
        for device in place.map(|place| place.chain).unwrap_or_default() {
            let pieced = ["loop", "zram", "ram"]
                .iter()
                .any(|kind| device.name.starts_with(kind));
            if device.bytes.is_some_and(|bytes| bytes > 0) && !pieced {
                let disk = Path::new("/dev").join(&device.name);
                disks.entry(disk).or_insert_with(|| point.clone());
                // Devices below this one are measured through it.
                break;
            }
        }
    }
    disks
}

/// Opens the disk, or a file on it if even root may not open the disk (in a container).
fn disk_to_read(disk: PathBuf, point: PathBuf) -> (PathBuf, io::Result<File>) {
    match File::open(&disk) {
        Ok(file) => (disk, Ok(file)),
        Err(error) => {
            let place = if point.is_dir() {
                point
            } else {
                std::env::temp_dir()
            };
            let (what, file) = match old_file(&place) {
                Some(file) => ("an old", Ok(file)),
                None => ("a scratch", scratch(&place, SCRATCH_BYTES)),
            };
            eprintln!(
                "sleds calibrate: {}: cannot be read ({error}), so {what} file in {} is",
                disk.display(),
                place.display()
            );
            (place, file)
        }
    }
}

/// Opens the file itself, or a scratch file in a directory.
fn file_to_read(path: &Path) -> io::Result<File> {
    let meta = fs::metadata(path)?;
    if meta.is_dir() {
        scratch(path, SCRATCH_BYTES)
    } else {
        File::open(path)
    }
}

/// Returns a file for measuring memory, on a measured filesystem or on the table's filesystem. `None` if the file
/// cannot be made.
pub(super) fn to_be_cached(paths: &[PathBuf], table: &Path) -> Option<File> {
    let mut directories = paths.iter().map(|path| {
        if path.is_dir() {
            path
        } else {
            directory_of(path)
        }
    });
    let directory = directories.next().unwrap_or(directory_of(table));
    scratch(directory, calibrate::MEMORY_BYTES).ok()
}

fn directory_of(path: &Path) -> &Path {
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    parent.unwrap_or(Path::new("."))
}

/// Returns a file of the filesystem at `point` that is typical of later reads: large, and not cached, since measuring
/// evicts it. The file was not written for a day, since a cache below may still hold newer data.
fn old_file(point: &Path) -> Option<File> {
    const AGE_S: i64 = 86_400;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    file_like(point, SCRATCH_BYTES, now.as_secs() as i64 - AGE_S)
}

/// Returns such a file of at least `bytes` bytes that was last written before a time in seconds since 1970.
fn file_like(point: &Path, bytes: u64, written_before: i64) -> Option<File> {
    const SEARCH: Duration = Duration::from_secs(2);
    let device = fs::metadata(point).ok()?.dev();
    let end = Instant::now() + SEARCH;
    let mut folders = VecDeque::from([point.to_owned()]);
    while let Some(folder) = folders.pop_front().filter(|_| Instant::now() < end) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.dev() != device {
                continue;
            }
            if meta.is_dir() {
                folders.push_back(entry.path());
            }
            let is_large = meta.is_file() && meta.blocks().saturating_mul(512) >= bytes;
            if is_large
                && meta.ctime() < written_before
                && let Ok(file) = File::open(entry.path())
                && is_all_on_a_device(&file)
            {
                return Some(file);
            }
        }
    }
    None
}

/// Returns true if no byte of the file is cached, in a hole, or at an unknown level.
fn is_all_on_a_device(file: &File) -> bool {
    let sleds = describe(file).unwrap_or_default();
    let mut levels = sleds.iter().map(|sled| &sled.level);
    levels.all(|level| matches!(level, StorageLevel::Device(_)))
}

/// Makes a new file of incompressible bytes, without a name.
fn scratch(directory: &Path, length: u64) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        Err(_) => named_scratch(directory)?,
    };
    fill(&file, length)?;
    Ok(file)
}

/// Makes a file that loses its name at once, for filesystems without `O_TMPFILE`.
fn named_scratch(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".sleds-calibrate.{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

/// Writes bytes that neither compress nor repeat, so that the filesystem has to store them.
fn fill(mut file: &File, length: u64) -> io::Result<()> {
    let stat = rustix::fs::fstatvfs(file)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    let mut left = length.min(free / 4);
    let mut block = vec![0; 1 << 20];
    let rng = Rng::new(1);
    while left > 0 {
        rng.fill(&mut block);
        let length = left.min(block.len() as u64);
        file.write_all(&block[..length as usize])?;
        left -= length;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};

    use super::*;

    #[test]
    fn a_file_is_chosen_only_if_it_is_large_old_and_on_the_device() {
        const BYTES: u64 = 4 << 20;
        let place = std::env::current_exe().unwrap();
        let dir = tempfile::tempdir_in(place.parent().unwrap()).unwrap();
        let folder = dir.path().join("folder");
        fs::create_dir(&folder).unwrap();
        let file = File::create_new(folder.join("file")).unwrap();
        let found = |bytes, before| file_like(dir.path(), bytes, before).is_some();
        fallocate(&file, FallocateFlags::empty(), 0, BYTES).unwrap();
        assert!(!found(BYTES, i64::MAX), "nothing was written to it");
        fill(&file, BYTES).unwrap();
        assert!(!found(BYTES, i64::MAX), "it is cached");
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        if !is_all_on_a_device(&File::open(folder.join("file")).unwrap()) {
            eprintln!("SKIPPED: the rest of a_file_is_taken: pages cannot be evicted here");
            return;
        }
        assert!(found(BYTES, i64::MAX));
        assert!(!found(2 * BYTES, i64::MAX), "it is small");
        let written = file.metadata().unwrap().ctime();
        assert!(!found(BYTES, written), "it is new");
        assert!(found(BYTES, written + 1));
    }
}
