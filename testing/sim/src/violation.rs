//! Findings of checkers.

/// A violated condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Name of the checker.
    pub checker: &'static str,
    /// Description of the violation.
    pub what: String,
}

impl Violation {
    /// Creates a violation.
    pub fn new(checker: &'static str, what: impl Into<String>) -> Violation {
        Violation {
            checker,
            what: what.into(),
        }
    }

    /// Returns the text of the violation without parts that vary between scenarios: numbers, and contents of lists.
    /// Violations of the same shape probably have the same cause.
    pub fn shape(&self) -> String {
        let mut shape = format!("{}: ", self.checker);
        let (mut depth, mut last) = (0_u32, ' ');
        for char in self.what.chars() {
            depth += u32::from(char == '[');
            let shown = if char.is_ascii_digit() { '#' } else { char };
            // A number and its fraction become a single `#`.
            let goes_on = last == '#' && matches!(shown, '#' | '.');
            if !goes_on && (depth == 0 || depth == 1 && char == '[') {
                shape.push(shown);
                last = shown;
            }
            depth = depth.saturating_sub(u32::from(char == ']'));
        }
        shape
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn violations_that_differ_only_in_numbers_and_lists_have_one_shape() {
        let shape = |what: &str| Violation::new("reads", what).shape();
        let one = "writer 1: write sectors 4..20 has taken 917.563s, as after [1, [2], 3] of [V { s: 0 }]";
        let other = "writer 3: write sectors 140..7 has taken 9.5s, as after [] of [V { s: 0 }, W]";
        assert_eq!(shape(one), shape(other));
        assert_ne!(shape(one), shape("writer 1: a flush has taken 917.563s"));
    }
}
