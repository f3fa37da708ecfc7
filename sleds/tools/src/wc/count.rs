//! Counts one file.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;

use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use crate::wc::args::WcColumns;
use crate::wc::classes::LocaleClasses;
use crate::wc::report::WcCounts;
use crate::wc::scan::{RequiredCounts, SummaryScanner};
use crate::wc::sequence::SequenceCounter;
use crate::wc::summary::{BodyCounts, RangeSummary};
use sleds_common::locale::{Charset, Locale};

/// Bytes per read: large enough to hide the cost of the calls, and small enough for the processor's caches.
const CHUNK: usize = 128 << 10;

/// Options and state of counting.
pub(super) struct FileCounter {
    columns: WcColumns,
    plan: ReadPlan,
    locale: Locale,
    wanted: RequiredCounts,
    /// Characters differ from bytes.
    multibyte: bool,
    posix: bool,
    scanner: Option<SummaryScanner>,
}

/// Result of a file.
pub(super) struct CountOutcome {
    /// Counts of the readable part.
    pub(super) figures: WcCounts,
    /// Order of reading; `None` if no read was needed.
    pub(super) plan: Option<ReadPlan>,
    /// Error that ended the read early.
    pub(super) trouble: Option<io::Error>,
}

impl FileCounter {
    pub(super) fn new(columns: WcColumns, plan: ReadPlan) -> FileCounter {
        let locale = Locale::of_environment();
        let multibyte = locale.charset() != Charset::SingleByte;
        FileCounter {
            columns,
            plan,
            locale,
            wanted: RequiredCounts {
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
    pub(super) fn count(&mut self, file: &File) -> CountOutcome {
        let (figures, plan, trouble) = if self.needs_only_the_size() {
            let (bytes, trouble) = size(file);
            let figures = WcCounts {
                bytes,
                chars: bytes,
                ..WcCounts::default()
            };
            (figures, None, trouble)
        } else if self.goes_in_sequence() {
            self.in_sequence(file)
        } else {
            self.in_pieces(file)
        };
        CountOutcome {
            figures,
            plan,
            trouble,
        }
    }

    fn needs_only_the_size(&self) -> bool {
        self.wanted == RequiredCounts::default() && !self.columns.lines
    }

    /// Returns true if the beginnings of characters can only be found from the front.
    fn goes_in_sequence(&self) -> bool {
        self.locale.charset() == Charset::Multibyte && self.wanted != RequiredCounts::default()
    }

    fn classes(&self) -> LocaleClasses {
        LocaleClasses::new(self.locale, self.posix)
    }

    fn reader<'f>(&self, file: &'f File, plan: ReadPlan) -> io::Result<FileReader<'f>> {
        FileReader::new(
            file,
            ReadOptions {
                plan,
                unit: ReadUnit::Bytes,
                chunk: CHUNK,
                ..ReadOptions::default()
            },
        )
    }

    fn in_pieces(&mut self, file: &File) -> (WcCounts, Option<ReadPlan>, Option<io::Error>) {
        let mut reader = match self.reader(file, self.plan) {
            Ok(reader) => reader,
            Err(error) => return (WcCounts::default(), None, Some(error)),
        };
        let plan = reader.plan();
        let (locale, wanted) = (self.locale, self.wanted);
        let classes = self.scanner.is_none().then(|| self.classes());
        let scanner = self.scanner.get_or_insert_with(|| {
            let classes = classes.expect("made where there is no scanner");
            SummaryScanner::new(classes, locale.charset(), wanted)
        });
        let mut parts = CountedRanges::default();
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

    fn in_sequence(&mut self, file: &File) -> (WcCounts, Option<ReadPlan>, Option<io::Error>) {
        let mut reader = match self.reader(file, ReadPlan::Linear) {
            Ok(reader) => reader,
            Err(error) => return (WcCounts::default(), None, Some(error)),
        };
        let mut sequence = SequenceCounter::new(self.locale, self.classes());
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
            Some(ReadPlan::Linear),
            trouble,
        )
    }

    fn figures(&self, bytes: u64, counts: BodyCounts) -> WcCounts {
        WcCounts {
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
pub(super) struct CountedRanges {
    /// End and summary of each part, by its beginning.
    parts: BTreeMap<u64, (u64, RangeSummary)>,
}

impl CountedRanges {
    /// Adds a part that begins at byte `at`.
    pub(super) fn add(
        &mut self,
        at: u64,
        length: usize,
        summary: RangeSummary,
        scanner: &mut SummaryScanner,
    ) {
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
    pub(super) fn whole(self, scanner: &mut SummaryScanner) -> BodyCounts {
        let parts = self.parts.into_values();
        let join = |left, (_, right)| scanner.join(left, right);
        // Unfinished bytes at the edges of the whole are not characters.
        parts.fold(RangeSummary::default(), join).body
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
