//! Headers: cards of 80 characters in blocks of 2880 (FITS standard 4.0, section 4).

use std::io::{self, Read};

/// Bytes in a block of a FITS file.
pub(super) const BLOCK: usize = 2880;
/// Bytes in a card.
const CARD: usize = 80;
/// Maximum length of a header. A file with a longer header is not a FITS file.
const BLOCKS_MAX: usize = 10_000;

/// A line of a header.
pub(super) type HeaderCard = [u8; CARD];

/// The cards of a header, without `END`.
#[derive(Clone, Debug, Default)]
pub(super) struct FitsHeader {
    cards: Vec<HeaderCard>,
}

/// Reasons for a missing header.
#[derive(Debug)]
pub(super) enum FitsHeaderError {
    /// The file ends here.
    End,
    Io(io::Error),
    Wrong(String),
}

/// Makes a card with this text, cut or padded to the length of a card.
fn card(text: &str) -> HeaderCard {
    let mut card = [b' '; CARD];
    for (to, byte) in card.iter_mut().zip(text.bytes()) {
        *to = byte;
    }
    card
}

impl FitsHeader {
    /// Reads a header. `first` is true for the first header of the file.
    pub(super) fn read(from: &mut impl Read, first: bool) -> Result<FitsHeader, FitsHeaderError> {
        let mut header = FitsHeader::default();
        let mut block = [0_u8; BLOCK];
        for number in 0..BLOCKS_MAX {
            let got = fill(from, &mut block).map_err(FitsHeaderError::Io)?;
            if got == 0 && number == 0 {
                return Err(FitsHeaderError::End);
            }
            if number == 0 {
                begins_well(&block[..got], first).map_err(FitsHeaderError::Wrong)?;
            }
            if got < BLOCK {
                let text = "the file ends within a header".to_owned();
                return Err(FitsHeaderError::Wrong(text));
            }
            for card in block.chunks_exact(CARD) {
                if card.trim_ascii_end() == b"END" {
                    return Ok(header);
                }
                let card = HeaderCard::try_from(card).expect("a chunk is a card long");
                header.cards.push(card);
            }
        }
        Err(FitsHeaderError::Wrong("a header has no END".into()))
    }

    /// Returns the length of the header in a file.
    pub(super) fn blocks_bytes(&self) -> u64 {
        let cards = self.cards.len() as u64 + 1;
        (cards * CARD as u64).next_multiple_of(BLOCK as u64)
    }

