//! Summaries of parts of a file, and the join of adjacent summaries.
//!
//! A [`RangeSummary`] of a range of bytes contains everything that counting the whole file can need: sums, and the state at
//! the edges that depends on the neighbours. [`RangeSummary::join`] is associative, and the default is its neutral element.
//! A file may therefore be cut anywhere, and read in any order: the sums equal those of reading from the first byte to
//! the last (`summary_tests.rs` compares them with a plain sequential count).
//!
//! Open at an edge:
//!
//! - the bytes of a character that was cut ([`CutEdges`]);
//! - the state of a word that continues ([`WordCount`]);
//! - the column at which a line begins, on which tabs depend ([`LineWidths`]).

/// Bytes of the longest character in UTF-8.
pub(super) const LONGEST: usize = 4;

/// Summary of a contiguous range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct RangeSummary {
    pub(super) body: BodyCounts,
    pub(super) edges: CutEdges,
}

/// Sums over whole characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct BodyCounts {
    pub(super) lines: u64,
    pub(super) chars: u64,
    pub(super) words: WordCount,
    pub(super) line: LineWidths,
}

/// Up to `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FewBytes<const N: usize> {
    bytes: [u8; N],
    length: u8,
}

impl<const N: usize> FewBytes<N> {
    /// Returns the first `N` of `bytes`.
    pub(super) fn first_of(bytes: &[u8]) -> FewBytes<N> {
        let mut few = FewBytes::<N>::EMPTY;
        few.push(bytes);
        few
    }

    const EMPTY: FewBytes<N> = FewBytes {
        bytes: [0; N],
        length: 0,
    };

    /// Adds as many of `more` as fit.
    fn push(&mut self, more: &[u8]) {
        let at = usize::from(self.length);
        let n = more.len().min(N - at);
        self.bytes[at..at + n].copy_from_slice(&more[..n]);
        self.length += n as u8;
    }

    pub(super) fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// The bytes at the edges that may be parts of characters cut in two.
///
/// UTF-8 shows where a character may begin: a byte `10xxxxxx` continues a character, and any other byte begins a
/// character or is invalid. The meaning of a range depends on preceding bytes only through continuation bytes at its
/// front, and only through the first `LONGEST - 1` of them. It depends on following bytes only through an unfinished
/// character at its end. In other character sets both edges are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CutEdges {
    /// Continuation bytes at the front.
    pub(super) head: FewBytes<{ LONGEST - 1 }>,
    /// A first byte at the end and its continuation bytes, too few for a character.
    pub(super) tail: FewBytes<{ LONGEST }>,
    /// True if the range consists of continuation bytes only (or is empty), so that `head` may continue in the next
    /// range.
    pub(super) only_head: bool,
}

impl Default for CutEdges {
    fn default() -> CutEdges {
        CutEdges {
            head: FewBytes::EMPTY,
            tail: FewBytes::EMPTY,
            only_head: true,
        }
    }
}

impl RangeSummary {
    /// Joins this range and `right`, which follows it. `decode` counts a few bytes with closed edges, or reports that
    /// all of them are one unfinished character.
    pub(super) fn join(
        self,
        right: RangeSummary,
        decode: impl FnOnce(&[u8]) -> JointCounts,
    ) -> RangeSummary {
        let (l, r) = (self.edges, right.edges);
        if l.only_head {
            let mut head = l.head;
            head.push(r.head.get());
            let edges = CutEdges { head, ..r };
            return RangeSummary {
                body: right.body,
                edges,
            };
        }
        if l.tail.is_empty() {
            // Continuation bytes that continue no character do not count.
            return RangeSummary {
                body: self.body.then(right.body),
                edges: CutEdges {
                    head: l.head,
                    tail: r.tail,
                    only_head: false,
                },
            };
        }
        let mut middle: FewBytes<{ 2 * LONGEST }> = FewBytes::first_of(l.tail.get());
        middle.push(r.head.get());
        let (body, tail) = match decode(middle.get()) {
            JointCounts::Unfinished if r.only_head => (self.body, FewBytes::first_of(middle.get())),
            JointCounts::Unfinished => (self.body.then(right.body), r.tail),
            JointCounts::Counted(counts) => (self.body.then(counts).then(right.body), r.tail),
        };
        RangeSummary {
            body,
            edges: CutEdges {
                head: l.head,
                tail,
                only_head: false,
            },
        }
    }
}

/// Result of the bytes between two ranges.
pub(super) enum JointCounts {
    /// One character with missing bytes.
    Unfinished,
    /// These counts.
    Counted(BodyCounts),
}

impl BodyCounts {
    /// Returns the counts of this range and `right`, which follows it.
    pub(super) fn then(self, right: BodyCounts) -> BodyCounts {
        BodyCounts {
            lines: self.lines + right.lines,
            chars: self.chars + right.chars,
            words: self.words.then(right.words),
            line: self.line.then(right.line),
        }
    }
}

/// A word's character, or space between words. Other characters (unprintable ones) have no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CharKind {
    Space,
    Word,
}

/// Words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WordCount {
    /// Number of words if only space precedes the range.
    pub(super) count: u64,
    /// Kind of the first and of the last character that has a kind.
    pub(super) ends: Option<(CharKind, CharKind)>,
}

impl WordCount {
    fn then(self, right: WordCount) -> WordCount {
        let (Some(l), Some(r)) = (self.ends, right.ends) else {
            return if self.ends.is_none() { right } else { self };
        };
        let goes_on = l.1 == CharKind::Word && r.0 == CharKind::Word;
        WordCount {
            count: self.count + right.count - u64::from(goes_on),
            ends: Some((l.0, r.1)),
        }
    }
}

/// Columns of a tab.
const TAB: u64 = 8;

/// Movement of the column by a range without an end of line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct ColumnSpan {
    /// Columns before the first tab.
    pub(super) before: u64,
    /// Columns after the first tab, counted from the tab stop; `None` without a tab. The tab stop is a multiple of
    /// [`TAB`], so later tabs do not depend on the column at which the range began.
    pub(super) after: Option<u64>,
}

impl ColumnSpan {
    /// Returns the column at the end of a range that begins at `column`.
    pub(super) fn from(self, column: u64) -> u64 {
        let tab = column + self.before;
        match self.after {
            None => tab,
            Some(after) => tab - tab % TAB + TAB + after,
        }
    }

    fn then(self, right: ColumnSpan) -> ColumnSpan {
        match self.after {
            None => ColumnSpan {
                before: self.before + right.before,
                after: right.after,
            },
            Some(after) => ColumnSpan {
                before: self.before,
                after: Some(right.from(after)),
            },
        }
    }
}

/// Widths of lines. Carriage returns and form feeds end a line as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LineWidths {
    /// The range up to the first end of line.
    pub(super) first: ColumnSpan,
    /// After the first end of line: width of the longest line inside the range, and the column at the end of the range.
    pub(super) rest: Option<(u64, u64)>,
}

impl LineWidths {
    /// Returns the width of the longest line, if the range is the whole file.
    pub(super) fn longest(self) -> u64 {
        let (longest, column) = self.rest.unwrap_or_default();
        self.first.from(0).max(longest).max(column)
    }

    fn then(self, right: LineWidths) -> LineWidths {
        let Some((longest, column)) = self.rest else {
            return LineWidths {
                first: self.first.then(right.first),
                rest: right.rest,
            };
        };
        let end = right.first.from(column);
        let rest = match right.rest {
            None => (longest, end),
            Some((more, column)) => (longest.max(end).max(more), column),
        };
        LineWidths {
            first: self.first,
            rest: Some(rest),
        }
    }
}
