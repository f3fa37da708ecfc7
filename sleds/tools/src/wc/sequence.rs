//! Counts from the first byte to the last, for character sets in which only a sequential scan finds the beginnings of
//! characters (EUC, Shift JIS, GBK and similar sets). The C library decodes.

use crate::wc::classes::LocaleClasses;
use crate::wc::scan::CharTally;
use crate::wc::summary::BodyCounts;
use sleds_common::locale::{ConversionState, DecodedChar, Locale};

/// Maximum length of a byte sequence that is kept as an unfinished character. A longer sequence is taken for an invalid
/// shift sequence, and its first byte is dropped.
const LONGEST: usize = 16 << 10;

/// Counts bytes that arrive in sequence.
pub(super) struct SequenceCounter {
    locale: Locale,
    classes: LocaleClasses,
    state: ConversionState,
    /// Bytes of an unfinished character.
    kept: Vec<u8>,
    tally: CharTally,
}

impl SequenceCounter {
    pub(super) fn new(locale: Locale, classes: LocaleClasses) -> SequenceCounter {
        SequenceCounter {
            locale,
            classes,
            state: ConversionState::default(),
            kept: Vec::new(),
            tally: CharTally::default(),
        }
    }

    /// Counts `bytes`, which follow the bytes of the last call.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        if self.kept.is_empty() {
            let used = self.decode(bytes);
            self.kept.extend_from_slice(&bytes[used..]);
        } else {
            let mut kept = std::mem::take(&mut self.kept);
            kept.extend_from_slice(bytes);
            let used = self.decode(&kept);
            kept.drain(..used);
            self.kept = kept;
        }
    }

    /// Returns the number of counted bytes; the rest is an unfinished character.
    fn decode(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            if is_basic(byte) && !self.state.is_shifted() {
                // The class of the byte, not of the ASCII character: in Shift JIS, 5c is a yen sign.
                self.tally
                    .char::<true>(u32::from(byte), self.classes.of_byte(byte));
                at += 1;
                continue;
            }
            let before = self.state;
            match self.locale.decode_from(&bytes[at..], &mut self.state) {
                DecodedChar::Char(c, length) => {
                    self.tally.char::<true>(c, self.classes.of_char(c));
                    at += length;
                }
                DecodedChar::Invalid => {
                    self.state = before;
                    at += 1;
                }
                DecodedChar::Incomplete => {
                    self.state = before;
                    if bytes.len() - at < LONGEST {
                        break;
                    }
                    at += 1;
                }
            }
        }
        at
    }

    /// Returns the counts at the end of the file.
    pub(super) fn done(self) -> BodyCounts {
        self.tally.done()
    }
}

/// Returns true for C's basic characters, which are single bytes in every character set.
fn is_basic(byte: u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | b' '..=b'#' | b'%'..=b'?' | b'A'..=b'_' | b'a'..=b'~')
}
