//! Locations of data: in memory, on the device, or unmapped.

use forebay_device::{BufMut, Device};
use forebay_vsl::{PlacedRange, SectorLocation};

use crate::world::{SECTORS, on_a_space, write};

fn run(from: u64, to: u64, at: SectorLocation) -> PlacedRange {
    PlacedRange {
        sectors: from..to,
        at,
    }
}

#[test]
fn gathered_data_is_in_memory_and_at_its_device_location_once_durable() {
    on_a_space(async |space, device| {
        write(&space, 100, 8, 0xaa).await;
        let places = space.places(0..200, 10).await.expect("told");
        let expected = [
            run(0, 100, SectorLocation::Nowhere),
            run(100, 108, SectorLocation::Memory),
            run(108, 200, SectorLocation::Nowhere),
        ];
        assert_eq!(places, expected);
        assert_eq!(space.places_now(0..200), expected);
        // The open segment stays in memory until it is full: fill it and the next segments.
        for n in 0..64 {
            write(&space, 1 << 20, 64, n).await;
        }
        space.flush().await.expect("flushed");
        space.checkpoint().await.expect("kept");
        let places = space.places(0..200, 10).await.expect("told");
        let [_, PlacedRange { sectors, at }, _] = &places[..] else {
            panic!("{places:?}");
        };
        let &SectorLocation::Medium(at) = at else {
            panic!("{places:?}");
        };
        assert_eq!(*sectors, 100..108);
        let read = device
            .read(at, BufMut::zeroed(8 * 512))
            .await
            .expect("read");
        assert_eq!(read[..], [0xaa; 8 * 512]);
        // No node of the map is kept in memory, and none is read.
        assert_eq!(space.places_now(0..200), []);
    });
}

#[test]
fn a_placement_query_with_too_many_extents_is_answered_in_parts() {
    on_a_space(async |space, _| {
        for n in 0..50 {
            write(&space, n * 16, 8, 1).await;
        }
        let all = space.places(0..SECTORS, 1000).await.expect("told");
        assert_eq!(all.len(), 100, "{all:?}");
        assert_eq!(all.last().map(|run| run.sectors.end), Some(SECTORS));
        let (mut at, mut parts) = (0, Vec::new());
        while at < SECTORS {
            let some = space.places(at..SECTORS, 7).await.expect("told");
            assert!((1..=7).contains(&some.len()));
            assert_eq!(some[0].sectors.start, at);
            at = some[some.len() - 1].sectors.end;
            parts.extend(some);
        }
        assert_eq!(parts, all);
    });
}
