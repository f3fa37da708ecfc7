//! How to read patterns and lines.

use super::lower::{HirLowering, LoweringAccuracy};

/// How patterns are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RegexSyntax {
    /// Groups, intervals and alternatives have backslashes: `\(a\|b\)\{2\}`.
    #[default]
    Basic,
    /// They have none: `(a|b){2}`.
    Extended,
    /// Each pattern is the text to look for.
    Fixed,
}

/// How to read patterns and lines.
#[derive(Clone, Copy, Debug)]
pub struct RegexOptions {
    /// How patterns are written.
    pub syntax: RegexSyntax,
    /// Upper and lower case are the same.
    pub icase: bool,
    /// Characters are UTF-8, not bytes.
    pub utf8: bool,
    /// Ranges go by the order of characters in the C library's locale, if that is in UTF-8, and not
    /// by that of their codes.
    pub collates: bool,
    /// Ends a line.
    pub eol: u8,
    /// A match is a whole line.
    pub whole_lines: bool,
    /// A match has no part of a word before and behind it.
    pub whole_words: bool,
}

/// Basic expressions over bytes; lines end in a newline.
impl Default for RegexOptions {
    fn default() -> RegexOptions {
        RegexOptions {
            syntax: RegexSyntax::Basic,
            icase: false,
            utf8: false,
            collates: false,
            eol: b'\n',
            whole_lines: false,
            whole_words: false,
        }
    }
}

impl RegexOptions {
    /// The last code of the character set.
    pub(super) fn last(self) -> u32 {
        if self.utf8 { 0x10ffff } else { 0xff }
    }

    /// The C library knows the order of characters.
    pub(super) fn by_locale(self) -> bool {
        self.utf8 && self.collates
    }

    pub(super) fn lowering(self, accuracy: LoweringAccuracy) -> HirLowering {
        HirLowering {
            utf8: self.utf8,
            eol: self.eol,
            accuracy,
        }
    }
}
