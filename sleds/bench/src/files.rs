//! Makes the input files: text with rare matches, and images.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use forebay_rng::Rng;
use tempfile::TempDir;

/// Makes a temporary folder, which is removed with its content when dropped.
pub(super) fn scratch(directory: &Path) -> Result<TempDir> {
    let folder = tempfile::Builder::new()
        .prefix("sleds-bench-")
        .tempdir_in(directory);
    folder.with_context(|| format!("cannot write in {}", directory.display()))
}

/// Makes a folder for a report, if it does not exist.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

/// Reads a file from one offset to another, or to its end.
pub(super) fn read_part(file: &File, mut at: u64, end: u64) -> Result<()> {
    let mut buf = vec![0; 64 << 10];
    while at < end {
        match file.read_at(&mut buf, at)? {
            0 => break,
            n => at += n as u64,
        }
    }
    Ok(())
}

/// The word that `grep` searches for: once in [`MATCH_EVERY`] bytes of a text.
pub(super) const NEEDLE: &str = "forebay";
/// Number of words that occur once in a file.
pub(super) const LONE_NEEDLES: usize = 40;
/// Kilobytes of matches in megabytes of text, as in the paper (section 5.2).
const MATCH_EVERY: u64 = 64 << 10;
/// Bytes of each line of a text, with its terminator.
const LINE: usize = 64;

/// Makes a file with the content that `fill` writes, and waits until it is on disk.
pub(super) fn make(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
) -> Result<()> {
    let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    let filled = fill(&mut out).and_then(|()| out.flush());
    drop(out);
    // Dirty pages cannot be evicted from the cache, which would make the first runs differ.
    filled
        .and_then(|()| file.sync_all())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Writes a report into its folder, and returns the path.
pub(super) fn report(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Returns the `n`-th word that occurs once.
pub(super) fn lone_needle(n: usize) -> String {
    format!("penstock{:02}", n % LONE_NEEDLES)
}

/// Makes a text of `len` bytes in lines of words.
///
/// The words that occur once lie at random places. They are written with the text. A later change would bring their
/// pages into the cache, and these pages determine the result.
pub(super) fn text(path: &Path, len: u64, seed: u64) -> Result<()> {
    let rng = Rng::new(seed);
    let lone = lone_needles(len, &rng);
    make(path, |out| {
        for at in (0..len).step_by(LINE) {
            let mut line = words(&rng);
            if at % MATCH_EVERY == 0 {
                line[..NEEDLE.len()].copy_from_slice(NEEDLE.as_bytes());
            }
            if let Some(needle) = lone.get(&(at / LINE as u64)) {
                line[8..8 + needle.len()].copy_from_slice(needle.as_bytes());
            }
            line[LINE - 1] = b'\n';
            let rest = usize::try_from(len - at).unwrap_or(LINE).min(LINE);
            out.write_all(&line[..rest])?;
        }
        Ok(())
    })
}

/// Returns the words that occur once in a text of `len` bytes, by line number.
fn lone_needles(len: u64, rng: &Rng) -> BTreeMap<u64, String> {
    let mut lone = BTreeMap::new();
    while lone.len() < LONE_NEEDLES.min((len / LINE as u64 / 4) as usize) {
        // Not in the lines that match otherwise.
        let line = rng.below(len / LINE as u64);
        if !(line * LINE as u64).is_multiple_of(MATCH_EVERY) && !lone.contains_key(&line) {
            lone.insert(line, lone_needle(lone.len()));
        }
    }
    lone
}

/// Returns a line of words, without its terminator.
fn words(rng: &Rng) -> [u8; LINE] {
    let mut line = [b' '; LINE];
    for word in line.chunks_mut(8) {
        let letters = 3 + rng.below(5) as usize;
        let mut bits = rng.next();
        for letter in &mut word[..letters] {
            *letter = b'a' + (bits % 26) as u8;
            bits /= 26;
        }
    }
    line
}

/// Block size of FITS files and of their parts, in bytes.
const FITS_BLOCK: usize = 2880;

/// Makes a FITS image of about `len` bytes: a square of 32-bit floating-point numbers.
pub(super) fn image(path: &Path, len: u64, seed: u64) -> Result<()> {
    // A multiple of 4, so that binning by 4 drops nothing.
    let side = (len as f64 / 4.0).sqrt() as u64 / 4 * 4;
    let rng = Rng::new(seed);
    make(path, |out| {
        out.write_all(image_header(side).as_bytes())?;
        for _ in 0..side * side {
            let value = rng.below(1000) as f32 / 10.0;
            out.write_all(&value.to_be_bytes())?;
        }
        let bytes = (side * side * 4) as usize;
        out.write_all(&vec![0; bytes.next_multiple_of(FITS_BLOCK) - bytes])
    })
}

fn image_header(side: u64) -> String {
    let mut header = String::new();
    for (key, value) in [
        ("SIMPLE", "T".to_owned()),
        ("BITPIX", "-32".to_owned()),
        ("NAXIS", "2".to_owned()),
        ("NAXIS1", side.to_string()),
        ("NAXIS2", side.to_string()),
    ] {
        header += &format!("{:<80}", format!("{key:<8}= {value:>20}"));
    }
    format!("{:<FITS_BLOCK$}", header + "END")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_its_length_and_its_matches() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        text(&path, 200_000, 1).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 200_000);
        let lines: Vec<_> = bytes.split(|b| *b == b'\n').collect();
        let needles = lines
            .iter()
            .filter(|line| line.starts_with(NEEDLE.as_bytes()));
        assert_eq!(needles.count(), 4);
    }

    #[test]
    fn every_lone_needle_occurs_exactly_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        text(&path, 100_000, 1).unwrap();
        let found = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
        for n in 0..LONE_NEEDLES {
            assert_eq!(found.matches(&lone_needle(n)).count(), 1, "{n}");
        }
    }

    #[test]
    fn a_fits_image_is_square_and_has_whole_blocks() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("image");
        image(&path, 100_000, 1).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() % 2880, 0);
        let side = 156 * 156 * 4;
        assert_eq!(bytes.len(), 2880 + usize::next_multiple_of(side, 2880));
        assert!(bytes.starts_with(b"SIMPLE  =                    T"));
    }
}
