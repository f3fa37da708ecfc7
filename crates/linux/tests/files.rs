//! Regular files as devices.

mod common;

use std::fs;
use std::rc::Rc;

use common::{dir, file, filled, open, read, run};
use forebay_device::{BufMut, Device, DeviceError, DeviceOp, Durability, ZeroedSpace};
use forebay_linux::{DeviceOpenOptions, zero_fill};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

#[test]
fn written_data_is_read_back_and_is_in_the_file() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    let inside = path.clone();
    run(|_, ring| async move {
        let device = open(&ring, &inside);
        assert_eq!(device.geometry().len, MIB);
        assert!(device.geometry().volatile);
        let writes = [(0, 1, Durability::Flush), (8192, 2, Durability::Fua)];
        for (at, byte, durability) in writes {
            let data = filled(4096, byte);
            device.write(at, data, durability).await.unwrap();
        }
        device.flush().await.unwrap();
        assert_eq!(read(&*device, 0, 4096).await, vec![1; 4096]);
        assert_eq!(read(&*device, 4096, 4096).await, vec![0; 4096]);
    });
    let bytes = fs::read(path).unwrap();
    assert_eq!((bytes[4095], bytes[4096], bytes[8192]), (1, 0, 2));
}

#[test]
fn unaligned_memory_is_copied_for_direct_io() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        let device = open(&ring, path);
        let mut message = BufMut::zeroed(4096 + 28);
        message[28..].fill(7);
        let payload = message.freeze().slice(28..);
        device.write(512, payload, Durability::Flush).await.unwrap();
        let mut odd = BufMut::zeroed(4096 + 3);
        let _front = odd.split_to(3);
        let odd = device.read(512, odd).await.unwrap();
        assert!(odd.iter().all(|b| *b == 7));
    });
}

#[test]
fn a_read_beyond_a_truncated_end_is_an_error_and_not_old_data() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        let device = open(&ring, &path);
        fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(8192)
            .unwrap();
        let part = device.read(4096, BufMut::zeroed(8192)).await;
        assert!(matches!(
            part,
            Err(DeviceError::Io { op: DeviceOp::Read, ref source, .. })
                if source.kind() == std::io::ErrorKind::UnexpectedEof
        ));
        assert!(device.read(MIB - 4096, BufMut::zeroed(4096)).await.is_err());
        assert_eq!(read(&*device, 4096, 4096).await, vec![0; 4096]);
    });
}

#[test]
fn refresh_len_returns_the_whole_blocks_of_a_grown_file() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        let device = open(&ring, &path);
        let block = u64::from(device.geometry().block_size);
        let backing = fs::OpenOptions::new().write(true).open(&path).unwrap();
        backing.set_len(2 * MIB + block / 2).unwrap();
        assert_eq!(device.geometry().len, MIB);
        assert_eq!(device.refresh_len().unwrap(), 2 * MIB);
        assert_eq!(device.geometry().len, 2 * MIB);
        let end = 2 * MIB - 4096;
        device
            .write(end, filled(4096, 7), Durability::Fua)
            .await
            .unwrap();
        assert_eq!(read(&*device, end, 4096).await, vec![7; 4096]);
        // A shorter length is reported, and the device keeps its previous length.
        backing.set_len(MIB).unwrap();
        assert_eq!(device.refresh_len().unwrap(), MIB);
        assert_eq!(device.geometry().len, 2 * MIB);
    });
}

#[test]
fn a_device_opened_for_reading_refuses_modifying_requests() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        let options = DeviceOpenOptions {
            read_only: true,
            small_blocks: false,
            outlast_readers: false,
        };
        let device = forebay_linux::open(&ring, path, options).unwrap().device;
        assert_eq!(read(&*device, 0, 512).await, vec![0; 512]);
        let write = device.write(0, filled(512, 1), Durability::Flush).await;
        assert!(matches!(
            write,
            Err(DeviceError::ReadOnly {
                op: DeviceOp::Write
            })
        ));
        assert!(device.discard(0..4096).await.is_err());
        assert!(
            device
                .write_zeroes(0..4096, ZeroedSpace::Keep)
                .await
                .is_err()
        );
        assert!(device.flush().await.is_ok());
    });
}

#[test]
fn a_device_can_be_opened_again_as_soon_as_it_is_closed() {
    let dir = dir();
    let path = file(&dir, "a", MIB);
    run(|_, ring| async move {
        for _ in 0..100 {
            let device = open(&ring, &path);
            let data = filled(4096, 1);
            device.write(0, data, Durability::Flush).await.unwrap();
            // The flush runs on a kernel thread, which must have released the file.
            device.flush().await.unwrap();
        }
    });
}

#[test]
fn discarded_space_is_returned_to_the_filesystem() {
    use std::os::unix::fs::MetadataExt;
    let dir = dir();
    let path = file(&dir, "a", MIB);
    let inside = path.clone();
    run(|_, ring| async move {
        let device = open(&ring, inside);
        assert!(device.geometry().discard_granularity > 0);
        let data = filled(MIB as usize, 1);
        device.write(0, data, Durability::Flush).await.unwrap();
        device.flush().await.unwrap();
        device.discard(512..MIB - 512).await.unwrap();
        assert_eq!(read(&*device, 0, 512).await, vec![1; 512]);
        assert_eq!(read(&*device, MIB - 512, 512).await, vec![1; 512]);
    });
    assert!(fs::metadata(path).unwrap().blocks() * 512 <= 16384);
}

