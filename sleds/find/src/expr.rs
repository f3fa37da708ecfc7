//! Expressions: tests and actions for a file.

use std::cell::RefCell;
use std::ffi::CString;

use rustix::fs::Access;

use super::entry::{TimestampKind, UnixTime};
use super::printf::PrintfFormat;
use super::sys::GnuRegex;

/// Comparison with a number: `-N`, `N` or `+N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NumericComparison {
    Less,
    Equal,
    More,
}

impl NumericComparison {
    /// Returns true if `value` is less than, equal to, or more than `than`.
    pub(super) fn holds<T: PartialOrd>(self, value: T, than: T) -> bool {
        match self {
            NumericComparison::Less => value < than,
            NumericComparison::Equal => value == than,
            NumericComparison::More => value > than,
        }
    }
}

/// `[+-]N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NumericTest {
    pub(super) compare: NumericComparison,
    pub(super) value: u64,
}

impl NumericTest {
    pub(super) fn holds(self, value: u64) -> bool {
        self.compare.holds(value, self.value)
    }
}

/// Comparison of `-perm`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PermMatch {
    Exactly,
    All,
    Any,
}

/// A test of a file, without side effects.
pub(super) enum FileTest {
    True,
    False,
    Name {
        pattern: CString,
        fold: bool,
    },
    Path {
        pattern: CString,
        fold: bool,
    },
    Link {
        pattern: CString,
        fold: bool,
    },
    Regex(RefCell<GnuRegex>),
    /// Letters of file types.
    Kind(Vec<u8>),
    /// Letters of file types for the target of a link, or for the link itself if links are followed.
    OtherKind(Vec<u8>),
    Size {
        number: NumericTest,
        unit: u64,
    },
    Empty,
    Newer {
        clock: TimestampKind,
        than: UnixTime,
    },
    /// Before, after, or less than `window` seconds after a moment.
    Age {
        clock: TimestampKind,
        compare: NumericComparison,
        reference: UnixTime,
        window: i64,
    },
    /// The time between change and access, in nanoseconds.
    Used {
        compare: NumericComparison,
        nanos: i128,
    },
    Perm {
        file: u32,
        dir: u32,
        how: PermMatch,
    },
    Links(NumericTest),
    Inode(NumericTest),
    User(NumericTest),
    Group(NumericTest),
    NoUser,
    NoGroup,
    SameFile {
        device: u64,
        inode: u64,
    },
    FileSystem(Vec<u8>),
    May(Access),
    /// Time to read the file, in units of `unit_s` seconds.
    Latency {
        compare: NumericComparison,
        value: f64,
        unit_s: f64,
    },
    /// Name of the slowest level that the file needs.
    Level(String),
}

/// An action.
pub(super) enum FindAction {
    Print {
        to: usize,
        end: u8,
    },
    Format {
        to: usize,
        format: PrintfFormat,
    },
    List {
        to: usize,
    },
    Prune,
    Quit,
    Delete,
    /// Runs the command with this number.
    Run(usize),
}

/// An expression.
pub(super) enum ExprNode {
    Test(FileTest),
    Do(FindAction),
    Not(Box<ExprNode>),
    And(Vec<ExprNode>),
    Or(Vec<ExprNode>),
    /// The value is the value of the last expression.
    List(Vec<ExprNode>),
}

impl FileTest {
    /// Returns the cost class of a test: 0 for the name; then the type, which most directories report; the status;
    /// several system calls; and a query of the file's residency.
    fn cost(&self) -> u8 {
        match self {
            FileTest::True | FileTest::False | FileTest::Name { .. } | FileTest::Path { .. } => 0,
            FileTest::Regex(_) | FileTest::Kind(_) => 1,
            // Like the previous tests, except for links.
            FileTest::OtherKind(_) => 2,
            FileTest::Link { .. } | FileTest::May(_) => 4,
            FileTest::Empty | FileTest::NoUser | FileTest::NoGroup | FileTest::FileSystem(_) => 4,
            FileTest::Latency { .. } | FileTest::Level(_) => 5,
            _ => 3,
        }
    }
}

impl ExprNode {
    /// Returns true if the evaluation has no side effects.
    fn is_pure(&self) -> bool {
        match self {
            ExprNode::Test(_) => true,
            ExprNode::Do(_) => false,
            ExprNode::Not(node) => node.is_pure(),
            ExprNode::And(nodes) | ExprNode::Or(nodes) | ExprNode::List(nodes) => {
                nodes.iter().all(ExprNode::is_pure)
            }
        }
    }

    fn cost(&self) -> u8 {
        match self {
            ExprNode::Test(test) => test.cost(),
            ExprNode::Do(_) => u8::MAX,
            ExprNode::Not(node) => node.cost(),
            ExprNode::And(nodes) | ExprNode::Or(nodes) | ExprNode::List(nodes) => {
                nodes.iter().map(ExprNode::cost).max().unwrap_or(0)
            }
        }
    }

    /// Moves cheap tests before expensive ones if the order has no visible effect: among adjacent nodes without side
    /// effects.
    pub(super) fn put_cheap_first(&mut self) {
        match self {
            ExprNode::Test(_) | ExprNode::Do(_) => {}
            ExprNode::Not(node) => node.put_cheap_first(),
            ExprNode::List(nodes) => nodes.iter_mut().for_each(ExprNode::put_cheap_first),
            ExprNode::And(nodes) | ExprNode::Or(nodes) => {
                nodes.iter_mut().for_each(ExprNode::put_cheap_first);
                for run in nodes.chunk_by_mut(|a, b| a.is_pure() && b.is_pure()) {
                    run.sort_by_key(ExprNode::cost);
                }
            }
        }
    }

    /// Returns true if `ask` accepts any action.
    pub(super) fn any_action(&self, ask: &dyn Fn(&FindAction) -> bool) -> bool {
        match self {
            ExprNode::Test(_) => false,
            ExprNode::Do(action) => ask(action),
            ExprNode::Not(node) => node.any_action(ask),
            ExprNode::And(nodes) | ExprNode::Or(nodes) | ExprNode::List(nodes) => {
                nodes.iter().any(|node| node.any_action(ask))
            }
        }
    }
}
