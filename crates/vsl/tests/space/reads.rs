//! Reads of data from many places as one range, into memory of the caller.

use forebay_device::{BufMut, BufPool, Durability};
use forebay_rng::Rng;
use forebay_units::{SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, Space};

use crate::world::{on_a_space, write};

/// Range of sectors that are written and read: four segments' worth.
const FIRST: u64 = 10_000;
const USED: u64 = 2048;
/// Old contents of the memory for reads.
const DIRT: u8 = 0xee;

/// Returns memory for `sectors` sectors, `behind` sectors behind an aligned address, with old contents.
fn memory(sectors: u64, behind: u64) -> BufMut {
    let bytes = |sectors: u64| (sectors * SECTOR_BYTES) as usize;
    let mut whole = BufPool::new(bytes(behind + sectors)).take();
    whole.fill(DIRT);
    drop(whole.split_to(bytes(behind)));
    whole
}

async fn compare(space: &Space, model: &[u8], from: u64, to: u64, behind: u64) {
    let buf = memory(to - from, behind);
    let at = buf.as_ptr();
    let read = space.read(Sector(FIRST + from), buf).await.expect("read");
    for (sector, held) in (from..to).zip(read.chunks(SECTOR_BYTES as usize)) {
        let expected = model[sector as usize];
        assert!(
            held.iter().all(|byte| *byte == expected),
            "{sector} of {from}..{to}, {behind}"
        );
    }
    assert_eq!(read.as_ptr(), at, "the memory is given back");
}

#[test]
fn a_range_of_many_fragments_reads_back_as_written_with_any_buffer_content() {
    on_a_space(async |space, _| {
        let rng = Rng::new(11);
        let mut model = vec![0; USED as usize];
        for number in 0..400 {
            let most = if rng.coin() { 8 } else { 200 };
            let from = rng.below(USED - most);
            let sectors = 1 + rng.below(most);
            let run = from as usize..(from + sectors) as usize;
            let with = if rng.one_in(5) {
                let mut batch = Batch::new();
                batch.trim(Sector(FIRST + from), sectors);
                let done = space.apply(&batch, Durability::Flush).await;
                done.expect("trimmed");
                0
            } else {
                let with = 1 + (number % 200) as u8;
                write(&space, FIRST + from, sectors, with).await;
                with
            };
            model[run].fill(with);
            let from = rng.below(USED);
            let to = from + 1 + rng.below(USED - from);
            compare(&space, &model, from, to, rng.below(9)).await;
        }
        compare(&space, &model, 0, USED, 0).await;
        space.flush().await.expect("flushed");
        compare(&space, &model, 0, USED, 0).await;
    });
}
