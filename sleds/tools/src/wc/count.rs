//! Counting one file.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use sleds::{Plan, ReadOptions, Reader, Unit};

use crate::wc::args::Columns;
use crate::wc::classes::Classes;
use crate::wc::report::Figures;
use crate::wc::scan::{Scanner, Wanted};
use crate::wc::sequence::Sequence;
use crate::wc::summary::{Counts, Summary};
use sleds_common::locale::{Charset, Locale};

/// Bytes read at once: enough that the calls cost nothing, little enough for the processor's caches.
const CHUNK: usize = 128 << 10;

/// How to count.
pub(super) struct Counter {
    columns: Columns,
    plan: Plan,
    locale: Locale,
    wanted: Wanted,
    /// Characters are told from bytes.
    multibyte: bool,
    posix: bool,
    scanner: Option<Scanner>,
}

/// What came of a file.
pub(super) struct Counted {
    /// Of what could be read.
    pub(super) figures: Figures,
    /// In which order; `None` if nothing had to be read.
    pub(super) plan: Option<Plan>,
    /// Why not all of it could be.
    pub(super) trouble: Option<io::Error>,
}

impl Counter {
    pub(super) fn new(columns: Columns, plan: Plan) -> Counter {
        let locale = Locale::of_environment();
        let multibyte = locale.charset() != Charset::SingleByte;
        Counter {
            columns,
            plan,
            locale,
            wanted: Wanted {
                words: columns.words,
                chars: columns.chars && multibyte,
                width: columns.width,
            },
            multibyte,
            posix: std::env::var_os("POSIXLY_CORRECT").is_some(),
            scanner: None,
        }
    }

    /// Counts `file`, from its position on.
    pub(super) fn count(&mut self, file: &File) -> Counted {
        let (figures, plan, trouble) = if self.needs_only_the_size() {
            let (bytes, trouble) = size(file);
            let figures = Figures {
                bytes,
                chars: bytes,
                ..Figures::default()
            };
            (figures, None, trouble)
        } else if self.goes_in_sequence() {
            self.in_sequence(file)
        } else {
            self.in_pieces(file)
        };
        Counted {
            figures,
            plan,
            trouble,
        }
    }

    fn needs_only_the_size(&self) -> bool {
        self.wanted == Wanted::default() && !self.columns.lines
    }

    /// Where characters begin shows only from the front.
    fn goes_in_sequence(&self) -> bool {
        self.locale.charset() == Charset::Multibyte && self.wanted != Wanted::default()
    }

    fn classes(&self) -> Classes {
        Classes::new(self.locale, self.posix)
    }

    fn reader<'f>(&self, file: &'f File, plan: Plan) -> io::Result<Reader<'f>> {
        Reader::new(
            file,
            ReadOptions {
                plan,
                unit: Unit::Bytes,
                chunk: CHUNK,
            },
        )
    }

    fn in_pieces(&mut self, file: &File) -> (Figures, Option<Plan>, Option<io::Error>) {
        let mut reader = match self.reader(file, self.plan) {
            Ok(reader) => reader,
            Err(error) => return (Figures::default(), None, Some(error)),
        };
        let plan = reader.plan();
        let (locale, wanted) = (self.locale, self.wanted);
        let classes = self.scanner.is_none().then(|| self.classes());
        let scanner = self.scanner.get_or_insert_with(|| {
            let classes = classes.expect("made where there is no scanner");
            Scanner::new(classes, locale.charset(), wanted)
        });
        let mut parts = Parts::default();
        let mut bytes = 0;
        let trouble = loop {
            match reader.next_piece() {
                Ok(Some(piece)) => {
                    bytes += piece.data.len() as u64;
                    let summary = scanner.summary(piece.data);
                    parts.add(piece.offset, piece.data.len(), summary, scanner);
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        let counts = parts.whole(scanner);
        (self.figures(bytes, counts), Some(plan), trouble)
    }

    fn in_sequence(&mut self, file: &File) -> (Figures, Option<Plan>, Option<io::Error>) {
        let mut reader = match self.reader(file, Plan::Linear) {
            Ok(reader) => reader,
            Err(error) => return (Figures::default(), None, Some(error)),
        };
        let mut sequence = Sequence::new(self.locale, self.classes());
        let mut bytes = 0;
        let trouble = loop {
            match reader.next_piece() {
                Ok(Some(piece)) => {
                    bytes += piece.data.len() as u64;
                    sequence.add(piece.data);
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        (
            self.figures(bytes, sequence.done()),
            Some(Plan::Linear),
            trouble,
        )
    }

    fn figures(&self, bytes: u64, counts: Counts) -> Figures {
        Figures {
            lines: counts.lines,
            words: counts.words.count,
            chars: if self.multibyte { counts.chars } else { bytes },
            bytes,
            width: counts.line.longest(),
        }
    }
}

/// The parts of a file that have been counted, neighbours joined.
#[derive(Default)]
pub(super) struct Parts {
    /// Where each ends and what is in it, by where it begins.
    parts: BTreeMap<u64, (u64, Summary)>,
}

impl Parts {
    /// Adds a part that begins at byte `at`.
    pub(super) fn add(&mut self, at: u64, length: usize, summary: Summary, scanner: &mut Scanner) {
        let (mut begin, mut end, mut summary) = (at, at + length as u64, summary);
        let left = self.parts.range(..at).next_back();
        if let Some((left, (_, before))) = left.filter(|(_, (end, _))| *end == at) {
            summary = scanner.join(*before, summary);
            begin = *left;
        }
        if let Some((more, after)) = self.parts.remove(&end) {
            summary = scanner.join(summary, after);
            end = more;
        }
        self.parts.insert(begin, (end, summary));
    }

    /// What all of them come to, one behind the other.
    pub(super) fn whole(self, scanner: &mut Scanner) -> Counts {
        let parts = self.parts.into_values();
        let join = |left, (_, right)| scanner.join(left, right);
        // At the edges of the whole, what is open stays open: no characters.
        parts.fold(Summary::default(), join).body
    }
}

/// The bytes from `file`'s position to its end, read only as far as the size may be wrong.
fn size(file: &File) -> (u64, Option<io::Error>) {
    let (sure, rest) = match file.metadata() {
        Ok(metadata) if metadata.is_file() => known_size(file, &metadata),
        _ => (0, true),
    };
    match rest {
        false => (sure, None),
        true => {
            let (read, trouble) = drain(file);
            (sure + read, trouble)
        }
    }
}

/// How many bytes there are for sure, and whether there may be more, from the position (which is
/// moved) on.
fn known_size(mut file: &File, metadata: &Metadata) -> (u64, bool) {
    let size = metadata.len();
    let Ok(position) = file.stream_position() else {
        return (0, true);
    };
    // Files that a kernel makes up (in /proc and /sys) have no size, or one of whole pages.
    if !size.is_multiple_of(rustix::param::page_size() as u64) {
        return (size.saturating_sub(position), false);
    }
    let near_end = size - size % (metadata.blksize() + 1);
    match position < near_end && file.seek(SeekFrom::Start(near_end)).is_ok() {
        true => (near_end - position, true),
        false => (0, true),
    }
}

/// Reads to the end; how many bytes that was.
fn drain(mut file: &File) -> (u64, Option<io::Error>) {
    // Little, since little is left where the size is known.
    let mut buf = [0; 16 << 10];
    let mut bytes = 0;
    loop {
        match file.read(&mut buf) {
            Ok(0) => return (bytes, None),
            Ok(n) => bytes += n as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (bytes, Some(error)),
        }
    }
}
