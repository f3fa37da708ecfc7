use std::io;
use std::os::unix::fs::FileExt as _;

use proptest::prelude::*;

use super::block::SearchedFile;
use super::config::{BinaryTreatment, GrepConfig};
use super::output::GrepOutput;
use super::pieces::{LinePiece, PieceSource, search};
use super::regex::{CompiledPatterns, PatternMessages};
use sleds_common::locale::Locale;

/// Pieces in a given order.
struct GivenPieces<'d> {
    data: &'d [u8],
    ranges: std::vec::IntoIter<(usize, usize)>,
}

impl PieceSource for GivenPieces<'_> {
    fn next(&mut self) -> io::Result<Option<LinePiece<'_>>> {
        let next = self.ranges.next();
        Ok(next.map(|(start, end)| LinePiece {
            offset: start as u64,
            skipped: 0,
            data: &self.data[start..end],
        }))
    }
}

/// Cuts whole lines into pieces that end at some of the line ends.
fn pieces(data: &[u8], cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut ends: Vec<usize> = cuts
        .iter()
        .filter(|_| !data.is_empty())
        .filter_map(|cut| {
            let from = cut % data.len();
            let end = data[from..].iter().position(|b| *b == b'\n');
            end.map(|n| from + n + 1)
        })
        .chain([data.len()])
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let starts = [0].into_iter().chain(ends.clone());
    starts
        .zip(ends)
        .filter(|(start, end)| start < end)
        .collect()
}

fn run(config: &GrepConfig, data: &[u8], ranges: Vec<(usize, usize)>) -> (u64, bool, Vec<u8>) {
    let locale = Locale::of_environment();
    let regex = CompiledPatterns::new(config, locale, &mut PatternMessages::default());
    let mut regex = regex.expect("the pattern is right");
    let mut out = GrepOutput::into_memory(config);
    // If the beginning arrives late, the file itself is checked for zero bytes.
    let file = tempfile::tempfile().expect("a file");
    file.write_all_at(data, 0).expect("it takes the data");
    let source = SearchedFile {
        file: Some(&file),
        start: 0,
        length: data.len() as u64,
        name: None,
    };
    let mut given = GivenPieces {
        data,
        ranges: ranges.into_iter(),
    };
    let (outcome, trouble) = search(config, &mut regex, &mut out, &source, &mut given);
    assert!(trouble.is_none());
    // Without `-c`, the output only shows if any line is selected.
    let shown = if config.count {
        outcome.selected
    } else {
        outcome.selected.min(1)
    };
    (shown, outcome.binary_matches, out.gathered())
}

proptest! {
    #[test]
    fn the_order_of_pieces_does_not_affect_the_output(
        lines in prop::collection::vec("[ab]{0,2}", 0..60),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
        order in any::<u64>(),
        (before, after) in (prop::option::of(0u64..4), prop::option::of(0u64..4)),
        most in prop_oneof![Just(u64::MAX), 1u64..6],
        (invert, numbers, offsets, count) in any::<(bool, bool, bool, bool)>(),
        only in any::<bool>(),
        nul in prop::option::of(any::<usize>()),
        binary in prop_oneof![Just(BinaryTreatment::Named), Just(BinaryTreatment::Text), Just(BinaryTreatment::WithoutMatch)],
    ) {
        let mut data = lines.join("\n").into_bytes();
        if let (Some(at), false) = (nul, data.is_empty()) {
            let at = at % data.len();
            data[at] = 0;
        }
        let config = GrepConfig {
            patterns: vec![b"ab\\|^$".to_vec()],
            before,
            after,
            max_count: most,
            invert,
            line_number: numbers,
            byte_offset: offsets,
            count,
            only_matching: only,
            binary,
            ..GrepConfig::new()
        };
        let straight = run(&config, &data, pieces(&data, &[]));
        let mut mixed = pieces(&data, &cuts);
        let mut state = order;
        for at in (1..mixed.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            mixed.swap(at, (state >> 33) as usize % (at + 1));
        }
        prop_assert_eq!(run(&config, &data, mixed), straight);
    }
}
