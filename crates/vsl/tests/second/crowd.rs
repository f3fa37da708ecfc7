//! Many writers that wait for space at the same time while a device fails.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_rt::Instant;
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceError, SpaceSettings};

use crate::world::{
    ExpectedExtents, OpenSpace, SOON, SpaceTestbed, TestbedShape, content, on_a_volume,
};

const WRITERS: u64 = 32;
const SEGMENTS: u64 = 128;
const SEGMENT: u64 = 128 << 10;
/// Pause of a writer after each write.
const PAUSE: Duration = Duration::from_secs(1);
/// The duration of the fault.
const FAULT: Duration = Duration::from_secs(250);
/// Maximum time by which a write may end later than its patience.
const LATE: Duration = Duration::from_secs(5);

/// Ends of the writes of all writers.
#[derive(Default)]
struct CrowdResults {
    done: u64,
    refused: u64,
    longest: Duration,
}

/// A crowd of writers with separate blocks.
struct WriterCrowd {
    world: SpaceTestbed,
    model: Rc<RefCell<ExpectedExtents>>,
    ends: Rc<RefCell<CrowdResults>>,
}

impl WriterCrowd {
    fn new(world: &SpaceTestbed, model: ExpectedExtents) -> WriterCrowd {
        WriterCrowd {
            world: world.clone(),
            model: Rc::new(RefCell::new(model)),
            ends: Rc::default(),
        }
    }

    /// Lets all writers overwrite blocks until `until`. Returns the ends of their writes.
    async fn write_until(&self, volume: &OpenSpace, until: Instant) -> CrowdResults {
        let writers = (0..WRITERS).map(|writer| {
            let (rt, space) = (self.world.rt.clone(), volume.space.clone());
            let (model, ends) = (Rc::clone(&self.model), Rc::clone(&self.ends));
            self.world.rt.spawn(async move {
                let rng = Rng::new(writer + 1);
                let own = model.borrow().len() / WRITERS;
                while rt.now() < until {
                    let n = rng.below(own) * WRITERS + writer;
                    let (batch, began) = (model.borrow().next(n), rt.now());
                    let applied = space.apply(&batch, Durability::Flush).await;
                    let waited = rt.now().since(began);
                    {
                        let mut ends = ends.borrow_mut();
                        ends.longest = ends.longest.max(waited);
                        match applied {
                            Ok(_) => {
                                model.borrow_mut().written(n);
                                ends.done += 1;
                            }
                            Err(_) => ends.refused += 1,
                        }
                    }
                    rt.sleep(PAUSE).await;
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        for writer in writers {
            writer.await;
        }
        self.ends.take()
    }

    async fn compare(&self, volume: &OpenSpace) {
        let model = self.model.replace(ExpectedExtents::of_blocks(0));
        model.compare(volume).await;
        self.model.replace(model);
    }
}

/// Fills the volume with adjacent blocks until it refuses the next block.
async fn filled(volume: &OpenSpace) -> ExpectedExtents {
    let mut blocks = 0;
    let full = loop {
        let batch = Batch::of_write(Sector(blocks * LINE_SECTORS), content(blocks, 1, 4096));
        match volume.try_apply(&batch, Durability::Flush).await {
            Ok(_) => blocks += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, SpaceError::Full { .. }), "{full}");
    let mut model = ExpectedExtents::of_blocks(blocks);
    (0..blocks).for_each(|n| model.written(n));
    model
}

fn crowded(kind: PlacementKind) {
    let shape = TestbedShape {
        segments: SEGMENTS,
        segment: SEGMENT,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = filled(&volume).await;
        let rng = Rng::new(1);
        for _ in 0..model.len() {
            model
                .write(&volume, rng.below(model.len()), Durability::Flush)
                .await;
        }
        let crowd = WriterCrowd::new(&world, model);
        world.device.reads_fail.set(true);
        let during = crowd.write_until(&volume, world.rt.now().plus(FAULT)).await;
        println!(
            "{kind}: {} done, {} refused, longest {:?}",
            during.done, during.refused, during.longest
        );
        let most = SpaceSettings::default().patience + LATE;
        assert!(during.longest < most, "{kind}: {:?}", during.longest);
        assert!(during.refused > 0, "{kind}: the volume is full");
        world.device.reads_fail.set(false);
        world.rt.sleep(SOON).await;
        let after = crowd
            .write_until(&volume, world.rt.now().plus(10 * PAUSE))
            .await;
        assert_eq!(after.refused, 0, "{kind}");
        assert!(after.done >= 5 * WRITERS, "{kind}: {}", after.done);
        assert!(after.longest < SOON, "{kind}: {:?}", after.longest);
        volume.flush().await;
        volume.audit().await;
        crowd.compare(&volume).await;
        drop(volume);
        crowd
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Found by reading the code: a queued writer that reached the front after its patience had ended still waited for
/// another second. So the last of 32 writers got its error after 81 s instead of 60 s.
#[test]
fn many_writers_on_a_full_volume_continue_after_minutes_of_failed_reads() {
    for kind in PlacementKind::ALL {
        crowded(kind);
    }
}