#[test]
fn zeroing_by_unmapping_returns_space_and_never_allocates_any() {
    use std::os::unix::fs::MetadataExt;
    let dir = dir();
    let path = dir.path().join("a");
    fs::File::create(&path).unwrap().set_len(4 * MIB).unwrap();
    let used = {
        let path = path.clone();
        move || fs::metadata(&path).unwrap().blocks() * 512
    };
    run(|_, ring| async move {
        let device = open(&ring, &path);
        assert!(device.geometry().zeroes_by_unmapping);
        let release = |range| device.write_zeroes(range, ZeroedSpace::Release);
        // Inside a hole nothing is allocated, even for a short and unaligned range.
        for range in [0..512, 1536..MIB + 512, 2 * MIB..4 * MIB] {
            release(range).await.unwrap();
        }
        device.flush().await.unwrap();
        assert_eq!(used(), 0);
        let data = filled(MIB as usize, 1);
        device.write(0, data, Durability::Flush).await.unwrap();
        device.flush().await.unwrap();
        assert!(used() >= MIB);
        release(512..MIB - 512).await.unwrap();
        assert_eq!(read(&*device, 0, 512).await, vec![1; 512]);
        let zeroes = read(&*device, 512, MIB as usize - 1024).await;
        assert!(zeroes.iter().all(|byte| *byte == 0));
        assert_eq!(read(&*device, MIB - 512, 512).await, vec![1; 512]);
        device.flush().await.unwrap();
        assert!(used() <= 16384, "{}", used());
        // With `ZeroedSpace::Keep` the space stays allocated, on a filesystem that supports it.
        device
            .write_zeroes(0..MIB, ZeroedSpace::Keep)
            .await
            .unwrap();
        device.flush().await.unwrap();
        assert!(used() >= MIB, "{}", used());
        assert_eq!(read(&*device, 0, 512).await, vec![0; 512]);
    });
}

#[test]
fn filling_with_zeroes_reports_progress_and_overwrites_old_data() {
    let dir = dir();
    let path = file(&dir, "a", 10 * MIB + 512);
    run(|_, ring| async move {
        let device = open(&ring, path);
        let at = device.geometry().len - 512;
        device
            .write(at, filled(512, 9), Durability::Flush)
            .await
            .unwrap();
        let mut reports = Vec::new();
        zero_fill(&*device, |done, total| reports.push((done, total)))
            .await
            .unwrap();
        assert_eq!(reports.len(), 11);
        assert_eq!(reports.last(), Some(&(10 * MIB + 512, 10 * MIB + 512)));
        assert_eq!(read(&*device, at, 512).await, vec![0; 512]);
    });
}

#[test]
fn thousands_of_requests_in_flight_all_complete() {
    let dir = dir();
    let path = file(&dir, "a", 4 * MIB);
    run(|rt, ring| async move {
        let device = open(&ring, path);
        let writes: Vec<_> = (0..8192u64)
            .map(|i| {
                let device = Rc::clone(&device);
                rt.spawn(async move {
                    let data = filled(512, i as u8);
                    device.write(i * 512, data, Durability::Flush).await
                })
            })
            .collect();
        for write in writes {
            write.await.unwrap();
        }
        let all = read(&*device, 0, 4 << 20).await;
        for (i, sector) in all.chunks(512).enumerate() {
            assert!(sector.iter().all(|b| *b == i as u8), "sector {i}");
        }
    });
}

#[derive(Debug, Clone)]
enum FileStep {
    Write(u64, u64, u8, bool),
    Zero(u64, u64, bool),
    Discard(u64, u64),
    Flush,
}

const BLOCKS: u64 = 512;

fn step() -> impl Strategy<Value = FileStep> {
    let range = (0..BLOCKS, 1..200u64).prop_map(|(at, n)| (at, n.min(BLOCKS - at)));
    prop_oneof![
        4 => (range.clone(), any::<u8>(), any::<bool>())
            .prop_map(|((at, n), byte, fua)| FileStep::Write(at, n, byte, fua)),
        2 => (range.clone(), any::<bool>())
            .prop_map(|((at, n), keep)| FileStep::Zero(at, n, keep)),
        2 => range.prop_map(|(at, n)| FileStep::Discard(at, n)),
        1 => Just(FileStep::Flush),
    ]
}

/// Executes a step and updates the expected content; `None` where a discard left it undefined.
async fn take(device: &dyn Device, model: &mut [Option<u8>], step: FileStep) {
    let bytes = |at: u64, n: u64| (at * 512) as usize..((at + n) * 512) as usize;
    match step {
        FileStep::Write(at, n, byte, fua) => {
            let durability = [Durability::Flush, Durability::Fua][usize::from(fua)];
            let data = filled((n * 512) as usize, byte);
            device.write(at * 512, data, durability).await.unwrap();
            model[bytes(at, n)].fill(Some(byte));
        }
        FileStep::Zero(at, n, keep) => {
            let room = [ZeroedSpace::Release, ZeroedSpace::Keep][usize::from(keep)];
            let range = at * 512..(at + n) * 512;
            device.write_zeroes(range, room).await.unwrap();
            model[bytes(at, n)].fill(Some(0));
        }
        FileStep::Discard(at, n) => {
            device.discard(at * 512..(at + n) * 512).await.unwrap();
            model[bytes(at, n)].fill(None);
        }
        FileStep::Flush => device.flush().await.unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_file_device_is_an_array_of_bytes(steps in proptest::collection::vec(step(), 1..40)) {
        let dir = dir();
        let path = file(&dir, "a", BLOCKS * 512);
        run(|_, ring| async move {
            let device = open(&ring, path);
            let mut model = vec![Some(0u8); (BLOCKS * 512) as usize];
            for step in steps {
                take(&*device, &mut model, step).await;
            }
            let all = read(&*device, 0, model.len()).await;
            let same = |(got, wanted): (&u8, &Option<u8>)| wanted.is_none_or(|w| w == *got);
            assert!(all.iter().zip(&model).all(same));
        });
    }
}
