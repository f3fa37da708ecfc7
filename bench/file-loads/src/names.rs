//! Creation, lookup and removal of many small files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_rng::{Rng, mix};

/// Files in a directory of [`make`].
const IN_ONE: u64 = 10_000;
/// Bytes of each of these files.
const SMALL: usize = 128;
/// Shape of a tree like the kernel's sources: files in a directory on average, and directories in a directory.
const FILES_IN: u64 = 15;
const BELOW: u64 = 8;

fn path(dir: &Path, n: u64) -> PathBuf {
    dir.join(format!("d{}", n / IN_ONE))
        .join(format!("f{n:07}"))
}

fn expect(found: u64, wanted: u64, what: &str) -> io::Result<()> {
    if found == wanted {
        return Ok(());
    }
    let wrong = format!("{what}: found {found} instead of {wanted}");
    Err(io::Error::other(wrong))
}

/// Creates `count` files of about a hundred bytes.
///
/// # Errors
/// System errors.
pub fn make(dir: &Path, count: u64) -> io::Result<()> {
    for n in 0..count {
        if n % IN_ONE == 0 {
            fs::create_dir_all(path(dir, n).parent().unwrap_or(dir))?;
        }
        File::create_new(path(dir, n))?.write_all(&[n as u8; SMALL])?;
    }
    Ok(())
}

/// Looks at each file, in another order.
///
/// # Errors
/// System errors, and a file that differs from the created file.
pub fn look(dir: &Path, count: u64) -> io::Result<()> {
    let mut order: Vec<u64> = (0..count).collect();
    Rng::new(count).shuffle(&mut order);
    for n in order {
        expect(
            fs::metadata(path(dir, n))?.len(),
            SMALL as u64,
            "bytes of a file",
        )?;
    }
    Ok(())
}

/// Removes each file.
///
/// # Errors
/// System errors.
pub fn remove(dir: &Path, count: u64) -> io::Result<()> {
    (0..count).try_for_each(|n| fs::remove_file(path(dir, n)))
}

/// Creates `count` files; each file is durable before the next is created.
///
/// # Errors
/// System errors.
pub fn make_durable(dir: &Path, count: u64) -> io::Result<()> {
    for n in 0..count {
        let mut file = File::create_new(dir.join(format!("s{n:07}")))?;
        file.write_all(&[n as u8; SMALL])?;
        file.sync_all()?;
    }
    Ok(())
}

/// A tree like the kernel's sources: 15 KB in each file on average, most files smaller.
pub struct SourceTree {
    files: Vec<(PathBuf, usize)>,
    seed: u64,
}

impl SourceTree {
    /// Returns the tree for a number of files. The tree depends on nothing else.
    pub fn of(files: u64) -> SourceTree {
        let numbers = Rng::new(files);
        let one = |n: u64| {
            let mut at = n / FILES_IN;
            let mut path = PathBuf::new();
            while at > 0 {
                path.push(format!("dir{}", at % BELOW));
                at /= BELOW;
            }
            let len = match numbers.below(10) {
                0..=2 => 200 + numbers.below(2 << 10),
                3..=6 => (2 << 10) + numbers.below(8 << 10),
                7..=8 => (8 << 10) + numbers.below(24 << 10),
                _ => (32 << 10) + numbers.below(64 << 10),
            };
            (path.join(format!("source{n:06}.c")), len as usize)
        };
        SourceTree {
            files: (0..files).map(one).collect(),
            seed: files,
        }
    }

    /// Writes the tree below a directory as `tar` does: one file after the other, with its permissions and its time.
    ///
    /// # Errors
    /// System errors.
    pub fn unpack(&self, dir: &Path) -> io::Result<()> {
        let text = Rng::new(self.seed).bytes(128 << 10);
        for (n, (path, len)) in self.files.iter().enumerate() {
            let path = dir.join(path);
            let mut file = match File::create_new(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs::create_dir_all(path.parent().unwrap_or(dir))?;
                    File::create_new(&path)?
                }
                other => other?,
            };
            let from = mix(self.seed, n as u64) as usize % (text.len() - len);
            file.write_all(&text[from..from + len])?;
            file.set_permissions(Permissions::from_mode(0o640))?;
            file.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        Ok(())
    }

    /// Visits the whole tree and the sizes of files, as `find` with a test for sizes does.
    ///
    /// # Errors
    /// System errors, and a tree that differs from the unpacked tree.
    pub fn find(&self, dir: &Path) -> io::Result<()> {
        let (mut files, mut bytes, mut left) = (0, 0, vec![dir.to_owned()]);
        while let Some(next) = left.pop() {
            for entry in fs::read_dir(&next)? {
                let entry = entry?;
                let known = entry.metadata()?;
                if known.is_dir() {
                    left.push(entry.path());
                } else {
                    (files, bytes) = (files + 1, bytes + known.len());
                }
            }
        }
        let wanted = self.files.iter().map(|(_, len)| *len as u64).sum();
        expect(files, self.files.len() as u64, "files of a tree")?;
        expect(bytes, wanted, "bytes of a tree")
    }

    /// Removes the tree as `rm -r` does.
    ///
    /// # Errors
    /// System errors.
    pub fn remove(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        self.files.len() as u64
    }
}

/// Makes the whole filesystem of a directory durable.
///
/// # Errors
/// System errors.
pub fn sync(dir: &Path) -> io::Result<()> {
    let dir = OpenOptions::new().read(true).open(dir)?;
    Ok(rustix::fs::syncfs(dir)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_files_are_created_verified_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        make(dir.path(), 30).unwrap();
        look(dir.path(), 30).unwrap();
        assert!(look(dir.path(), 31).is_err());
        fs::write(path(dir.path(), 7), "short").unwrap();
        assert!(look(dir.path(), 30).is_err());
        remove(dir.path(), 30).unwrap();
        make_durable(dir.path(), 3).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1 + 3);
    }

    #[test]
    fn a_tree_verifies_only_if_it_is_as_unpacked() {
        let dir = tempfile::tempdir().unwrap();
        let (tree, at) = (SourceTree::of(200), dir.path().join("tree"));
        fs::create_dir(&at).unwrap();
        tree.unpack(&at).unwrap();
        tree.find(&at).unwrap();
        sync(&at).unwrap();
        fs::write(at.join("one more"), "").unwrap();
        assert!(tree.find(&at).is_err());
        tree.remove(&at).unwrap();
        assert!(!at.exists());
    }
}
