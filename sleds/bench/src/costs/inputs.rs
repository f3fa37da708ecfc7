//! Makes the input files, and their state in the page cache.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{Advice, fadvise};

use super::cases::{InputKind, PageCacheState};
use crate::arguments::MIB;
use crate::files::{self, NEEDLE};
use forebay_rng::Rng;

/// Number and size of the small files.
const MANY: u64 = 2000;
const SMALL: u64 = 4096;
const LONG_LINE: usize = 4 << 20;

/// Files on disk.
pub(super) struct InputFiles {
    /// Operands for the command line.
    pub(super) operands: Vec<PathBuf>,
    pub(super) recursive: bool,
    pub(super) files: Vec<PathBuf>,
}

/// Makes the files of an input in `directory`, which must not exist. `large` is the length of the large text in bytes.
///
/// # Errors
/// If the files cannot be written.
pub(super) fn make(
    input: InputKind,
    directory: &Path,
    large: u64,
    seed: u64,
) -> Result<InputFiles> {
    fs::create_dir(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let one = directory.join("text");
    let part = (large / 4).max(MIB);
    match input {
        InputKind::Large => files::text(&one, large, seed)?,
        InputKind::Medium => files::text(&one, MIB, seed)?,
        InputKind::Tiny => files::text(&one, 64, seed)?,
        InputKind::Long => long_lines(&one, part, seed)?,
        InputKind::Scripts => write(&one, part, scripts, seed)?,
        InputKind::Binary => write(
            &one,
            part,
            |out, rng| out.extend(rng.next().to_ne_bytes()),
            seed,
        )?,
        InputKind::Many | InputKind::Tree => {
            return many(directory, seed, input == InputKind::Tree);
        }
    }
    Ok(InputFiles {
        operands: vec![one.clone()],
        recursive: false,
        files: vec![one],
    })
}

/// Makes many small files. Their folder is the operand if `recursive` is true.
fn many(directory: &Path, seed: u64, recursive: bool) -> Result<InputFiles> {
    let name = |n| directory.join(format!("text{n}"));
    for n in 0..MANY {
        files::text(&name(n), SMALL, seed + n)?;
    }
    let files: Vec<_> = (0..MANY).map(name).collect();
    Ok(InputFiles {
        operands: if recursive {
            vec![directory.to_owned()]
        } else {
            files.clone()
        },
        recursive,
        files,
    })
}

/// Makes a file of `length` bytes. `more` appends content to a buffer repeatedly.
fn write(path: &Path, length: u64, more: impl Fn(&mut Vec<u8>, &Rng), seed: u64) -> Result<()> {
    let (rng, mut buf) = (Rng::new(seed), Vec::new());
    let mut left = length as usize;
    files::make(path, |out| {
        while left > 0 {
            buf.clear();
            more(&mut buf, &rng);
            let n = buf.len().min(left);
            out.write_all(&buf[..n])?;
            left -= n;
        }
        Ok(())
    })
}

/// Makes a text with few line ends.
fn long_lines(path: &Path, length: u64, seed: u64) -> Result<()> {
    let texts = path.with_extension("lines");
    files::text(&texts, length, seed)?;
    let mut bytes = fs::read(&texts)?;
    fs::remove_file(&texts)?;
    for (at, byte) in bytes.iter_mut().enumerate() {
        if *byte == b'\n' && (at + 1) % LONG_LINE != 0 {
            *byte = b' ';
        }
    }
    files::make(path, |out| out.write_all(&bytes))
}

/// First letters of alphabets, and the number of letters: Latin with accents, Greek, Cyrillic, Devanagari, Chinese.
const SCRIPTS: [(u32, u64); 5] = [
    (0xdf, 32),
    (0x3b1, 25),
    (0x430, 32),
    (0x905, 50),
    (0x4e00, 5000),
];

/// Appends a line of eight words, each in ASCII or another script; one line in 512 contains the needle.
fn scripts(line: &mut Vec<u8>, rng: &Rng) {
    if rng.below(512) == 0 {
        line.extend_from_slice(NEEDLE.as_bytes());
        line.push(b' ');
    }
    for _ in 0..8 {
        let script = SCRIPTS.get(rng.below(10) as usize);
        let (first, count) = *script.unwrap_or(&(u32::from(b'a'), 26));
        for _ in 0..3 + rng.below(5) {
            let letter = char::from_u32(first + rng.below(count) as u32);
            let letter = letter.expect("the alphabets have no gaps");
            line.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
        }
        line.push(b' ');
    }
    line.push(b'\n');
}

impl InputFiles {
    /// Brings the files into a state.
    ///
    /// # Errors
    /// If the files cannot be read.
    pub(super) fn prepare(&self, state: PageCacheState) -> Result<()> {
        self.files.iter().try_for_each(|path| prepare(path, state))
    }
}

fn prepare(path: &Path, state: PageCacheState) -> Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    let length = file.metadata()?.len();
    let at = match state {
        PageCacheState::Cached => 0,
        PageCacheState::Half => length / 2,
        PageCacheState::Uncached | PageCacheState::Throttled => length,
    };
    if state != PageCacheState::Cached {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        // Read-ahead would cache more than requested.
        fadvise(&file, 0, None, Advice::Random)?;
    }
    files::read_part(&file, at, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_can_be_made_and_brought_into_every_state() {
        use crate::costs::cases::{INPUTS, STATES};
        let directory = tempfile::tempdir().unwrap();
        for (input, name, _) in INPUTS {
            let made = make(input, &directory.path().join(name), MIB, 1).unwrap();
            assert!(
                made.files
                    .iter()
                    .all(|file| file.metadata().unwrap().len() > 0),
                "{name}"
            );
            for (state, ..) in STATES {
                made.prepare(state).unwrap();
            }
        }
    }

    #[test]
    fn generated_multilingual_text_contains_the_needle() {
        let (mut text, rng) = (Vec::new(), Rng::new(1));
        for _ in 0..5000 {
            scripts(&mut text, &rng);
        }
        let text = String::from_utf8(text).unwrap();
        assert!((1..100).contains(&text.matches(NEEDLE).count()));
        assert!(text.chars().count() * 3 < text.len() * 2);
    }

    #[test]
    fn long_lines_have_the_given_length() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        long_lines(&path, 9 << 20, 1).unwrap();
        let bytes = fs::read(path).unwrap();
        let lines: Vec<_> = bytes.split(|b| *b == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [LONG_LINE - 1, LONG_LINE - 1, 1 << 20]);
    }
}
