//! A small mutation engine: makes nearly valid bytes from a corpus and a seed.

use forebay_rng::Rng;

/// Returns a number below `n`; 0 if `n` is 0.
fn below(rng: &Rng, n: usize) -> usize {
    match n {
        0 => 0,
        n => rng.below(n as u64) as usize,
    }
}

/// Numbers at which decoders often fail.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    7,
    8,
    127,
    128,
    255,
    256,
    511,
    512,
    4095,
    4096,
    1 << 15,
    1 << 16,
    1 << 31,
    1 << 32,
    1 << 47,
    1 << 60,
    u64::MAX,
];

/// Maximum length of an input.
const BYTES_MAX: usize = 64 << 10;

/// Returns one input: an entry of the corpus, or parts of two entries, changed in a few places.
pub fn mutated(rng: &Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let entry = |rng: &Rng| {
        corpus
            .get(below(rng, corpus.len()))
            .cloned()
            .unwrap_or_default()
    };
    let mut bytes = entry(rng);
    if below(rng, 6) == 0 {
        let other = entry(rng);
        splice(rng, &mut bytes, &other);
    }
    for _ in 0..=below(rng, 6) {
        change(rng, &mut bytes);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

/// Joins the front of `bytes` and the back of `other`.
fn splice(rng: &Rng, bytes: &mut Vec<u8>, other: &[u8]) {
    bytes.truncate(below(rng, bytes.len() + 1));
    bytes.extend_from_slice(&other[below(rng, other.len() + 1)..]);
}

/// Makes one change. Most changes are near the front, where headers and lengths are.
fn change(rng: &Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        bytes.extend((0..1 + below(rng, 32)).map(|_| 0));
    }
    let near = if below(rng, 2) == 0 {
        bytes.len().min(160)
    } else {
        bytes.len()
    };
    let at = below(rng, near);
    match below(rng, 10) {
        0 | 1 => bytes[at] ^= 1 << below(rng, 8),
        2 => bytes[at] = rng.next() as u8,
        3..=5 => set_number(rng, bytes, at),
        6 => bytes.truncate(at),
        7 => {
            let end = at + below(rng, bytes.len() - at + 1).min(64);
            bytes.drain(at..end);
        }
        8 => {
            let end = at + below(rng, bytes.len() - at + 1).min(256);
            let again = bytes[at..end].to_vec();
            let to = below(rng, bytes.len() + 1);
            bytes.splice(to..to, again);
        }
        _ => {
            let more: Vec<u8> = (0..1 + below(rng, 16)).map(|_| rng.next() as u8).collect();
            bytes.splice(at..at, more);
        }
    }
}

/// Sets a field of 1, 2, 4 or 8 bytes, of either byte order, to an edge, its neighbour, the input's length, or slightly
/// more or less than the old value.
fn set_number(rng: &Rng, bytes: &mut [u8], at: usize) {
    let width = (1 << below(rng, 4)).min(bytes.len() - at);
    let field = &mut bytes[at..at + width];
    let little = below(rng, 2) == 0;
    let mut wide = [0; 8];
    wide[..width].copy_from_slice(field);
    if !little {
        wide[..width].reverse();
    }
    let old = u64::from_le_bytes(wide);
    let near = (below(rng, 33) as u64).wrapping_sub(16);
    let new = match below(rng, 4) {
        0 => old.wrapping_add(near),
        1 => EDGES[below(rng, EDGES.len())].wrapping_add(near / 8),
        2 => (bytes.len() as u64).wrapping_add(near),
        _ => EDGES[below(rng, EDGES.len())],
    };
    let mut wide = new.to_le_bytes();
    if !little {
        wide[..width].reverse();
    }
    bytes[at..at + width].copy_from_slice(&wide[..width]);
}
