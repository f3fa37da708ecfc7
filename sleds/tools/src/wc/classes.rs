//! Classes of characters for `wc`, according to the user's locale.

use sleds_common::locale::{Charset, Locale};

/// Effect of a character, as bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CharClass(u8);

impl CharClass {
    /// Columns, 0 to 3.
    const WIDTH: u8 = 0b11;
    /// Belongs to a word.
    const WORD: u8 = 1 << 2;
    /// Separates words.
    const SPACE: u8 = 1 << 3;
    /// Ends a line with respect to its width.
    const RESET: u8 = 1 << 4;
    const TAB: u8 = 1 << 5;
    /// Has been looked up.
    const KNOWN: u8 = 1 << 7;

    pub(super) fn width(self) -> u64 {
        u64::from(self.0 & CharClass::WIDTH)
    }

    pub(super) fn is_word(self) -> bool {
        self.0 & CharClass::WORD != 0
    }

    pub(super) fn is_space(self) -> bool {
        self.0 & CharClass::SPACE != 0
    }

    pub(super) fn is_reset(self) -> bool {
        self.0 & CharClass::RESET != 0
    }

    pub(super) fn is_tab(self) -> bool {
        self.0 & CharClass::TAB != 0
    }

    /// Returns true if the character does more to a line's width than add to it.
    pub(super) fn moves(self) -> bool {
        self.0 & (CharClass::RESET | CharClass::TAB) != 0
    }
}

/// Last cached character. Characters beyond it are looked up each time.
const LAST: u32 = 0x10_ffff;

/// The classes of a locale's characters.
pub(super) struct LocaleClasses {
    locale: Locale,
    /// `POSIXLY_CORRECT` is set: non-breaking spaces belong to words.
    posix: bool,
    /// Classes by byte, for single-byte character sets, and for ASCII in all sets.
    bytes: [CharClass; 256],
    /// Classes by character; zero for characters not looked up yet. Untouched zeroes take no memory.
    chars: Vec<u8>,
}

impl LocaleClasses {
    pub(super) fn new(locale: Locale, posix: bool) -> LocaleClasses {
        let mut classes = LocaleClasses {
            locale,
            posix,
            bytes: [CharClass(CharClass::KNOWN); 256],
            chars: Vec::new(),
        };
        for byte in 0..=255 {
            classes.bytes[usize::from(byte)] = classes.look_up_byte(byte);
        }
        if locale.charset() != Charset::SingleByte {
            classes.chars = vec![0; LAST as usize + 1];
        }
        classes
    }

    pub(super) fn of_byte(&self, byte: u8) -> CharClass {
        self.bytes[usize::from(byte)]
    }

    pub(super) fn of_char(&mut self, c: u32) -> CharClass {
        match self.chars.get(c as usize) {
            Some(0) => {
                let class = self.look_up(c);
                self.chars[c as usize] = class.0;
                class
            }
            Some(class) => CharClass(*class),
            None => self.look_up(c),
        }
    }

    #[cold]
    fn look_up(&self, c: u32) -> CharClass {
        let shown = self.locale.is_print(c);
        let width = self.locale.width(c).clamp(0, 3) as u8;
        self.class(c, shown.then(|| (width, self.locale.is_space(c))))
    }

    fn look_up_byte(&self, byte: u8) -> CharClass {
        // A byte that is not a character by itself is not printable either.
        let c = self.locale.of_byte(byte).unwrap_or(0);
        let shown = self.locale.byte_is_print(byte);
        let space = self.locale.byte_is_space(byte);
        self.class(c, shown.then_some((1, space)))
    }

    /// Returns the class of `c`. `shown` contains the width of a printable character, and true if it separates words.
    fn class(&self, c: u32, shown: Option<(u8, bool)>) -> CharClass {
        let class = match (char::from_u32(c), shown) {
            (Some('\n' | '\r' | '\x0c'), _) => CharClass::RESET | CharClass::SPACE,
            (Some('\t'), _) => CharClass::TAB | CharClass::SPACE,
            (Some(' '), _) => 1 | CharClass::SPACE,
            (Some('\x0b'), _) => CharClass::SPACE,
            (_, None) => 0,
            (_, Some((width, space))) => {
                let space = space || (!self.posix && is_unbreaking_space(c));
                width
                    | if space {
                        CharClass::SPACE
                    } else {
                        CharClass::WORD
                    }
            }
        };
        CharClass(class | CharClass::KNOWN)
    }

    /// Returns true for the usual classes of ASCII: graphic characters belong to words and are one column wide.
    pub(super) fn ascii_is_plain(&self) -> bool {
        (b'!'..=b'~').all(|b| self.of_byte(b) == CharClass(CharClass::KNOWN | CharClass::WORD | 1))
            && b" \t\n\x0b\x0c\r"
                .iter()
                .all(|b| self.of_byte(*b).is_space())
    }
}

/// Returns true for spaces that `iswspace` rejects because lines may not be broken there.
fn is_unbreaking_space(c: u32) -> bool {
    matches!(c, 0xa0 | 0x2007 | 0x202f | 0x2060)
}
