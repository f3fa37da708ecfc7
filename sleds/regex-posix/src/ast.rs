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
    NoWordBefore,
    NoWordBehind,
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

/// Groups larger than this are not copied to where they are referred to.
const COPY_MAX: usize = 100;

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

    /// True if of matches that begin at one place the longest is the one that tries the most of each
    /// repetition first: there is one that can have several lengths at most, and no choice.
    pub(super) fn has_one_length_at_a_place(&self) -> bool {
        self.lengths().is_some_and(|lengths| lengths <= 1)
    }

    /// How many parts can match several lengths, if these are repetitions of a character.
    fn lengths(&self) -> Option<usize> {
        match self {
            Node::Alternate(_) | Node::Backref(_) => None,
            Node::Concat(nodes) => nodes.iter().map(Node::lengths).sum(),
            Node::Group(_, node) => node.lengths(),
            Node::Repeat { node, min, max } if Some(*min) == *max => {
                node.lengths().filter(|lengths| *lengths == 0)
            }
            Node::Repeat { node, .. } => node.is_character().then_some(1),
            _ => Some(0),
        }
    }

    fn is_character(&self) -> bool {
        matches!(self, Node::Set(_) | Node::Byte(_) | Node::Any)
    }

    /// What matches more than this does, without back-references: they are what their groups match, in
    /// any case that was written, wherever it is. Very large groups are left.
    pub(super) fn with_groups_for_backrefs(&self) -> Node {
        self.replaced(&mut Vec::new())
    }

    fn replaced(&self, groups: &mut Vec<(usize, Node)>) -> Node {
        let mut all = |nodes: &[Node]| nodes.iter().map(|n| n.replaced(groups)).collect();
        match self {
            Node::Concat(nodes) => Node::Concat(all(nodes)),
            Node::Alternate(nodes) => Node::Alternate(all(nodes)),
            Node::Repeat { node, min, max } => Node::Repeat {
                node: Box::new(node.replaced(groups)),
                min: *min,
                max: *max,
            },
            Node::Group(number, node) => {
                let node = node.replaced(groups);
                if node.size() <= COPY_MAX {
                    groups.push((*number, node.anywhere()));
                }
                Node::Group(*number, Box::new(node))
            }
            Node::Backref(number) => {
                // Of several patterns, each has a first group.
                let group = groups.iter().rfind(|(n, _)| n == number);
                group.map_or(self.clone(), |(_, node)| node.clone())
            }
            node => node.clone(),
        }
    }

    /// About how many states an automaton has.
    fn size(&self) -> usize {
        match self {
            Node::Concat(nodes) | Node::Alternate(nodes) => nodes.iter().map(Node::size).sum(),
            Node::Group(_, node) => node.size(),
            Node::Repeat { node, min, max } => {
                let times = max.unwrap_or(*min).max(1) as usize;
                node.size().saturating_mul(times)
            }
            _ => 1,
        }
    }

    /// The same text without conditions on what is around it.
    fn anywhere(&self) -> Node {
        let all = |nodes: &[Node]| nodes.iter().map(Node::anywhere).collect();
        match self {
            Node::Assert(_) => Node::Empty,
            Node::Concat(nodes) => Node::Concat(all(nodes)),
            Node::Alternate(nodes) => Node::Alternate(all(nodes)),
            Node::Group(number, node) => Node::Group(*number, Box::new(node.anywhere())),
            Node::Repeat { node, min, max } => Node::Repeat {
                node: Box::new(node.anywhere()),
                min: *min,
                max: *max,
            },
            node => node.clone(),
        }
    }
}
