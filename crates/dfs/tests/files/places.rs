//! Reports the locations of a file's bytes.

use forebay_device::BufMut;
use forebay_dfs::{Fallocate, FileKind, FsError, ROOT};
use forebay_vsl::SectorLocation;

use super::world::run;

#[test]
fn data_is_in_the_i_node_then_gathered_then_on_the_device_and_holes_are_nowhere() {
    run(|world| async move {
        let fs = &world.fs;
        let file = world.make(ROOT, b"a", FileKind::Regular).await;
        assert_eq!(fs.places(file, 0..100, 9).await.expect("told"), []);
        let write = async |at, len, with| {
            let mut data = BufMut::zeroed(len);
            data.fill(with);
            let done = fs.write(file, Some(at), data.freeze()).await;
            done.expect("written");
        };
        let told = async |bytes| {
            let parts = fs.places(file, bytes, 9).await.expect("told");
            let parts = parts.into_iter().map(|part| (part.bytes, part.at));
            parts.collect::<Vec<_>>()
        };
        write(0, 10, 1).await;
        assert_eq!(told(3..100).await, [(3..10, SectorLocation::Memory)]);
        write(1 << 20, 5000, 0xab).await;
        write(3 << 20, 100, 2).await;
        let punched = fs.fallocate(file, 0, 512, Fallocate::Punch).await;
        punched.expect("done");
        let expected = [
            (100..1 << 20, SectorLocation::Nowhere),
            (1 << 20..(1 << 20) + 5120, SectorLocation::Memory),
            ((1 << 20) + 5120..3 << 20, SectorLocation::Nowhere),
            (3 << 20..(3 << 20) + 100, SectorLocation::Memory),
        ];
        assert_eq!(told(100..u64::MAX).await, expected);
        // The open segment is in memory until it is full.
        let other = world.make(ROOT, b"b", FileKind::Regular).await;
        for _ in 0..4 {
            let data = BufMut::zeroed(1 << 20).freeze();
            fs.write(other, None, data).await.expect("written");
        }
        fs.sync().await.expect("durable");
        let told = told((1 << 20) + 1000..2 << 20).await;
        let [
            (bytes, SectorLocation::Medium(at)),
            (_, SectorLocation::Nowhere),
        ] = &told[..]
        else {
            panic!("{told:?}");
        };
        assert_eq!(*bytes, (1 << 20) + 1000..(1 << 20) + 5120);
        let read = world.medium(at - 1000, 5120).await;
        assert_eq!(read[..5000], [0xab; 5000]);
        let refused = fs.places(ROOT, 0..100, 9).await;
        assert!(matches!(refused, Err(FsError::IsDirectory)));
        for file in [file, other] {
            fs.forget(file, 1).await.expect("forgotten");
        }
        world
    });
}
