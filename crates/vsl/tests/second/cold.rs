//! Most of a full volume is cold, with a little garbage among it, and the rest is overwritten for ever.

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_units::LINE_BYTES;
use forebay_vsl::{Kind, Options};

use crate::world::{Model, Shape, on_a_volume};

/// One in so many cold blocks is overwritten once.
const EVERY: u64 = 250;

/// Uses `fill` % of a volume of the usual length, and overwrites `hot` % of that `times` times. Returns the bytes
/// written to the device for each byte of clients.
fn overwritten(kind: Kind, fill: u64, hot: u64, times: u64, how: Durability) -> f64 {
    let shape = Shape {
        segments: 128,
        segment: 256 << 10,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(Options::default()).await;
        let mut model = Model::of_blocks(volume.usual_length() * fill / 100 / LINE_BYTES);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        let cold = model.len() * (100 - hot) / 100;
        for n in (0..cold).step_by(EVERY as usize) {
            model.write(&volume, n, Durability::Flush).await;
        }
        let rng = Rng::new(2);
        let before = (volume.space.stats(), volume.space.log_stats());
        for _ in 0..times * (model.len() - cold) {
            model
                .write(&volume, cold + rng.below(model.len() - cold), how)
                .await;
        }
        let after = (volume.space.stats(), volume.space.log_stats());
        let written = after.1.bytes_written - before.1.bytes_written;
        let written = written as f64 / (after.0.bytes_written - before.0.bytes_written) as f64;
        println!("{kind}, {fill} % full, {hot} % hot: {written:.2} written for each byte");
        volume.flush().await;
        volume.audit().await;
        drop(volume);
        model.compare(&world.open(Options::default()).await).await;
        written
    })
}

/// Found by a hostile review: the cleaner had no segment worth cleaning, and checkpoints were made for ever.
#[test]
fn writers_go_on_where_all_but_a_tenth_of_a_volume_is_cold() {
    for kind in Kind::ALL {
        for fill in [90, 98] {
            let written = overwritten(kind, fill, 10, 10, Durability::Flush);
            assert!(written < 30.0, "{kind}, {fill} %: {written}");
        }
    }
}

/// Found by a hostile review: with durable writes the records' headers took the room that the cleaner made.
#[test]
fn durable_writes_go_on_where_a_full_volume_is_cold() {
    for kind in Kind::ALL {
        overwritten(kind, 98, 5, 8, Durability::Fua);
    }
}
