//! What a pattern means, after all of its syntax is resolved.

/// Condition between two characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Assert {
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NotWordEdge,
}

/// Characters, as sorted ranges that neither touch nor overlap: code points in UTF-8, bytes in the C
/// locale.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Set {
    ranges: Vec<(u32, u32)>,
}

impl Set {
    pub(super) fn new(mut ranges: Vec<(u32, u32)>) -> Set {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        Set { ranges: joined }
    }

    pub(super) fn of(c: u32) -> Set {
        Set {
            ranges: vec![(c, c)],
        }
    }

    pub(super) fn of_all(chars: impl IntoIterator<Item = u32>) -> Set {
        Set::new(chars.into_iter().map(|c| (c, c)).collect())
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    pub(super) fn contains(&self, c: u32) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < c);
        self.ranges.get(at).is_some_and(|r| r.0 <= c)
    }

    /// Everything up to `max` that is not in the set.
    pub(super) fn inverse(&self, max: u32) -> Set {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for (low, high) in &self.ranges {
            if *low > next {
                ranges.push((next, low - 1));
            }
            next = high + 1;
        }
        if next <= max {
            ranges.push((next, max));
        }
        Set { ranges }
    }
}

/// A pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Empty,
    Set(Set),
    /// A byte of a pattern that is no character in UTF-8.
    Byte(u8),
    /// Any character.
    Any,
    Assert(Assert),
    Concat(Vec<Node>),
    Alternate(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
    },
    /// The number counts opening parentheses, from 1.
    Group(usize, Box<Node>),
    /// The same text as the group of this number.
    Backref(usize),
}

impl Node {
    /// Any text, where only a superset is wanted.
    pub(super) const ANYTHING: Node = Node::Backref(0);

    /// True if `test` holds for a node of the tree.
    pub(super) fn any(&self, test: &dyn Fn(&Node) -> bool) -> bool {
        test(self)
            || match self {
                Node::Concat(nodes) | Node::Alternate(nodes) => nodes.iter().any(|n| n.any(test)),
                Node::Repeat { node, .. } | Node::Group(_, node) => node.any(test),
                _ => false,
            }
    }

    pub(super) fn has_backref(&self) -> bool {
        self.any(&|node| matches!(node, Node::Backref(_)))
    }

    pub(super) fn has_word_assert(&self) -> bool {
        self.any(&|node| {
            let Node::Assert(assert) = node else {
                return false;
            };
            !matches!(assert, Assert::LineStart | Assert::LineEnd)
        })
    }
}
