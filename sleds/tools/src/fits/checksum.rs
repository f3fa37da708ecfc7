//! `DATASUM` and `CHECKSUM` (FITS standard 4.0, appendix J).

use super::header::FitsHeader;

/// The ones' complement sum of 32-bit words, most significant byte first.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FitsChecksum(u64);

impl FitsChecksum {
    /// Adds bytes. The length must be a multiple of four, except in the last call.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(4);
        for word in &mut words {
            self.0 += u64::from(u32::from_be_bytes(word.try_into().expect("four bytes")));
            // Folded after each word, so that no length overflows.
            self.0 = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        }
        let mut last = [0; 4];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        self.0 += u64::from(u32::from_be_bytes(last));
        self.0 = (self.0 & 0xffff_ffff) + (self.0 >> 32);
    }

    pub(super) fn value(self) -> u32 {
        self.0 as u32
    }
}

/// Returns sixteen letters and digits whose words add up to the complement of `sum`, so that the whole HDU adds up to
/// zero.
fn encode(sum: u32) -> String {
    let bytes = (!sum).to_be_bytes();
    let mut text = [0_u8; 16];
    for (at, byte) in bytes.iter().enumerate() {
        let mut quarters = [byte / 4 + b'0'; 4];
        quarters[0] += byte % 4;
        // Moves pairs apart to avoid punctuation.
        while quarters
            .iter()
            .any(|q| (0x3a..=0x40).contains(q) || (0x5b..=0x60).contains(q))
        {
            for pair in quarters.chunks_exact_mut(2) {
                let bad = |q: &u8| (0x3a..=0x40).contains(q) || (0x5b..=0x60).contains(q);
                if pair.iter().any(bad) {
                    pair[0] += 1;
                    pair[1] -= 1;
                }
            }
        }
        for (part, quarter) in quarters.iter().enumerate() {
            text[part * 4 + at] = *quarter;
        }
    }
    text.rotate_right(1);
    String::from_utf8_lossy(&text).into_owned()
}

/// Puts both sums into a header. `data` is the sum of its data.
pub(super) fn put(header: &mut FitsHeader, data: FitsChecksum) {
    header.set("DATASUM", &format!("'{}'", data.value()));
    header.set("CHECKSUM", "'0000000000000000'");
    let mut all = data;
    all.add(&header.to_bytes());
    header.set("CHECKSUM", &format!("'{}'", encode(all.value())));
}
