//! A block that is written in place slowly, while the log goes around.

use std::time::Duration;

use forebay_device::{Durability, Op};
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, Kind, Options};

use crate::world::{Model, SOON, Shape, Volume, content, on_a_volume};

const SEGMENT: u64 = 128 << 10;
const SEGMENTS: u64 = 40;
const BLOCK: u64 = 5;
/// Blocks from here on are written once each, to fill segments, and trimmed.
const FILLER: u64 = 1000;

/// Writes blocks that push what was written before them out of memory.
async fn fill(volume: &Volume, next: &mut u64, blocks: u64) {
    for _ in 0..blocks {
        let at = Sector(*next * LINE_SECTORS);
        volume
            .apply(&Batch::of_write(at, content(*next, 9, 4096)))
            .await;
        *next += 1;
    }
}

/// Found by a hostile review: the write in place was confirmed by comparing places of the device only, and the
/// newest version lay where the one that was written in place had been copied from.
#[test]
fn a_slow_write_in_place_does_not_replace_a_newer_version_at_the_place_of_its_copy() {
    let shape = Shape {
        segments: SEGMENTS,
        segment: SEGMENT,
        kind: Kind::Overwrite,
    };
    on_a_volume(shape, async |world| {
        let volume = world.open(Options::default()).await;
        let mut model = Model::of_blocks(100);
        for n in 0..100 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.flush().await;
        world.rt.sleep(Duration::from_secs(3)).await;
        let (at, faults) = (BLOCK * LINE_SECTORS, &world.device);
        let home = volume.place(at).await.expect("it is on the device");
        faults.held.set(Some((Op::Write, home)));
        let mut next = FILLER;
        fill(&volume, &mut next, 40).await;
        model.write(&volume, BLOCK, Durability::Flush).await;
        volume.flush().await;
        world.rt.sleep(SOON).await;
        assert_eq!(
            faults.holding.get(),
            1,
            "the block is being written in place"
        );
        let mut copy = volume.place(at).await;
        while copy.is_none() {
            fill(&volume, &mut next, 30).await;
            volume.flush().await;
            copy = volume.place(at).await;
        }
        let copy = copy.expect("it is on the device");
        // The log goes around until the newest version lies on the device where that copy lay.
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 6000, "the log does not come to this place again");
            model.write(&volume, BLOCK, Durability::Flush).await;
            fill(&volume, &mut next, 28 + rounds % 3).await;
            volume
                .trim(FILLER * LINE_SECTORS, (next - FILLER) * LINE_SECTORS)
                .await;
            volume.flush().await;
            if rounds % 8 == 0 {
                volume.checkpoint().await;
            }
            if volume.place(at).await == Some(copy) {
                break;
            }
        }
        println!("at the same place after {rounds} rounds");
        assert_eq!(
            faults.holding.get(),
            1,
            "the block is still being written in place"
        );
        volume.flush().await;
        faults.held.set(None);
        world.rt.sleep(SOON).await;
        model.compare(&volume).await;
        volume.audit().await;
        volume.flush().await;
        drop(volume);
        model.compare(&world.open(Options::default()).await).await;
    });
}