    /// Returns the bytes of the header in a file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.cards.concat();
        bytes.extend_from_slice(&card("END"));
        bytes.resize(bytes.len().next_multiple_of(BLOCK), b' ');
        bytes
    }

    pub(super) fn cards(&self) -> &[HeaderCard] {
        &self.cards
    }

    fn find(&self, keyword: &str) -> Option<usize> {
        self.cards.iter().position(|card| name(card) == keyword)
    }

    /// Returns the text after the equals sign, without the comment; `None` if the keyword is missing.
    pub(super) fn value(&self, keyword: &str) -> Option<&str> {
        let card = &self.cards[self.find(keyword)?];
        value(card)
    }

    /// Returns the value of a keyword as a whole number.
    pub(super) fn integer(&self, keyword: &str) -> Result<Option<i64>, String> {
        let Some(text) = self.value(keyword) else {
            return Ok(None);
        };
        let wrong = || format!("{keyword} is {text}, which is not a whole number");
        text.parse().map(Some).map_err(|_| wrong())
    }

    /// Returns the value of a keyword as a number.
    pub(super) fn real(&self, keyword: &str) -> Result<Option<f64>, String> {
        let Some(text) = self.value(keyword) else {
            return Ok(None);
        };
        let wrong = || format!("{keyword} is {text}, which is not a number");
        // Exponents may be written with a D, Fortran's letter for double precision.
        let number: f64 = text.replace(['D', 'd'], "E").parse().map_err(|_| wrong())?;
        if number.is_finite() {
            Ok(Some(number))
        } else {
            Err(wrong())
        }
    }

    /// Returns true if the keyword is true.
    pub(super) fn logical(&self, keyword: &str) -> bool {
        self.value(keyword) == Some("T")
    }

    /// Returns the text of a keyword without its quotes.
    pub(super) fn text(&self, keyword: &str) -> Option<String> {
        let value = self.value(keyword)?.strip_prefix('\'')?;
        let value = value.strip_suffix('\'').unwrap_or(value);
        Some(value.replace("''", "'").trim_end().to_owned())
    }

    /// Sets the value of the keyword and keeps its comment. Appends a card if the keyword is missing.
    pub(super) fn set(&mut self, keyword: &str, value: &str) {
        let Some(at) = self.find(keyword) else {
            self.push(keyword, value, "");
            return;
        };
        let comment = comment(&self.cards[at]).to_owned();
        self.cards[at] = written(keyword, value, &comment);
    }

    /// Appends a card.
    pub(super) fn push(&mut self, keyword: &str, value: &str, comment: &str) {
        self.cards.push(written(keyword, value, comment));
    }

    /// Inserts a card at index `at`.
    pub(super) fn insert(&mut self, at: usize, keyword: &str, value: &str, comment: &str) {
        self.cards.insert(at, written(keyword, value, comment));
    }

    /// Appends a `HISTORY` remark.
    pub(super) fn history(&mut self, text: &str) {
        for part in text.as_bytes().chunks(CARD - 8) {
            let part = String::from_utf8_lossy(part);
            self.cards.push(card(&format!("HISTORY {part}")));
        }
    }

    /// Removes all cards whose keyword satisfies `unwanted`.
    pub(super) fn remove(&mut self, unwanted: impl Fn(&str) -> bool) {
        let mut continued = false;
        self.cards.retain(|card| {
            let name = name(card);
            // The continuation of a removed text is removed as well.
            continued = if name == "CONTINUE" {
                continued
            } else {
                unwanted(name)
            };
            !continued
        });
    }
}

/// Reads until `to` is full or the file ends.
pub(super) fn fill(from: &mut impl Read, to: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < to.len() {
        match from.read(&mut to[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn begins_well(block: &[u8], first: bool) -> Result<(), String> {
    if block.starts_with(&[0x1f, 0x8b]) {
        return Err("is compressed by gzip; unpack it first".into());
    }
    let begin: &[u8] = if first { b"SIMPLE  =" } else { b"XTENSION=" };
    if block.starts_with(begin) {
        Ok(())
    } else {
        Err("is not a FITS file: it does not begin with SIMPLE".into())
    }
}

/// Returns the keyword of a card.
pub(super) fn name(card: &HeaderCard) -> &str {
    std::str::from_utf8(&card[..8]).unwrap_or("").trim_end()
}

/// Splits a card into value and comment.
fn split(card: &HeaderCard) -> Option<(&str, &str)> {
    let text = std::str::from_utf8(card).ok()?;
    let text = text[8..].strip_prefix("= ")?;
    let mut quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\'' => quoted = !quoted,
            b'/' if !quoted => return Some((text[..at].trim(), text[at + 1..].trim())),
            _ => {}
        }
    }
    Some((text.trim(), ""))
}

fn value(card: &HeaderCard) -> Option<&str> {
    split(card)
        .map(|(value, _)| value)
        .filter(|v| !v.is_empty())
}

fn comment(card: &HeaderCard) -> &str {
    split(card).map_or("", |(_, comment)| comment)
}

/// Makes a card in the fixed format: numbers and logicals end in column 30.
fn written(keyword: &str, value: &str, comment: &str) -> HeaderCard {
    let value = if value.starts_with('\'') {
        format!("{value:<20}")
    } else {
        format!("{value:>20}")
    };
    let comment = match comment {
        "" => String::new(),
        text => format!(" / {text}"),
    };
    card(&format!("{keyword:<8}= {value}{comment}"))
}

/// Formats a number for FITS.
pub(super) fn real(number: f64) -> String {
    let text = format!("{number:?}").replace('e', "E");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}
