//! Expressions: tests and actions for a file.

use std::cell::RefCell;
use std::ffi::CString;

use rustix::fs::Access;

use super::entry::{Clock, Moment};
use super::printf::Format;
use super::sys::Regex;

/// Comparison with a number: `-N`, `N` or `+N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compare {
    Less,
    Equal,
    More,
}

impl Compare {
    /// Returns true if `value` is less than, equal to, or more than `than`.
    pub(super) fn holds<T: PartialOrd>(self, value: T, than: T) -> bool {
        match self {
            Compare::Less => value < than,
            Compare::Equal => value == than,
            Compare::More => value > than,
        }
    }
}

/// `[+-]N`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Number {
    pub(super) compare: Compare,
    pub(super) value: u64,
}

impl Number {
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
pub(super) enum Test {
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
    Regex(RefCell<Regex>),
    /// Letters of file types.
    Kind(Vec<u8>),
    /// Letters of file types for the target of a link, or for the link itself if links are followed.
    OtherKind(Vec<u8>),
    Size {
        number: Number,
        unit: u64,
    },
    Empty,
    Newer {
        clock: Clock,
        than: Moment,
    },
    /// Before, after, or less than `window` seconds after a moment.
    Age {
        clock: Clock,
        compare: Compare,
        reference: Moment,
        window: i64,
    },
    /// The time between change and access, in nanoseconds.
    Used {
        compare: Compare,
        nanos: i128,
    },
    Perm {
        file: u32,
        dir: u32,
        how: PermMatch,
    },
    Links(Number),
    Inode(Number),
    User(Number),
    Group(Number),
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
        compare: Compare,
        value: f64,
        unit_s: f64,
    },
    /// Name of the slowest level that the file needs.
    Level(String),
}

/// An action.
pub(super) enum Action {
    Print {
        to: usize,
        end: u8,
    },
    Format {
        to: usize,
        format: Format,
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
pub(super) enum Node {
    Test(Test),
    Do(Action),
    Not(Box<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    /// The value is the value of the last expression.
    List(Vec<Node>),
}

impl Test {
    /// Returns the cost class of a test: 0 for the name; then the type, which most directories report; the status;
    /// several system calls; and a query of the file's residency.
    fn cost(&self) -> u8 {
        match self {
            Test::True | Test::False | Test::Name { .. } | Test::Path { .. } => 0,
            Test::Regex(_) | Test::Kind(_) => 1,
            // Like the previous tests, except for links.
            Test::OtherKind(_) => 2,
            Test::Link { .. } | Test::May(_) => 4,
            Test::Empty | Test::NoUser | Test::NoGroup | Test::FileSystem(_) => 4,
            Test::Latency { .. } | Test::Level(_) => 5,
            _ => 3,
        }
    }
}

impl Node {
    /// Returns true if the evaluation has no side effects.
    fn is_pure(&self) -> bool {
        match self {
            Node::Test(_) => true,
            Node::Do(_) => false,
            Node::Not(node) => node.is_pure(),
            Node::And(nodes) | Node::Or(nodes) | Node::List(nodes) => {
                nodes.iter().all(Node::is_pure)
            }
        }
    }

    fn cost(&self) -> u8 {
        match self {
            Node::Test(test) => test.cost(),
            Node::Do(_) => u8::MAX,
            Node::Not(node) => node.cost(),
            Node::And(nodes) | Node::Or(nodes) | Node::List(nodes) => {
                nodes.iter().map(Node::cost).max().unwrap_or(0)
            }
        }
    }

    /// Moves cheap tests before expensive ones if the order has no visible effect: among adjacent nodes without side
    /// effects.
    pub(super) fn put_cheap_first(&mut self) {
        match self {
            Node::Test(_) | Node::Do(_) => {}
            Node::Not(node) => node.put_cheap_first(),
            Node::List(nodes) => nodes.iter_mut().for_each(Node::put_cheap_first),
            Node::And(nodes) | Node::Or(nodes) => {
                nodes.iter_mut().for_each(Node::put_cheap_first);
                for run in nodes.chunk_by_mut(|a, b| a.is_pure() && b.is_pure()) {
                    run.sort_by_key(Node::cost);
                }
            }
        }
    }

    /// Returns true if `ask` accepts any action.
    pub(super) fn any_action(&self, ask: &dyn Fn(&Action) -> bool) -> bool {
        match self {
            Node::Test(_) => false,
            Node::Do(action) => ask(action),
            Node::Not(node) => node.any_action(ask),
            Node::And(nodes) | Node::Or(nodes) | Node::List(nodes) => {
                nodes.iter().any(|node| node.any_action(ask))
            }
        }
    }
}
