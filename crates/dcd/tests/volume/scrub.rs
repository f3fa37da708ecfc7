//! A scrub of the log of a cache in use: it finds damage, and finds nothing else beside writers and destaging.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdVolume, LogScrub, LogSuperblockScrub};
use forebay_device::{Device, ScrubArea, ScrubFault, ScrubFaultKind, ScrubTarget};
use forebay_rng::Rng;
use forebay_sim::disk::WriteFate;
use forebay_sim::history::{History, SharedHistory, perform, random_action};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{DiskBytes, checked};
use futures_util::future::join;

use crate::stamped::write;

const DATA_BYTES: u64 = 512 << 10;

/// Scrubs the log. Returns the bytes that were read, and the faults.
async fn scrubbed(volume: &DcdVolume) -> (u64, Vec<ScrubFault>) {
    let targets: [Rc<dyn ScrubTarget>; 2] = [
        Rc::new(LogSuperblockScrub(volume.clone())),
        Rc::new(LogScrub(volume.clone())),
    ];
    let (mut bytes, mut faults) = (0, Vec::new());
    for target in targets {
        let (mut at, end) = (0, target.end());
        while at < end {
            let step = target.step(at..end).await;
            assert!(step.next > at, "a step makes progress");
            at = step.next;
            bytes += step.bytes;
            faults.extend(step.faults);
        }
    }
    (bytes, faults)
}

#[test]
fn a_scrub_beside_writers_and_destaging_finds_no_fault_on_healthy_devices() {
    let images = DiskBytes::fresh(DATA_BYTES);
    let scenario = images.scenario(5, None);
    let history: SharedHistory = Rc::new(RefCell::new(History::whole(images.data, 1)));
    let (rt, rng) = (scenario.rt.clone(), Rng::new(17));
    let most = scenario.with_volume(AttachOptions::default(), move |volume| async move {
        let (done, most) = (Cell::new(false), Cell::new(0));
        let writer = async {
            for _ in 0..1500 {
                let action = random_action(&rng, &(0..DATA_BYTES), 24 << 10);
                let acted = perform(&checked(&volume), &rt, &history, &action).await;
                acted.expect("no faults here");
            }
            done.set(true);
        };
        let scrubs = async {
            while !done.get() {
                let (bytes, faults) = scrubbed(&volume).await;
                assert_eq!(faults, []);
                most.set(most.get().max(bytes));
                rt.sleep(Duration::from_millis(1)).await;
            }
        };
        join(writer, scrubs).await;
        most.get()
    });
    let most = most.expect("the power stays on");
    assert!(most > 64 << 10, "data in the log was read: {most}");
}

#[test]
fn a_scrub_names_the_damaged_data_in_the_log() {
    let images = DiskBytes::fresh(DATA_BYTES);
    let scenario = images.scenario(5, None);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 3, 64 << 10, 4096).await;
        write(&volume, 4, 128 << 10, 4096).await;
        checked(&volume).flush().await.expect("flushed");
        // The records are durable on the device, in a segment that is being filled.
        let (bytes, faults) = scrubbed(&volume).await;
        assert_eq!((bytes, faults), (2 * 4096 + 2 * 4096, Vec::new()));
        // The flush is recorded in the superblock, so that recovery takes no damaged record for an unfinished one.
        rt.sleep(Duration::from_millis(500)).await;
    });
    let mut images = scenario.after_cut(WriteFate::Drop);
    let wanted = stamp(4, 128 << 10, 4096);
    let mut blocks = images.log.chunks(512);
    let at = blocks.position(|block| *block == wanted[..512]);
    images.log[at.expect("in the log") * 512 + 9] ^= 1;
    images
        .scenario(6, None)
        .with_volume(AttachOptions::default(), |volume| async move {
            let (_, faults) = scrubbed(&volume).await;
            let [fault] = &faults[..] else {
                panic!("{faults:?}")
            };
            assert_eq!(
                (fault.area, fault.kind),
                (ScrubArea::Log, ScrubFaultKind::Damaged)
            );
            assert_eq!(fault.sectors, 256..264);
        });
}
