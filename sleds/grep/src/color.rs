//! Colours of the output, from `GREP_COLORS`.

/// SGR sequences for each kind of text; empty for no colour.
#[derive(Clone, Debug)]
pub(super) struct ColorSequences {
    pub(super) on: bool,
    pub(super) selected_match: Vec<u8>,
    pub(super) context_match: Vec<u8>,
    pub(super) selected_line: Vec<u8>,
    pub(super) context_line: Vec<u8>,
    pub(super) filename: Vec<u8>,
    pub(super) line_number: Vec<u8>,
    pub(super) byte_number: Vec<u8>,
    pub(super) separator: Vec<u8>,
    /// With `-v`, exchange the colours of selected and context lines.
    pub(super) reverse: bool,
    /// Do not clear to the end of the terminal's line.
    pub(super) no_erase: bool,
}

impl ColorSequences {
    pub(super) fn none() -> ColorSequences {
        let of = |text: &str| text.as_bytes().to_vec();
        ColorSequences {
            on: false,
            selected_match: of("01;31"),
            context_match: of("01;31"),
            selected_line: Vec::new(),
            context_line: Vec::new(),
            filename: of("35"),
            line_number: of("32"),
            byte_number: of("32"),
            separator: of("36"),
            reverse: false,
            no_erase: false,
        }
    }

    /// Returns the colour of a line, and the colour of the matches in it; `invert` is `-v`.
    pub(super) fn of_line(&self, selected: bool, invert: bool) -> (&[u8], &[u8]) {
        if !self.on {
            return (b"", b"");
        }
        let line = if selected == (invert && self.reverse) {
            &self.context_line
        } else {
            &self.selected_line
        };
        let matches = if selected {
            &self.selected_match
        } else {
            &self.context_match
        };
        (line, matches)
    }

    /// Returns the user's colours, and a warning. `old` and `new` are `GREP_COLOR` and `GREP_COLORS`.
    pub(super) fn of_user(
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> (ColorSequences, Option<Vec<u8>>) {
        let mut colors = ColorSequences {
            on: true,
            ..ColorSequences::none()
        };
        let old = old.filter(|old| !old.is_empty() && is_sgr(old));
        if let Some(old) = old {
            colors.selected_match = old.to_vec();
            colors.context_match = old.to_vec();
        }
        let mut used = old;
        for word in new.unwrap_or_default().split(|b| *b == b':') {
            if !colors.set(word) {
                break;
            }
            if word.starts_with(b"mt=") || word.starts_with(b"ms=") {
                used = None;
            }
        }
        let warning = used.map(|old| {
            let start = b"warning: GREP_COLOR='";
            let middle = b"' is deprecated; use GREP_COLORS='mt=";
            [start, old, middle, old, b"'"].concat()
        });
        (colors, warning)
    }

    /// Applies one setting. Returns false if it is invalid, which ends the list.
    fn set(&mut self, word: &[u8]) -> bool {
        let (name, value) = match word.iter().position(|b| *b == b'=') {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        if value.is_some_and(|value| !is_sgr(value)) {
            return false;
        }
        match (name, value) {
            (b"rv", None) => self.reverse = true,
            (b"ne", None) => self.no_erase = true,
            (b"mt", Some(v)) => {
                self.selected_match = v.to_vec();
                self.context_match = v.to_vec();
            }
            (name, Some(v)) => {
                if let Some(slot) = self.slot(name) {
                    *slot = v.to_vec();
                }
            }
            (_, None) => {}
        }
        true
    }

    fn slot(&mut self, name: &[u8]) -> Option<&mut Vec<u8>> {
        Some(match name {
            b"ms" => &mut self.selected_match,
            b"mc" => &mut self.context_match,
            b"sl" => &mut self.selected_line,
            b"cx" => &mut self.context_line,
            b"fn" => &mut self.filename,
            b"ln" => &mut self.line_number,
            b"bn" => &mut self.byte_number,
            b"se" => &mut self.separator,
            _ => return None,
        })
    }
}

/// Returns true if `value` has the characters of an SGR sequence.
fn is_sgr(value: &[u8]) -> bool {
    value.iter().all(|b| b.is_ascii_digit() || *b == b';')
}
