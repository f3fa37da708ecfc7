//! Options for patterns and lines.

use super::classes::{ByteTable, CharRules};
use super::lower::{HirLowering, LoweringAccuracy};

/// Syntax of patterns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RegexSyntax {
    /// Groups, intervals and alternatives have backslashes: `\(a\|b\)\{2\}`.
    #[default]
    Basic,
    /// Groups, intervals and alternatives have no backslashes: `(a|b){2}`.
    Extended,
    /// Each pattern is literal text.
    Fixed,
}

/// Options for patterns and lines.
#[derive(Clone, Copy)]
pub struct RegexOptions {
    /// Syntax of the patterns.
    pub syntax: RegexSyntax,
    /// True to ignore the case of letters.
    pub icase: bool,
    /// True if characters are UTF-8, not bytes.
    pub utf8: bool,
    /// Classes and cases of bytes, if characters are bytes; `None` for ASCII.
    pub bytes: Option<&'static ByteTable>,
    /// True if `İ` is the upper case of `i` and `I` that of `ı`, as in Turkish; only in UTF-8.
    pub dotted: bool,
    /// True if ranges use the order of characters in the C library's locale, provided that it is in UTF-8, and not the
    /// order of codes.
    pub collates: bool,
    /// Byte that ends a line.
    pub eol: u8,
    /// True if a match must be a whole line.
    pub whole_lines: bool,
    /// True if a match must not have a part of a word before or behind it.
    pub whole_words: bool,
}

/// Basic expressions over bytes; lines end in a newline.
impl Default for RegexOptions {
    fn default() -> RegexOptions {
        RegexOptions {
            syntax: RegexSyntax::Basic,
            icase: false,
            utf8: false,
            bytes: None,
            dotted: false,
            collates: false,
            eol: b'\n',
            whole_lines: false,
            whole_words: false,
        }
    }
}

impl RegexOptions {
    /// Returns the last code of the character set.
    pub(super) fn last(self) -> u32 {
        if self.utf8 {
            u32::from(char::MAX)
        } else {
            0xff
        }
    }

    /// Returns the meaning of characters.
    pub(super) fn rules(self) -> CharRules {
        CharRules {
            utf8: self.utf8,
            bytes: self.bytes,
            dotted: self.dotted,
        }
    }

    /// Returns true if the C library determines the order of characters.
    pub(super) fn by_locale(self) -> bool {
        self.utf8 && self.collates
    }

    pub(super) fn lowering(self, accuracy: LoweringAccuracy) -> HirLowering {
        HirLowering {
            utf8: self.utf8,
            wide_words: self.rules().has_wide_words(),
            eol: self.eol,
            accuracy,
        }
    }
}
