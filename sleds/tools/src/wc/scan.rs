//! Counts in a contiguous range of bytes.

use memchr::memchr_iter;

use crate::wc::classes::{CharClass, LocaleClasses};
use crate::wc::summary::{
    BodyCounts, CharKind, ColumnSpan, CutEdges, FewBytes, JointCounts, LONGEST, LineWidths,
    RangeSummary, WordCount,
};
use sleds_common::locale::Charset;

/// Required counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RequiredCounts {
    pub(super) words: bool,
    pub(super) chars: bool,
    pub(super) width: bool,
}

impl RequiredCounts {
    /// Returns true if lines (and bytes) are sufficient.
    fn only_lines(self) -> bool {
        self == RequiredCounts::default()
    }
}

/// Bytes of plain ASCII that are processed together. Their number must fit into a byte.
const CHUNK: usize = 128;

/// Makes summaries, for single-byte character sets and UTF-8.
pub(super) struct SummaryScanner {
    classes: LocaleClasses,
    utf8: bool,
    plain: bool,
    wanted: RequiredCounts,
}

impl SummaryScanner {
    pub(super) fn new(
        classes: LocaleClasses,
        charset: Charset,
        wanted: RequiredCounts,
    ) -> SummaryScanner {
        let plain = classes.ascii_is_plain();
        let utf8 = charset == Charset::Utf8;
        SummaryScanner {
            classes,
            utf8,
            plain,
            wanted,
        }
    }

    /// Summarizes `bytes` from any place in a file.
    pub(super) fn summary(&mut self, bytes: &[u8]) -> RangeSummary {
        if bytes.is_empty() {
            return RangeSummary::default();
        }
        if !self.utf8 || self.wanted.only_lines() {
            let edges = CutEdges {
                only_head: false,
                ..CutEdges::default()
            };
            let body = self.counts(bytes);
            return RangeSummary { body, edges };
        }
        let (head, body, tail) = cut_edges(bytes);
        RangeSummary {
            body: self.counts(body),
            edges: CutEdges {
                head: FewBytes::first_of(head),
                tail: FewBytes::first_of(tail),
                only_head: head.len() == bytes.len(),
            },
        }
    }

    /// Joins the summaries of two adjacent ranges.
    pub(super) fn join(&mut self, left: RangeSummary, right: RangeSummary) -> RangeSummary {
        left.join(right, |middle| {
            if is_unfinished(middle) {
                JointCounts::Unfinished
            } else {
                JointCounts::Counted(self.counts(middle))
            }
        })
    }

    /// Counts in `bytes`, whose edges are both closed: incomplete characters are not characters.
    fn counts(&mut self, bytes: &[u8]) -> BodyCounts {
        match self.wanted {
            wanted if wanted.only_lines() => BodyCounts {
                lines: memchr_iter(b'\n', bytes).count() as u64,
                ..BodyCounts::default()
            },
            RequiredCounts { width: true, .. } => self.count::<true>(bytes),
            _ => self.count::<false>(bytes),
        }
    }

    fn count<const WIDTH: bool>(&mut self, bytes: &[u8]) -> BodyCounts {
        let mut tally = CharTally::default();
        if !self.utf8 {
            self.bytes::<WIDTH>(bytes, &mut tally);
        } else if let Ok(text) = std::str::from_utf8(bytes) {
            self.chars::<WIDTH>(text, &mut tally);
        } else {
            // Invalid bytes do not affect words and widths either.
            for part in bytes.utf8_chunks() {
                self.chars::<WIDTH>(part.valid(), &mut tally);
            }
        }
        tally.done()
    }

    /// Counts `bytes`, each of which is a character.
    fn bytes<const WIDTH: bool>(&self, mut bytes: &[u8], tally: &mut CharTally) {
        while !bytes.is_empty() {
            let plain = self.plain::<WIDTH>(bytes, tally);
            let some = bytes.len().min(plain + CHUNK);
            for byte in &bytes[plain..some] {
                tally.char::<WIDTH>(u32::from(*byte), self.classes.of_byte(*byte));
            }
            bytes = &bytes[some..];
        }
    }

    fn chars<const WIDTH: bool>(&mut self, mut text: &str, tally: &mut CharTally) {
        while !text.is_empty() {
            let plain = self.plain::<WIDTH>(text.as_bytes(), tally);
            let mut chars = text[plain..].chars();
            let rest = (text.len() - plain).saturating_sub(CHUNK);
            while chars.as_str().len() > rest
                && let Some(c) = chars.next()
            {
                let class = match u8::try_from(c) {
                    Ok(byte @ 0..0x80) => self.classes.of_byte(byte),
                    _ => self.classes.of_char(u32::from(c)),
                };
                tally.char::<WIDTH>(u32::from(c), class);
            }
            text = chars.as_str();
        }
    }

