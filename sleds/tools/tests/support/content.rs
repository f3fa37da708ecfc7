//! Generates files for the tools: text, and content of every other kind.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;

use forebay_rng::Rng;

/// Characters with special treatment in programs: blanks of all kinds, wide characters, characters without width,
/// unprintable characters, and characters of every length.
const CHARS: &[char] = &[
    'a',
    'B',
    'z',
    '0',
    '-',
    ' ',
    '\t',
    '\n',
    '\r',
    '\u{b}',
    '\u{c}',
    '\0',
    '\u{7f}',
    '\u{1b}',
    '\u{80}',
    '\u{85}',
    '\u{a0}',
    '\u{ad}',
    'é',
    'ß',
    'Ω',
    'ж',
    'ı',
    'İ',
    'ſ',
    '\u{301}',
    '\u{5d0}',
    '\u{e33}',
    '\u{1680}',
    '\u{2003}',
    '\u{2007}',
    '\u{200b}',
    '\u{200d}',
    '\u{2028}',
    '\u{202f}',
    '\u{2060}',
    '\u{20ac}',
    '\u{212a}',
    '\u{3000}',
    '世',
    '界',
    '\u{ac00}',
    '\u{d7ff}',
    '\u{e000}',
    '\u{feff}',
    '\u{ff21}',
    '\u{ffff}',
    '\u{10000}',
    '\u{1d400}',
    '😀',
    '\u{20000}',
    '\u{e0001}',
    '\u{10fffd}',
    '\u{10ffff}',
];

/// Bytes at which decoders fail.
const BYTES: &[u8] = &[
    b'a', b'b', b' ', b'\n', b'\n', b'\t', b'\r', 0x0b, 0x0c, 0, 0x1b, 0x7f, 0x80, 0x8f, 0x90,
    0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xc3, 0xdf, 0xe0, 0xe2, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xf7,
    0xf8, 0xfb, 0xfc, 0xfd, 0xfe, 0xff,
];

/// Sizes at whose multiples programs cut files.
const CUTS: &[u64] = &[4096, 16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10];

/// Returns a size: mostly small, sometimes larger than one read.
fn size(rng: &Rng) -> usize {
    let most: u64 = rng.pick(&[8, 64, 300, 300, 5000, 5000, 40_000, 300_000]);
    rng.below(most + 1) as usize
}

/// Returns random content for a file.
pub(crate) fn any(rng: &Rng) -> Vec<u8> {
    let n = size(rng);
    match rng.below(12) {
        0 => Vec::new(),
        1 => text(rng, n, b"\n"),
        2 => text(rng, n, b"\r\n"),
        3 | 4 => chars(rng, n),
        5 => (0..n).map(|_| rng.next() as u8).collect(),
        6 | 7 => (0..n).map(|_| rng.pick(BYTES)).collect(),
        8 => runs(rng, n),
        9 => {
            let text = chars(rng, n);
            damaged(rng, text)
        }
        10 => across_a_cut(rng),
        _ => sentences(rng, n),
    }
}

/// Returns lines of ASCII words, often without a final newline.
pub(crate) fn text(rng: &Rng, n: usize, end: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < n {
        for _ in 0..1 + rng.below(9) {
            out.push(b'a' + rng.below(26) as u8);
        }
        match rng.below(8) {
            0 => out.extend_from_slice(end),
            1 if rng.one_in(4) => out.extend_from_slice(&[end, end].concat()),
            _ => out.push(b' '),
        }
    }
    if rng.one_in(2) {
        out.extend_from_slice(end);
    }
    out
}

/// Returns odd characters in any order.
pub(crate) fn chars(rng: &Rng, n: usize) -> Vec<u8> {
    let some: Vec<char> = (0..2 + rng.below(12)).map(|_| rng.pick(CHARS)).collect();
    let from = if rng.one_in(2) { CHARS } else { &some };
    let mut out = String::new();
    while out.len() < n {
        let c = if rng.one_in(10) {
            char::from_u32(rng.below(0x11_0000) as u32).unwrap_or('\u{fffd}')
        } else {
            rng.pick(from)
        };
        out.push(c);
    }
    out.into_bytes()
}

/// Returns natural text in several scripts.
pub(crate) fn sentences(rng: &Rng, n: usize) -> Vec<u8> {
    let words = [
        "the",
        "forebay",
        "naïve",
        "Straße",
        "слово",
        "λόγος",
        "水力",
        "発電所",
        "שלום",
        "한국어",
        "ok😀",
        "e\u{301}t\u{e9}",
    ];
    let mut out = String::new();
    while out.len() < n {
        out.push_str(rng.pick::<&str>(&words));
        out.push_str(
            rng.pick::<&str>(&[" ", " ", " ", " ", "\n", ", ", "\u{a0}", "\t", "\u{3000}"]),
        );
    }
    out.into_bytes()
}

/// Returns long runs of one byte: huge lines, many empty lines, NULs.
fn runs(rng: &Rng, n: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < n {
        let longest = n.max(2) as u64;
        let run = 1 + rng.below(longest) as usize;
        out.extend(std::iter::repeat_n(rng.pick(BYTES), run.min(n - out.len())));
    }
    out
}

/// Returns `bytes` with some of them changed, removed or inserted.
pub(crate) fn damaged(rng: &Rng, mut bytes: Vec<u8>) -> Vec<u8> {
    for _ in 0..1 + rng.below(20) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len() as u64) as usize;
        match rng.below(4) {
            0 => bytes[at] = rng.next() as u8,
            1 => {
                bytes.remove(at);
            }
            2 => bytes.insert(at, rng.pick(BYTES)),
            _ => bytes.truncate(bytes.len() - (bytes.len() - at).min(4)),
        }
    }
    bytes
}

/// Returns odd content across a place where files are cut.
fn across_a_cut(rng: &Rng) -> Vec<u8> {
    let cut = rng.pick(CUTS) as usize * (1 + rng.below(2) as usize);
    let middle = match rng.below(3) {
        0 => (0..8).map(|_| rng.pick(BYTES)).collect(),
        1 => "w😀世 \u{a0}é".as_bytes().to_vec(),
        _ => chars(rng, 12),
    };
    let before = cut - rng.below(middle.len() as u64 + 1) as usize;
    let filler = rng.pick(&[b'x', b' ', b'\n', b'\t', 0, 0x80]);
    let mut out = vec![filler; before];
    out.extend_from_slice(&middle);
    let more = rng.below(100) as usize;
    out.extend_from_slice(&text(rng, more, b"\n"));
    out
}

/// Writes `bytes` to `path`, occasionally with holes around them.
pub(crate) fn write(path: &Path, bytes: &[u8], rng: &Rng) {
    let holes = rng.one_in(12);
    write_with(path, bytes, holes, rng);
}

/// Writes `bytes` to `path`, with holes around them if requested.
pub(crate) fn write_with(path: &Path, bytes: &[u8], holes: bool, rng: &Rng) {
    let mut file = File::create(path).expect("a file");
    if holes {
        let hole = 4096 * rng.below(60);
        file.seek(SeekFrom::Start(hole)).expect("seek");
        file.write_all(bytes).expect("write");
        file.set_len(hole + bytes.len() as u64 + rng.below(100_000))
            .expect("truncate");
    } else {
        file.write_all(bytes).expect("write");
    }
}
