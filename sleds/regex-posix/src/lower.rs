//! Conversion of a syntax tree to the form from which `regex-automata` builds automata.

use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, Look, Repetition,
};

use super::ast::{CharRanges, PatternAssertion, PatternNode};

/// Accuracy of the conversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LoweringAccuracy {
    /// Exact. The pattern has no back-references. If characters outside ASCII may be parts of words and the
    /// pattern has assertions about words, lines have only ASCII.
    Exact,
    /// The result matches every line that the pattern matches, and perhaps others.
    Superset,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct HirLowering {
    pub(super) utf8: bool,
    /// Characters outside ASCII may be parts of words.
    pub(super) wide_words: bool,
    /// Byte that ends a line. No character of a line has this value.
    pub(super) eol: u8,
    pub(super) accuracy: LoweringAccuracy,
}

impl HirLowering {
    pub(super) fn lower(self, node: &PatternNode) -> Hir {
        match node {
            PatternNode::Empty => Hir::empty(),
            PatternNode::Set(set) => self.set(set),
            PatternNode::Byte(b) => Hir::literal([*b]),
            PatternNode::Any => self.any(),
            PatternNode::Assert(assert) => self.assert(*assert),
            PatternNode::Concat(nodes) => {
                Hir::concat(nodes.iter().map(|n| self.lower(n)).collect())
            }
            PatternNode::Alternate(nodes) => {
                Hir::alternation(nodes.iter().map(|n| self.lower(n)).collect())
            }
            PatternNode::Repeat { node, min, max } => repeat(self.lower(node), *min, *max),
            PatternNode::Group(_, node) => self.lower(node),
            PatternNode::Backref(_) => {
                let bytes =
                    ClassBytes::new(bytes(&CharRanges::of(u32::from(self.eol)).inverse(0xff)));
                repeat(Hir::class(Class::Bytes(bytes)), 0, None)
            }
        }
    }

    fn set(self, set: &CharRanges) -> Hir {
        let eol = u32::from(self.eol);
        if set.contains(eol) {
            let others = set.inverse(u32::from(char::MAX)).ranges().to_vec();
            let without = CharRanges::new(others.into_iter().chain([(eol, eol)]).collect());
            return self.set(&without.inverse(if self.utf8 {
                u32::from(char::MAX)
            } else {
                0xff
            }));
        }
        if !self.utf8 {
            return Hir::class(Class::Bytes(ClassBytes::new(bytes(set))));
        }
        let chars = set.ranges().iter().filter_map(|(low, high)| {
            // A surrogate of UTF-16 is not a character.
            let low = char::from_u32(*low).unwrap_or('\u{e000}');
            let high = char::from_u32(*high).unwrap_or('\u{d7ff}');
            (low <= high).then(|| ClassUnicodeRange::new(low, high))
        });
        Hir::class(Class::Unicode(ClassUnicode::new(chars)))
    }

    fn any(self) -> Hir {
        self.set(&CharRanges::default().inverse(if self.utf8 {
            u32::from(char::MAX)
        } else {
            0xff
        }))
    }

    fn assert(self, assert: PatternAssertion) -> Hir {
        let look = match assert {
            PatternAssertion::LineStart => Look::StartLF,
            PatternAssertion::LineEnd => Look::EndLF,
            _ if self.wide_words && self.accuracy == LoweringAccuracy::Superset => {
                return Hir::empty();
            }
            PatternAssertion::WordStart => Look::WordStartAscii,
            PatternAssertion::WordEnd => Look::WordEndAscii,
            PatternAssertion::WordEdge => Look::WordAscii,
            PatternAssertion::NotWordEdge => Look::WordAsciiNegate,
            PatternAssertion::NoWordBefore => Look::WordStartHalfAscii,
            PatternAssertion::NoWordBehind => Look::WordEndHalfAscii,
        };
        Hir::look(look)
    }
}

fn bytes(set: &CharRanges) -> impl Iterator<Item = ClassBytesRange> {
    let ranges = set.ranges().iter().filter(|r| r.0 <= 0xff);
    ranges.map(|r| ClassBytesRange::new(r.0 as u8, r.1.min(0xff) as u8))
}

fn repeat(hir: Hir, min: u32, max: Option<u32>) -> Hir {
    Hir::repetition(Repetition {
        min,
        max,
        greedy: true,
        sub: Box::new(hir),
    })
}
