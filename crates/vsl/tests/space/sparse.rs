//! The space is sparse, with the full 64-bit range of sectors.

use std::rc::Rc;

use forebay_device::{BufMut, Durability};
use forebay_units::{SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, SpaceSettings, open};

use crate::world::on_a_new_device;

const SECTORS: u64 = 1 << 63;

#[test]
fn data_at_the_far_end_of_the_space_is_read_trimmed_and_recovered() {
    let at = [
        0,
        5,
        1 << 28,
        (1 << 35) + 3,
        1 << 62,
        SECTORS - 8,
        SECTORS - 1,
    ];
    on_a_new_device(SECTORS, async move |rt, device| {
        let opened = open(
            rt.clone(),
            Rc::clone(&device),
            SpaceSettings::default(),
            false,
        )
        .await;
        let (space, workers, _) = opened.expect("taken up");
        let mut batch = Batch::new();
        for (n, sector) in (1u8..).zip(at) {
            let mut data = BufMut::zeroed(SECTOR_BYTES as usize);
            data.fill(n);
            batch.write(Sector(sector), data.freeze());
        }
        space.apply(&batch, Durability::Fua).await.expect("done");
        let mut beyond = Batch::new();
        beyond.trim(Sector(SECTORS - 1), 2);
        assert!(space.apply(&beyond, Durability::Flush).await.is_err());
        // A trim of a huge range that is almost completely unmapped.
        let mut trim = Batch::new();
        trim.trim(Sector(1 << 35), (1 << 62) - (1 << 35));
        space.apply(&trim, Durability::Fua).await.expect("done");
        drop((space, workers));
        let opened = open(rt, device, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("taken up");
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(run) = space.next_mapped(from..SECTORS).await.expect("read") {
            found.extend(run.clone());
            from = run.end;
        }
        assert_eq!(found, [0, 5, 1 << 28, 1 << 62, SECTORS - 8, SECTORS - 1]);
        for (n, sector) in (1u8..).zip(at) {
            let buf = BufMut::zeroed(SECTOR_BYTES as usize);
            let read = space.read(Sector(sector), buf).await.expect("read");
            let expected = if n == 4 { 0 } else { n };
            assert!(read.iter().all(|byte| *byte == expected), "{sector}");
        }
    });
}
