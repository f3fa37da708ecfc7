//! The tree that users unpack: as large as the paper's tree, the sources of a web server of 1999.

use forebay_rng::Rng;

/// Numbers of directories and files in the paper's tree.
pub(crate) const DIRECTORIES: usize = 31;
pub(crate) const FILES: usize = 508;
/// Number of directories that hold many files, and files in each. The entries of such a directory take 2 KiB, so that
/// the share of 2 KiB writes among the writes to directories is about the paper's (15 of 50 %).
const LARGE: usize = 2;
const IN_LARGE: usize = 76;

/// Returns the lengths of the files of one user's tree, directory by directory: 508 in all, or every `every`-th of
/// them.
pub(crate) fn tree(seed: u64, every: usize) -> Vec<Vec<u64>> {
    let random = Rng::new(seed);
    let mut directories = vec![Vec::new(); DIRECTORIES];
    for n in 0..FILES {
        let directory = if n < LARGE * IN_LARGE {
            n % LARGE
        } else {
            LARGE + n % (DIRECTORIES - LARGE)
        };
        let len = length(&random);
        if n % every == 0 {
            directories[directory].push(len);
        }
    }
    directories
}

/// Draws the length of a file. Most files are small, some have 40 KB and more; the average is 9.9 KB.
fn length(random: &Rng) -> u64 {
    match random.below(10) {
        0..=5 => 512 + random.below(6 << 10),
        6..=8 => (4 << 10) + random.below(18 << 10),
        _ => (16 << 10) + random.below(44 << 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_the_size_of_the_tree_in_the_paper() {
        let tree = tree(1, 1);
        let files: Vec<u64> = tree.iter().flatten().copied().collect();
        assert_eq!((tree.len(), files.len()), (31, 508));
        let megabytes = files.iter().sum::<u64>() as f64 / 1e6;
        assert!((4.4..5.6).contains(&megabytes), "{megabytes}");
        assert!(tree.iter().all(|directory| !directory.is_empty()));
    }
}
