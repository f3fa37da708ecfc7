//! The space is sparse, and as large as 64 bits make it.

use std::rc::Rc;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_rt::{Executor, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, Kind, Layout, Making, Options, VolumeId, create, open};

const SECTORS: u64 = 1 << 63;

#[test]
fn what_lies_at_the_far_end_of_the_space_is_read_trimmed_and_found_again() {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let device: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 20, 4096));
    let layout = Layout::for_device(&device.geometry(), Some(ByteLen(256 << 10))).expect("fits");
    let making = Making {
        volume: VolumeId([7; 16]),
        layout,
        space_sectors: SECTORS,
        placement: Kind::Lfs,
        page_sectors: 8,
        disk: None,
    };
    let at = [
        0,
        5,
        1 << 28,
        (1 << 35) + 3,
        1 << 62,
        SECTORS - 8,
        SECTORS - 1,
    ];
    let work = async move {
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let opened = open(rt.clone(), Rc::clone(&device), Options::default(), false).await;
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
        // All of a huge range, of which next to nothing is mapped.
        let mut trim = Batch::new();
        trim.trim(Sector(1 << 35), (1 << 62) - (1 << 35));
        space.apply(&trim, Durability::Fua).await.expect("done");
        drop((space, workers));
        let opened = open(rt, device, Options::default(), false).await;
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
    };
    executor.block_on(work);
}