    /// Counts plain ASCII at the front, many bytes at a time. Returns the number of counted bytes.
    fn plain<const WIDTH: bool>(&self, bytes: &[u8], tally: &mut CharTally) -> usize {
        if WIDTH || !self.plain {
            return 0;
        }
        let (chunks, _) = bytes.as_chunks::<CHUNK>();
        let plain = chunks.iter().take_while(|chunk| tally.plain(chunk));
        plain.count() * CHUNK
    }
}

/// Splits `bytes` into continuation bytes in front, the middle, and an unfinished character.
fn cut_edges(bytes: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let continues = |b: &u8| b & 0xc0 == 0x80;
    let head = bytes.iter().take_while(|b| continues(b)).count();
    let (head, rest) = bytes.split_at(head);
    let from = rest.len() - rest.len().min(LONGEST - 1);
    let last = rest[from..].iter().rposition(|b| !continues(b));
    let cut = match last {
        Some(at) if is_unfinished(&rest[from + at..]) => from + at,
        _ => rest.len(),
    };
    let (body, tail) = rest.split_at(cut);
    (head, body, tail)
}

/// Returns true if `bytes` are the beginning of a character.
fn is_unfinished(bytes: &[u8]) -> bool {
    let error = std::str::from_utf8(bytes).err();
    error.is_some_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
}

/// Counts so far, one character after the other.
#[derive(Default)]
pub(super) struct CharTally {
    lines: u64,
    chars: u64,
    words: u64,
    in_word: bool,
    first: Option<CharKind>,
    line: LineWidths,
    /// Columns since the last tab or end of line.
    columns: u64,
}

impl CharTally {
    /// Counts the character `c`.
    #[inline]
    pub(super) fn char<const WIDTH: bool>(&mut self, c: u32, class: CharClass) {
        self.lines += u64::from(c == u32::from(b'\n'));
        self.chars += 1;
        self.class::<WIDTH>(class);
    }

    #[inline]
    fn class<const WIDTH: bool>(&mut self, class: CharClass) {
        let (word, space) = (class.is_word(), class.is_space());
        self.words += u64::from(word & !self.in_word);
        self.in_word = (self.in_word & !space) | word;
        if self.first.is_none() {
            self.first = match (word, space) {
                (true, _) => Some(CharKind::Word),
                (_, true) => Some(CharKind::Space),
                _ => None,
            };
        }
        if WIDTH {
            self.columns += class.width();
            if class.moves() {
                self.turn(class);
            }
        }
    }

    /// Counts `chunk` if it consists of graphic and white ASCII only.
    #[inline]
    fn plain(&mut self, chunk: &[u8; CHUNK]) -> bool {
        let mut white = [0u8; CHUNK];
        let (mut odd, mut lines, mut ends) = (0, 0, 0);
        for (byte, white) in chunk.iter().zip(&mut white) {
            let graphic = u8::from(byte.wrapping_sub(b'!') <= b'~' - b'!');
            *white = u8::from(*byte == b' ') | u8::from(byte.wrapping_sub(b'\t') <= b'\r' - b'\t');
            odd |= (graphic | *white) ^ 1;
            lines += u8::from(*byte == b'\n');
        }
        if odd != 0 {
            return false;
        }
        for at in 1..CHUNK {
            ends += white[at - 1] & (white[at] ^ 1);
        }
        let kind = |white: u8| {
            if white == 1 {
                CharKind::Space
            } else {
                CharKind::Word
            }
        };
        let begins = !self.in_word && white[0] == 0;
        self.words += u64::from(ends) + u64::from(begins);
        self.in_word = white[CHUNK - 1] == 0;
        self.first = self.first.or(Some(kind(white[0])));
        self.lines += u64::from(lines);
        self.chars += CHUNK as u64;
        true
    }

    /// Handles a tab or an end of line.
    fn turn(&mut self, class: CharClass) {
        self.settle();
        if class.is_tab() {
            match &mut self.line.rest {
                None => {
                    let first = &mut self.line.first;
                    *first = ColumnSpan {
                        after: Some(first.after.map_or(0, |after| after - after % 8 + 8)),
                        ..*first
                    };
                }
                Some((_, column)) => *column = *column - *column % 8 + 8,
            }
        } else {
            debug_assert!(class.is_reset());
            let (longest, column) = self.line.rest.unwrap_or_default();
            self.line.rest = Some((longest.max(column), 0));
        }
    }

    /// Adds the columns since the last turn to the line.
    fn settle(&mut self) {
        let columns = std::mem::take(&mut self.columns);
        match (&mut self.line.rest, &mut self.line.first) {
            (Some((_, column)), _) => *column += columns,
            (
                None,
                ColumnSpan {
                    after: Some(after), ..
                },
            ) => *after += columns,
            (None, ColumnSpan { before, .. }) => *before += columns,
        }
    }

    pub(super) fn done(mut self) -> BodyCounts {
        self.settle();
        let last = if self.in_word {
            CharKind::Word
        } else {
            CharKind::Space
        };
        BodyCounts {
            lines: self.lines,
            chars: self.chars,
            words: WordCount {
                count: self.words,
                ends: self.first.map(|first| (first, last)),
            },
            line: self.line,
        }
    }
}
