use forebay_rng::Rng;

use super::*;

const MIB: u64 = 1 << 20;

fn usage(words: u64, sectors: u64, full: u64) -> StampUsage {
    StampUsage {
        words,
        sectors,
        full,
    }
}

fn stamped(len: usize, word: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(&mut bytes, word);
    bytes
}

fn peek(store: &StampStore, at: u64, len: usize) -> Vec<u8> {
    let mut out = vec![0xee; len];
    store.peek(at, &mut out);
    out
}

#[test]
fn a_stamp_store_reads_back_as_an_array_of_bytes() {
    // Across the border of two regions, whose chunks are looked up separately.
    let base = 1024 * MIB - 128 * 4096;
    for seed in 0..40 {
        let rng = Rng::new(seed);
        let store = StampStore::new(2048 * MIB, 512);
        let mut model = vec![0; 256 * 4096];
        for _ in 0..80 {
            let at = rng.below(model.len() as u64 / 512 - 1) as usize * 512;
            let len = match rng.below(3) {
                0 => 512 * (1 + rng.below(7) as usize),
                1 => 4096 * (1 + rng.below(100) as usize),
                _ => 512 * (1 + rng.below(100) as usize),
            };
            let at = if rng.coin() { at } else { at / 4096 * 4096 };
            let range = at..(at + len).min(model.len());
            let data = match rng.below(5) {
                0 => stamped(range.len(), rng.next()),
                1 => rng.bytes(range.len()),
                2 => vec![0; range.len()],
                3 => (0..range.len() / 512)
                    .flat_map(|_| stamped(512, rng.below(2)))
                    .collect(),
                _ => {
                    store.zero(base + range.start as u64..base + range.end as u64);
                    model[range].fill(0);
                    continue;
                }
            };
            store.poke(base + range.start as u64, &data);
            model[range].copy_from_slice(&data);
        }
        assert_eq!(peek(&store, base, model.len()), model, "seed {seed}");
        let kinds = model.chunks_exact(4096).map(|block| {
            let sector_words = block.chunks_exact(512).all(|s| word_of(s).is_some());
            match word_of(block) {
                Some(word) => usage(u64::from(word != 0), 0, 0),
                None => usage(0, u64::from(sector_words), u64::from(!sector_words)),
            }
        });
        let expected = kinds.fold(usage(0, 0, 0), |a, b| {
            usage(a.words + b.words, a.sectors + b.sectors, a.full + b.full)
        });
        assert_eq!(store.usage(), expected, "seed {seed}");
        store.zero(0..2048 * MIB);
        assert_eq!(store.usage(), usage(0, 0, 0));
        assert!(store.state.borrow().regions.is_empty());
    }
}

#[test]
fn a_block_of_a_single_repeated_word_is_stored_as_a_stamp_and_can_get_any_other_content() {
    let store = StampStore::new(1 << 50, 4096);
    let at = 1 << 49;
    store.poke(at, &stamped(4096, 7));
    assert_eq!(store.usage(), usage(1, 0, 0));
    let two = [stamped(512, 7), stamped(3584, 8)].concat();
    store.poke(at, &two);
    assert_eq!(store.usage(), usage(0, 1, 0));
    assert_eq!(peek(&store, at, 4096), two);
    let mut odd = two.clone();
    odd[4095] = 0xff;
    store.poke(at, &odd);
    assert_eq!(store.usage(), usage(0, 0, 1));
    assert_eq!(peek(&store, at, 4096), odd);
    store.poke(at, &[0; 4096]);
    assert_eq!(store.usage(), usage(0, 0, 0));
}

#[test]
fn zeroing_a_part_of_a_block_keeps_the_rest() {
    let store = StampStore::new(MIB, 512);
    store.poke(0, &stamped(3 * 4096, 9));
    store.zero(512..4096 + 1024);
    let mut expected = stamped(3 * 4096, 9);
    expected[512..4096 + 1024].fill(0);
    assert_eq!(peek(&store, 0, 3 * 4096), expected);
    assert_eq!(store.usage(), usage(1, 2, 0));
}

#[test]
fn a_chunk_of_stamps_takes_nine_bytes_per_block() {
    let bytes = size_of::<StampChunk>() + size_of::<Option<Box<StampChunk>>>();
    assert!(bytes as u64 <= 9 * CHUNK_BLOCKS, "{bytes}");
}
