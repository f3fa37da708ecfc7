//! Repetition operators: `*`, `+`, `?`, `{2,3}`, in basic expressions some with a backslash.

use super::ast::PatternNode;
use super::error::PatternError;
use super::parse::PatternParser;

/// Maximum number of repetitions in an interval.
const REPEAT_MAX: u32 = 32767;

/// Number of repetitions that an operator requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RepeatTimes {
    min: u32,
    max: Option<u32>,
}

impl RepeatTimes {
    pub(super) fn of(self, node: PatternNode) -> PatternNode {
        match (self.min, self.max) {
            (0, Some(0)) => PatternNode::Empty,
            (1, Some(1)) => node,
            (min, max) => PatternNode::Repeat {
                node: Box::new(node),
                min,
                max,
            },
        }
    }
}

/// Content of braces.
enum BraceInterval {
    Times(RepeatTimes),
    /// Malformed content.
    Broken,
    /// Malformed content at the end of the pattern.
    Open,
    /// Nothing.
    Bare,
    /// An end before the start.
    Backwards,
}

impl PatternParser<'_> {
    /// Returns true if the next item looks like an operator.
    pub(super) fn at_operator(&self) -> bool {
        self.rest().starts_with(b"*") || [b'+', b'?', b'{'].iter().any(|op| self.next_is(*op))
    }

    /// Parses an operator, if the next item is an operator in this context.
    pub(super) fn times(&mut self) -> Result<Option<RepeatTimes>, PatternError> {
        if self.brace_is_text || !self.at_operator() {
            return Ok(None);
        }
        let idle = self.start;
        if idle && !self.extended() {
            return Ok(None);
        }
        let (times, warning) = if self.rest().starts_with(b"*") {
            self.at += 1;
            let times = RepeatTimes { min: 0, max: None };
            (times, "* at start of expression")
        } else if self.eat(b'+') {
            let times = RepeatTimes { min: 1, max: None };
            (times, "+ at start of expression")
        } else if self.eat(b'?') {
            let max = Some(1);
            (RepeatTimes { min: 0, max }, "? at start of expression")
        } else {
            let Some(times) = self.interval(idle)? else {
                return Ok(None);
            };
            (times, "{...} at start of expression")
        };
        if idle {
            self.warnings.push(warning);
        }
        Ok(Some(times))
    }

    /// Parses an interval, `idle` if it has nothing to repeat; `None` if its brace is text.
    fn interval(&mut self, idle: bool) -> Result<Option<RepeatTimes>, PatternError> {
        let at = self.at;
        match self.braces() {
            BraceInterval::Times(times) if times.min.max(times.max.unwrap_or(0)) > REPEAT_MAX => {
                Err(PatternError::TooBig)
            }
            BraceInterval::Times(times) => {
                self.start = false;
                Ok(Some(times))
            }
            // These are refused even in contexts where other malformed content is text.
            BraceInterval::Bare | BraceInterval::Backwards if !idle => Err(PatternError::Interval),
            _ if self.extended() => {
                self.at = at;
                self.brace_is_text = true;
                Ok(None)
            }
            BraceInterval::Open => Err(PatternError::Brace),
            _ => Err(PatternError::Interval),
        }
    }

    fn braces(&mut self) -> BraceInterval {
        self.at += self.op_len();
        let low = self.number();
        let comma = self.rest().starts_with(b",");
        self.at += usize::from(comma);
        let high = if comma { self.number() } else { low };
        if !self.eat(b'}') {
            return if self.rest().is_empty() {
                BraceInterval::Open
            } else {
                BraceInterval::Broken
            };
        }
        let min = match (low, comma) {
            (Some(low), _) => low,
            (None, true) => 0,
            (None, false) => return BraceInterval::Bare,
        };
        match high {
            Some(high) if high < min => BraceInterval::Backwards,
            max => BraceInterval::Times(RepeatTimes { min, max }),
        }
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit());
        let len = digits.count();
        let value = self.rest()[..len].iter().fold(0u32, |n, b| {
            (n * 10 + u32::from(b - b'0')).min(REPEAT_MAX + 1)
        });
        self.at += len;
        (len > 0).then_some(value)
    }
}
