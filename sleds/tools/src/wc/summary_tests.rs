//! Any cuts in any order give the counts of a sequential scan.

use proptest::prelude::*;

use super::classes::LocaleClasses;
use super::count::CountedRanges;
use super::scan::{CharTally, RequiredCounts, SummaryScanner};
use super::summary::{BodyCounts, LONGEST, RangeSummary};
use sleds_common::locale::{Charset, Locale};

const ALL: RequiredCounts = RequiredCounts {
    words: true,
    chars: true,
    width: true,
};

/// Counts one character after the other, in the simplest way.
fn in_sequence(bytes: &[u8], utf8: bool) -> BodyCounts {
    let mut classes = classes();
    let mut tally = CharTally::default();
    if !utf8 {
        for byte in bytes {
            tally.char::<true>(u32::from(*byte), classes.of_byte(*byte));
        }
    }
    let mut rest = bytes;
    while utf8 && !rest.is_empty() {
        let first = |n| std::str::from_utf8(rest.get(..n)?).ok()?.chars().next();
        match (1..=LONGEST).find_map(first) {
            Some(c) => {
                tally.char::<true>(c.into(), classes.of_char(c.into()));
                rest = &rest[c.len_utf8()..];
            }
            // No character begins here.
            None => rest = &rest[1..],
        }
    }
    tally.done()
}

fn classes() -> LocaleClasses {
    LocaleClasses::new(Locale::of_environment(), false)
}

fn scanner(utf8: bool, wanted: RequiredCounts) -> SummaryScanner {
    let charset = if utf8 {
        Charset::Utf8
    } else {
        Charset::SingleByte
    };
    SummaryScanner::new(classes(), charset, wanted)
}

/// Returns the figures that `wc` prints for `counts`.
fn figures(counts: BodyCounts) -> (u64, u64, u64, u64) {
    let line = counts.line.longest();
    (counts.lines, counts.words.count, counts.chars, line)
}

/// Generates bytes that are often parts of characters, ends of lines and tabs.
fn bytes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(&b"ab \n\t\r\x0b\x0c\0\x1b"[..]).prop_map(|b| vec![b]),
        2 => any::<u8>().prop_map(|b| vec![b]),
        3 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
        2 => prop::sample::select(&["é", "世", "😀", "\u{a0}", "\u{2028}", "\u{301}"][..])
            .prop_map(|s| s.as_bytes().to_vec()),
        1 => prop::sample::select(&[0x80u8, 0xbf, 0xc3, 0xe2, 0xed, 0xf0, 0xf8, 0xfc, 0xff][..])
            .prop_map(|b| vec![b]),
        1 => (0usize..300).prop_map(|n| vec![b'x'; n]),
        1 => Just(b"\xf4\x8f\xbf\xbf".to_vec()),
    ];
    prop::collection::vec(piece, 0..longest).prop_map(|v| v.concat())
}

/// Generates positions of cuts, as shares of the whole, and the order of the pieces.
fn cuts() -> impl Strategy<Value = Vec<(prop::sample::Index, u32)>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 0..12)
}

/// Returns the pieces of `bytes`, each with its offset, in the order of their processing.
fn pieces<'b>(bytes: &'b [u8], cuts: &[(prop::sample::Index, u32)]) -> Vec<(u32, usize, &'b [u8])> {
    let mut at: Vec<(usize, u32)> = cuts
        .iter()
        .map(|(index, order)| (index.index(bytes.len() + 1), *order))
        .collect();
    at.push((bytes.len(), 0));
    at.sort_unstable();
    let mut from = 0;
    let mut pieces = Vec::new();
    for (to, order) in at {
        if to > from {
            pieces.push((order, from, &bytes[from..to]));
            from = to;
        }
    }
    pieces.sort_unstable();
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn pieces_in_any_order_have_the_counts_of_the_whole(
        bytes in bytes(120), cuts in cuts(), utf8 in any::<bool>(), width in any::<bool>(),
    ) {
        let wanted = RequiredCounts { width, ..ALL };
        let mut scanner = scanner(utf8, wanted);
        let mut parts = CountedRanges::default();
        for (_, at, piece) in pieces(&bytes, &cuts) {
            let summary = scanner.summary(piece);
            parts.add(at as u64, piece.len(), summary, &mut scanner);
        }
        let got = figures(parts.whole(&mut scanner));
        let (lines, words, chars, longest) = figures(in_sequence(&bytes, utf8));
        let expected = (lines, words, chars, if width { longest } else { 0 });
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn joining_is_associative_with_the_empty_summary_as_identity(
        a in bytes(12), b in bytes(12), c in bytes(12), utf8 in any::<bool>(),
    ) {
        let mut s = scanner(utf8, ALL);
        let (x, y, z) = (s.summary(&a), s.summary(&b), s.summary(&c));
        let (xy, yz) = (s.join(x, y), s.join(y, z));
        prop_assert_eq!(s.join(xy, z), s.join(x, yz));
        prop_assert_eq!(s.join(x, RangeSummary::default()), x);
        prop_assert_eq!(s.join(RangeSummary::default(), x), x);
    }
}

#[test]
fn a_character_of_any_length_may_be_cut_anywhere() {
    assert_eq!("😀".len(), LONGEST);
    let mut scanner = scanner(true, ALL);
    for text in ["w", "é", "世", "😀"] {
        let whole = ["a ", text, text, "b"].concat().into_bytes();
        let expected = figures(in_sequence(&whole, true));
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let parts = [&whole[..first], &whole[first..second], &whole[second..]];
                let [x, y, z] = parts.map(|part| scanner.summary(part));
                let yz = scanner.join(y, z);
                let got = scanner.join(x, yz).body;
                assert_eq!(
                    figures(got),
                    expected,
                    "{text:?} cut at {first} and {second}"
                );
            }
        }
    }
}
