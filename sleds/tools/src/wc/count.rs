//! Counts one file.

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

/// Bytes per read: large enough to hide the cost of the calls, and small enough for the processor's caches.
const CHUNK: usize = 128 << 10;

/// Options and state of counting.
pub(super) struct Counter {
    columns: Columns,
    plan: Plan,
    locale: Locale,
    wanted: Wanted,
    /// Characters differ from bytes.
    multibyte: bool,
    posix: bool,
    scanner: Option<Scanner>,
}

/// Result of a file.
pub(super) struct Counted {
    /// Counts of the readable part.
    pub(super) figures: Figures,
    /// Order of reading; `None` if no read was needed.
    pub(super) plan: Option<Plan>,
    /// Error that ended the read early.
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

    /// Returns true if the beginnings of characters can only be found from the front.
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

/// Counted parts of a file. Adjacent parts are joined.
#[derive(Default)]
pub(super) struct Parts {
    /// End and summary of each part, by its beginning.
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

    /// Returns the counts of all parts in sequence.
    pub(super) fn whole(self, scanner: &mut Scanner) -> Counts {
        let parts = self.parts.into_values();
        let join = |left, (_, right)| scanner.join(left, right);
        // Unfinished bytes at the edges of the whole are not characters.
        parts.fold(Summary::default(), join).body
    }
}

/// Returns the number of bytes from `file`'s position to its end. Reads only the part for which the size may be wrong.
fn size(file: &File) -> (u64, Option<io::Error>) {
    let (sure, rest) = match file.metadata() {
        Ok(metadata) if metadata.is_file() => known_size(file, &metadata),
        _ => (0, true),
    };
    if rest {
        let (read, trouble) = drain(file);
        (sure + read, trouble)
    } else {
        (sure, None)
    }
}

/// Returns a reliable number of bytes from the position on, and true if more bytes may follow. Moves the position.
fn known_size(mut file: &File, metadata: &Metadata) -> (u64, bool) {
    let size = metadata.len();
    let Ok(position) = file.stream_position() else {
        return (0, true);
    };
    // Files that the kernel generates (in /proc and /sys) have no size, or a size of whole pages.
    if !size.is_multiple_of(rustix::param::page_size() as u64) {
        return (size.saturating_sub(position), false);
    }
    let near_end = size - size % (metadata.blksize() + 1);
    if position < near_end && file.seek(SeekFrom::Start(near_end)).is_ok() {
        (near_end - position, true)
    } else {
        (0, true)
    }
}

/// Reads to the end, and returns the number of bytes.
fn drain(mut file: &File) -> (u64, Option<io::Error>) {
    // A small buffer, since only few bytes remain if the size is known.
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
