//! A generated source tree and its operations: the workload of the paper's section on file system performance (untar,
//! copy and remove of a web server's sources, by several users).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use forebay_rng::Rng;

const FILES_IN_A_DIRECTORY: u64 = 25;

/// Files of a tree: path and content.
pub struct GeneratedTree(Vec<(PathBuf, Vec<u8>)>);

impl GeneratedTree {
    /// Generates the tree of a seed: files of 10 KB on average, most smaller, some of 40 KB and more.
    pub fn generate(seed: u64, files: u64) -> GeneratedTree {
        let numbers = Rng::new(seed);
        let files = (0..files).map(|i| {
            let directory = format!("src{:02}", i / FILES_IN_A_DIRECTORY);
            let len = match numbers.below(10) {
                0..=5 => 512 + numbers.below(6 << 10),
                6..=8 => (4 << 10) + numbers.below(20 << 10),
                _ => (16 << 10) + numbers.below(48 << 10),
            };
            let path = PathBuf::from(directory).join(format!("file{i:03}.c"));
            (path, numbers.bytes(len as usize))
        });
        GeneratedTree(files.collect())
    }

    /// Writes the tree below `dir` as `tar` does: files, their modes, their times.
    ///
    /// # Errors
    /// If a file or a directory cannot be written.
    pub fn unpack(&self, dir: &Path) -> io::Result<()> {
        for (path, content) in &self.0 {
            let path = dir.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            let mut file = File::create(&path)?;
            file.write_all(content)?;
            file.set_permissions(fs::Permissions::from_mode(0o644))?;
            file.set_modified(SystemTime::UNIX_EPOCH)?;
        }
        Ok(())
    }

    /// Copies the tree, file by file, as `cp -r` does.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        for (path, _) in &self.0 {
            let to = to.join(path);
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(from.join(path), to)?;
        }
        Ok(())
    }
}

/// Returns the digest of a file's content.
pub fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(content);
    hasher.finish()
}

/// Returns all regular files below `dir` with the digests of their contents.
///
/// # Errors
/// If a file or a directory cannot be read.
pub fn digests(dir: &Path) -> io::Result<BTreeMap<PathBuf, u64>> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap_or(&path).to_owned();
                found.insert(name, digest(&fs::read(&path)?));
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_tree_of_about_ten_kilobytes_per_file() {
        let (a, b) = (
            GeneratedTree::generate(7, 500),
            GeneratedTree::generate(7, 500),
        );
        assert!(a.0 == b.0);
        let bytes: usize = a.0.iter().map(|(_, content)| content.len()).sum();
        let mean = bytes / a.0.len();
        assert!((8 << 10..14 << 10).contains(&mean), "{mean}");
    }
}
