//! What a character is to `wc`, as the user's locale has it.

use sleds_common::locale::{Charset, Locale};

/// What a character does, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Class(u8);

impl Class {
    /// Columns, 0 to 3.
    const WIDTH: u8 = 0b11;
    /// Belongs to a word.
    const WORD: u8 = 1 << 2;
    /// Parts words.
    const SPACE: u8 = 1 << 3;
    /// Ends a line, to its width.
    const RESET: u8 = 1 << 4;
    const TAB: u8 = 1 << 5;
    /// Has been looked up.
    const KNOWN: u8 = 1 << 7;

    pub(super) fn width(self) -> u64 {
        u64::from(self.0 & Class::WIDTH)
    }

    pub(super) fn is_word(self) -> bool {
        self.0 & Class::WORD != 0
    }

    pub(super) fn is_space(self) -> bool {
        self.0 & Class::SPACE != 0
    }

    pub(super) fn is_reset(self) -> bool {
        self.0 & Class::RESET != 0
    }

    pub(super) fn is_tab(self) -> bool {
        self.0 & Class::TAB != 0
    }

    /// True if it does more to a line's width than add to it.
    pub(super) fn moves(self) -> bool {
        self.0 & (Class::RESET | Class::TAB) != 0
    }
}

/// Characters beyond this are looked up each time.
const LAST: u32 = 0x10_ffff;

/// The classes of a locale's characters.
pub(super) struct Classes {
    locale: Locale,
    /// `POSIXLY_CORRECT` is set: spaces that do not break lines belong to words.
    posix: bool,
    /// By byte, of single-byte character sets, and of ASCII in all.
    bytes: [Class; 256],
    /// By character; zero where not looked up yet. The zeroes take no memory before they are
    /// touched.
    chars: Vec<u8>,
}

impl Classes {
    pub(super) fn new(locale: Locale, posix: bool) -> Classes {
        let mut classes = Classes {
            locale,
            posix,
            bytes: [Class(Class::KNOWN); 256],
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

    pub(super) fn of_byte(&self, byte: u8) -> Class {
        self.bytes[usize::from(byte)]
    }

    pub(super) fn of_char(&mut self, c: u32) -> Class {
        match self.chars.get(c as usize) {
            Some(0) => {
                let class = self.look_up(c);
                self.chars[c as usize] = class.0;
                class
            }
            Some(class) => Class(*class),
            None => self.look_up(c),
        }
    }

    #[cold]
    fn look_up(&self, c: u32) -> Class {
        let shown = self.locale.is_print(c);
        let width = self.locale.width(c).clamp(0, 3) as u8;
        self.class(c, shown.then(|| (width, self.locale.is_space(c))))
    }

    fn look_up_byte(&self, byte: u8) -> Class {
        // A byte that is no character alone is not shown either.
        let c = self.locale.of_byte(byte).unwrap_or(0);
        let shown = self.locale.byte_is_print(byte);
        let space = self.locale.byte_is_space(byte);
        self.class(c, shown.then_some((1, space)))
    }

    /// The class of `c`, which has this width, and parts words, if it is shown.
    fn class(&self, c: u32, shown: Option<(u8, bool)>) -> Class {
        let class = match (char::from_u32(c), shown) {
            (Some('\n' | '\r' | '\x0c'), _) => Class::RESET | Class::SPACE,
            (Some('\t'), _) => Class::TAB | Class::SPACE,
            (Some(' '), _) => 1 | Class::SPACE,
            (Some('\x0b'), _) => Class::SPACE,
            (_, None) => 0,
            (_, Some((width, space))) => {
                let space = space || (!self.posix && is_unbreaking_space(c));
                width | if space { Class::SPACE } else { Class::WORD }
            }
        };
        Class(class | Class::KNOWN)
    }

    /// True if ASCII is as everywhere: what is graphic belongs to words and is one column wide.
    pub(super) fn ascii_is_plain(&self) -> bool {
        (b'!'..=b'~').all(|b| self.of_byte(b) == Class(Class::KNOWN | Class::WORD | 1))
            && b" \t\n\x0b\x0c\r"
                .iter()
                .all(|b| self.of_byte(*b).is_space())
    }
}

/// Spaces that `iswspace` does not count as such, because lines may not be broken there.
fn is_unbreaking_space(c: u32) -> bool {
    matches!(c, 0xa0 | 0x2007 | 0x202f | 0x2060)
}
