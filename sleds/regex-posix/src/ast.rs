//! Syntax tree of a pattern.

/// Condition between two characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatternAssertion {
    LineStart,
    LineEnd,
    WordStart,
    WordEnd,
    WordEdge,
    NotWordEdge,
    NoWordBefore,
    NoWordBehind,
}

/// Characters, as sorted ranges that neither touch nor overlap: code points in UTF-8, bytes in the C locale.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CharRanges {
    ranges: Vec<(u32, u32)>,
}

impl CharRanges {
    pub(super) fn new(mut ranges: Vec<(u32, u32)>) -> CharRanges {
        ranges.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (low, high) in ranges {
            match joined.last_mut() {
                Some(last) if low <= last.1.saturating_add(1) => last.1 = last.1.max(high),
                _ => joined.push((low, high)),
            }
        }
        CharRanges { ranges: joined }
    }

    pub(super) fn of(c: u32) -> CharRanges {
        CharRanges {
            ranges: vec![(c, c)],
        }
    }

    pub(super) fn of_all(chars: impl IntoIterator<Item = u32>) -> CharRanges {
        CharRanges::new(chars.into_iter().map(|c| (c, c)).collect())
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    pub(super) fn contains(&self, c: u32) -> bool {
        let at = self.ranges.partition_point(|r| r.1 < c);
        self.ranges.get(at).is_some_and(|r| r.0 <= c)
    }

    /// Returns all characters up to `max` that are not in the set.
    pub(super) fn inverse(&self, max: u32) -> CharRanges {
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
        CharRanges { ranges }
    }
}

/// Maximum size of a group that is copied in place of a back-reference.
const COPY_MAX: usize = 100;

/// A pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum PatternNode {
    Empty,
    Set(CharRanges),
    /// A byte of a pattern that is not a character in UTF-8.
    Byte(u8),
    /// Any character.
    Any,
    Assert(PatternAssertion),
    Concat(Vec<PatternNode>),
    Alternate(Vec<PatternNode>),
    Repeat {
        node: Box<PatternNode>,
        min: u32,
        max: Option<u32>,
    },
    /// A group. The number counts opening parentheses, from 1.
    Group(usize, Box<PatternNode>),
    /// The text that the group of this number matched.
    Backref(usize),
}

impl PatternNode {
    /// Returns true if `test` holds for a node of the tree.
    pub(super) fn any(&self, test: &dyn Fn(&PatternNode) -> bool) -> bool {
        test(self)
            || match self {
                PatternNode::Concat(nodes) | PatternNode::Alternate(nodes) => {
                    nodes.iter().any(|n| n.any(test))
                }
                PatternNode::Repeat { node, .. } | PatternNode::Group(_, node) => node.any(test),
                _ => false,
            }
    }

    pub(super) fn has_backref(&self) -> bool {
        self.any(&|node| matches!(node, PatternNode::Backref(_)))
    }

    pub(super) fn has_word_assert(&self) -> bool {
        self.any(&|node| {
            let PatternNode::Assert(assert) = node else {
                return false;
            };
            !matches!(
                assert,
                PatternAssertion::LineStart | PatternAssertion::LineEnd
            )
        })
    }

    /// Returns true if, of matches that begin at one place, the longest is the match that tries the most of each
    /// repetition first: the pattern has at most one repetition with several lengths, and no alternatives.
    pub(super) fn has_one_length_at_a_place(&self) -> bool {
        self.lengths().is_some_and(|lengths| lengths <= 1)
    }

    /// Returns the number of parts that can match several lengths, if all of these are repetitions of a character.
    fn lengths(&self) -> Option<usize> {
        match self {
            PatternNode::Alternate(_) | PatternNode::Backref(_) => None,
            PatternNode::Concat(nodes) => nodes.iter().map(PatternNode::lengths).sum(),
            PatternNode::Group(_, node) => node.lengths(),
            PatternNode::Repeat { node, min, max } if Some(*min) == *max => {
                node.lengths().filter(|lengths| *lengths == 0)
            }
            PatternNode::Repeat { node, .. } => node.is_character().then_some(1),
            _ => Some(0),
        }
    }

    fn is_character(&self) -> bool {
        matches!(
            self,
            PatternNode::Set(_) | PatternNode::Byte(_) | PatternNode::Any
        )
    }

    /// Returns a superset of this pattern without back-references. Each is replaced by its group, which matches its
    /// text in upper and lower case, without conditions on the surroundings. Very large groups are not copied.
    pub(super) fn with_groups_for_backrefs(&self) -> PatternNode {
        self.replaced(&mut Vec::new())
    }

    fn replaced(&self, groups: &mut Vec<(usize, PatternNode)>) -> PatternNode {
        let mut all = |nodes: &[PatternNode]| nodes.iter().map(|n| n.replaced(groups)).collect();
        match self {
            PatternNode::Concat(nodes) => PatternNode::Concat(all(nodes)),
            PatternNode::Alternate(nodes) => PatternNode::Alternate(all(nodes)),
            PatternNode::Repeat { node, min, max } => PatternNode::Repeat {
                node: Box::new(node.replaced(groups)),
                min: *min,
                max: *max,
            },
            PatternNode::Group(number, node) => {
                let node = node.replaced(groups);
                if node.size() <= COPY_MAX {
                    groups.push((*number, node.anywhere()));
                }
                PatternNode::Group(*number, Box::new(node))
            }
            PatternNode::Backref(number) => {
                // Each of several patterns has a first group, so the nearest is the right one.
                let group = groups.iter().rfind(|(n, _)| n == number);
                group.map_or(self.clone(), |(_, node)| node.clone())
            }
            node => node.clone(),
        }
    }

    /// Returns the approximate number of states of an automaton.
    fn size(&self) -> usize {
        match self {
            PatternNode::Concat(nodes) | PatternNode::Alternate(nodes) => {
                nodes.iter().map(PatternNode::size).sum()
            }
            PatternNode::Group(_, node) => node.size(),
            PatternNode::Repeat { node, min, max } => {
                let times = max.unwrap_or(*min).max(1) as usize;
                node.size().saturating_mul(times)
            }
            _ => 1,
        }
    }

    /// Returns the pattern without conditions on the surrounding text.
    fn anywhere(&self) -> PatternNode {
        let all = |nodes: &[PatternNode]| nodes.iter().map(PatternNode::anywhere).collect();
        match self {
            PatternNode::Assert(_) => PatternNode::Empty,
            PatternNode::Concat(nodes) => PatternNode::Concat(all(nodes)),
            PatternNode::Alternate(nodes) => PatternNode::Alternate(all(nodes)),
            PatternNode::Group(number, node) => {
                PatternNode::Group(*number, Box::new(node.anywhere()))
            }
            PatternNode::Repeat { node, min, max } => PatternNode::Repeat {
                node: Box::new(node.anywhere()),
                min: *min,
                max: *max,
            },
            node => node.clone(),
        }
    }
}
