//! What is known of a part of a file, and how two neighbours make one.
//!
//! A [`Summary`] says about a run of bytes all that counting the whole file can need: sums, and what
//! is still open at the edges, where the neighbours decide. [`Summary::join`] is associative, and the
//! default is its neutral element. So a file may be cut anywhere, and read in any order: the sums
//! come out as if it had been read from the first byte to the last (`summary_tests.rs` holds that
//! against a plain sequential count).
//!
//! What is open at an edge:
//! - the bytes of a character that was cut ([`Edges`]);
//! - whether a word goes on ([`Words`]);
//! - the column at which a line begins, which tabs depend on ([`Line`]).

/// Bytes of the longest character in UTF-8.
pub(super) const LONGEST: usize = 4;

/// About a run of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Summary {
    pub(super) body: Counts,
    pub(super) edges: Edges,
}

/// Sums over whole characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) lines: u64,
    pub(super) chars: u64,
    pub(super) words: Words,
    pub(super) line: Line,
}

/// Up to `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Few<const N: usize> {
    bytes: [u8; N],
    length: u8,
}

impl<const N: usize> Few<N> {
    /// The first `N` of `bytes`.
    pub(super) fn first_of(bytes: &[u8]) -> Few<N> {
        let mut few = Few::<N>::EMPTY;
        few.push(bytes);
        few
    }

    const EMPTY: Few<N> = Few {
        bytes: [0; N],
        length: 0,
    };

    /// Adds as many of `more` as there is room for.
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
/// UTF-8 shows where a character may begin: a byte `10xxxxxx` continues one, any other begins one or
/// is none. So what a run of bytes means depends on what is before it only in continuing bytes at its
/// front, and of those only in the first `LONGEST - 1`; and on what is behind it only in an
/// unfinished character at its end. In other character sets both are empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Edges {
    /// Continuing bytes at the front.
    pub(super) head: Few<{ LONGEST - 1 }>,
    /// A first byte at the end, and what continues it, too few for a character.
    pub(super) tail: Few<{ LONGEST }>,
    /// There is nothing but continuing bytes (also true of no bytes at all), so that `head` may go on
    /// in the next run.
    pub(super) only_head: bool,
}

impl Default for Edges {
    fn default() -> Edges {
        Edges {
            head: Few::EMPTY,
            tail: Few::EMPTY,
            only_head: true,
        }
    }
}

impl Summary {
    /// Of this run and `right`, which follows it. `decode` counts a few bytes of which nothing is
    /// open, and says whether all of them are one unfinished character.
    pub(super) fn join(self, right: Summary, decode: impl FnOnce(&[u8]) -> Joint) -> Summary {
        let (l, r) = (self.edges, right.edges);
        if l.only_head {
            let mut head = l.head;
            head.push(r.head.get());
            let edges = Edges { head, ..r };
            return Summary {
                body: right.body,
                edges,
            };
        }
        if l.tail.is_empty() {
            // What continues nothing counts for nothing.
            return Summary {
                body: self.body.then(right.body),
                edges: Edges {
                    head: l.head,
                    tail: r.tail,
                    only_head: false,
                },
            };
        }
        let mut middle: Few<{ 2 * LONGEST }> = Few::first_of(l.tail.get());
        middle.push(r.head.get());
        let (body, tail) = match decode(middle.get()) {
            Joint::Unfinished if r.only_head => (self.body, Few::first_of(middle.get())),
            Joint::Unfinished => (self.body.then(right.body), r.tail),
            Joint::Counted(counts) => (self.body.then(counts).then(right.body), r.tail),
        };
        Summary {
            body,
            edges: Edges {
                head: l.head,
                tail,
                only_head: false,
            },
        }
    }
}

/// What the bytes between two runs came to.
pub(super) enum Joint {
    /// One character, of which bytes are missing.
    Unfinished,
    /// These counts.
    Counted(Counts),
}

impl Counts {
    /// Of this and `right`, which follows it.
    pub(super) fn then(self, right: Counts) -> Counts {
        Counts {
            lines: self.lines + right.lines,
            chars: self.chars + right.chars,
            words: self.words.then(right.words),
            line: self.line.then(right.line),
        }
    }
}

/// A word's character, or space between words. Other characters (those that cannot be shown) change
/// nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Space,
    Word,
}

/// Words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Words {
    /// How many, if nothing but space is before.
    pub(super) count: u64,
    /// What is the first character that is one or the other, and the last.
    pub(super) ends: Option<(Kind, Kind)>,
}

impl Words {
    fn then(self, right: Words) -> Words {
        let (Some(l), Some(r)) = (self.ends, right.ends) else {
            return if self.ends.is_none() { right } else { self };
        };
        let goes_on = l.1 == Kind::Word && r.0 == Kind::Word;
        Words {
            count: self.count + right.count - u64::from(goes_on),
            ends: Some((l.0, r.1)),
        }
    }
}

/// Columns of a tab.
const TAB: u64 = 8;

/// How a run without an end of line moves the column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Span {
    /// Columns before the first tab.
    pub(super) before: u64,
    /// Columns after it, counted from where it led to, if there is one. That place is a multiple of
    /// [`TAB`], so the later tabs do not depend on where the run began.
    pub(super) after: Option<u64>,
}

impl Span {
    /// The column where the run ends if it begins at `column`.
    pub(super) fn from(self, column: u64) -> u64 {
        let tab = column + self.before;
        match self.after {
            None => tab,
            Some(after) => tab - tab % TAB + TAB + after,
        }
    }

    fn then(self, right: Span) -> Span {
        match self.after {
            None => Span {
                before: self.before + right.before,
                after: right.after,
            },
            Some(after) => Span {
                before: self.before,
                after: Some(right.from(after)),
            },
        }
    }
}

/// The widths of lines. Carriage returns and form feeds end one, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Line {
    /// Up to the first end of line.
    pub(super) first: Span,
    /// After it, if there is one: the width of the longest line that has both ends here, and the
    /// column at which the run ends.
    pub(super) rest: Option<(u64, u64)>,
}

impl Line {
    /// Width of the longest line, if this is all there is.
    pub(super) fn longest(self) -> u64 {
        let (longest, column) = self.rest.unwrap_or_default();
        self.first.from(0).max(longest).max(column)
    }

    fn then(self, right: Line) -> Line {
        let Some((longest, column)) = self.rest else {
            return Line {
                first: self.first.then(right.first),
                rest: right.rest,
            };
        };
        let end = right.first.from(column);
        let rest = match right.rest {
            None => (longest, end),
            Some((more, column)) => (longest.max(end).max(more), column),
        };
        Line {
            first: self.first,
            rest: Some(rest),
        }
    }
}
