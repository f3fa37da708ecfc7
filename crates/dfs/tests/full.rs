//! A filesystem that is full says so, and becomes empty again.

use std::rc::Rc;

use forebay_device::{BufMut, Device, RamDevice};
use forebay_dfs::{
    Clock, Fallocate, FsError, Geometry, Kind, Making, New, ROOT, Time, VolumeId, create, open,
};
use forebay_rt::{Executor, VirtualTime};
use forebay_vsl::{Layout, Options, SpaceError};

const MEDIUM: u64 = 64 << 20;

#[test]
fn what_is_free_is_told_and_what_is_full_refuses_and_can_be_emptied() {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let work = async move {
        let device: Rc<dyn Device> = Rc::new(RamDevice::new(MEDIUM, 4096));
        let geometry = Geometry::default();
        let making = forebay_vsl::Making {
            volume: VolumeId([1; 16]),
            layout: Layout::for_device(&device.geometry(), None).expect("it fits"),
            space_sectors: geometry.space_sectors(),
            placement: forebay_vsl::Kind::Lfs,
            page_sectors: 8,
            disk: None,
        };
        let made = forebay_vsl::create(rt.clone(), Rc::clone(&device), &making);
        made.await.expect("made");
        let opened = forebay_vsl::open(rt, device, Options::default(), false).await;
        let (space, _workers, _) = opened.expect("taken up");
        let clock: Clock = Rc::new(Time::default);
        let making = Making {
            volume: VolumeId([1; 16]),
            geometry,
            hash_key: [2; 16],
            owner: (0, 0),
            permissions: 0o755,
        };
        create(&space, &making, &clock).await.expect("made");
        let fs = open(space, clock).await.expect("taken up");
        let empty = fs.room();
        assert!(empty.bytes < MEDIUM && empty.free > empty.bytes - (64 << 10));
        let new = New::of(Kind::Regular, 0o644);
        let file = fs.make(ROOT, b"a", &new).await.expect("made").file;
        let too_much = Fallocate::Reserve { keep_size: true };
        let refused = fs.fallocate(file, 0, empty.free + 1, too_much).await;
        assert!(matches!(
            refused,
            Err(FsError::Space(SpaceError::Full { .. }))
        ));
        let full = loop {
            let data = BufMut::zeroed(256 << 10).freeze();
            if let Err(error) = fs.write(file, None, data).await {
                break error;
            }
        };
        assert!(
            matches!(full, FsError::Space(SpaceError::Full { .. })),
            "{full}"
        );
        assert!(fs.room().free < 256 << 10 && fs.room().bytes <= empty.bytes);
        // In use, so it needs a mark, for which there has to be room.
        fs.unlink(ROOT, b"a").await.expect("its name goes");
        fs.forget(file, 1).await.expect("it goes");
        assert!(fs.room().free > empty.free - (64 << 10));
        let mut problems = Vec::new();
        let checked = fs.check(&mut |problem| problems.push(problem)).await;
        assert_eq!((checked.expect("read").files, problems), (1, Vec::new()));
    };
    executor.block_on(work);
}
