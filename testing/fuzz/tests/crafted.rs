//! Impossible logs with correct checksums. Fuzzing found each of these logs, or could find it.

use std::rc::Rc;

use forebay_dcd::{AttachOptions, CreateOptions, DataIdentity, DcdVolume, VolumeId};
use forebay_device::{Device, RamDevice};
use forebay_fuzz::cap;
use forebay_fuzz::targets::image::{edit, refusal};
use forebay_rt::{Executor, VirtualTime};
use forebay_units::ByteLen;

/// Places in the log of `targets::image`: its superblocks, and the summary of the first segment.
const SUPERBLOCKS: [u8; 2] = [0, 1];
const SUMMARY: u8 = 5;

/// Returns a script that makes equal changes in both superblocks.
fn both(changes: &[(u8, &[u8])]) -> Vec<u8> {
    let mut script = vec![0];
    for place in SUPERBLOCKS {
        for (at, bytes) in changes {
            script.extend(edit(place, *at, bytes));
        }
    }
    script
}

#[track_caller]
fn refused(script: &[u8], why: &str) {
    let said = refusal(script).expect("it is refused");
    assert!(said.contains(why), "{said}");
}

#[test]
fn an_unmodified_log_is_attached() {
    assert_eq!(refusal(&[0]), None);
}

#[test]
fn data_beyond_the_end_of_the_volume_is_refused_at_recovery_and_not_at_destage() {
    // The block is the second field of the first entry of the first record in the summary.
    let script = [vec![0], edit(SUMMARY, 90, &[1])].concat();
    refused(
        &script,
        "record 1 cannot be applied: it covers bytes 1048576..1052672",
    );
    refused(&script, "the volume ends at 655360");
}

#[test]
fn zeroes_beyond_the_end_of_the_volume_are_refused_at_recovery() {
    // Behind the first record with its two entries, and the head of the second record: the zeroed range, whose length
    // is behind its tag and its first sector.
    let sectors_at = 76 + (12 + 2 * 10) + 12 + 1 + 6;
    let script = [vec![0], edit(SUMMARY, sectors_at, &[0xff; 5])].concat();
    refused(
        &script,
        "record 2 cannot be applied: it covers bytes 8192..",
    );
}

#[test]
fn a_ring_longer_than_its_device_is_refused_before_memory_is_allocated_for_it() {
    // Length of the log, in bytes; number of segments.
    let script = both(&[(82, &[0xff; 5]), (88, &[0xff; 4])]);
    cap::within(24 << 20, || refused(&script, "it has been cut short"));
}

#[test]
fn a_ring_with_fewer_segments_than_the_minimum_is_refused() {
    refused(&both(&[(88, &[1, 0])]), "the superblock contradicts itself");
}

#[test]
fn an_unsupported_segment_size_is_refused() {
    refused(
        &both(&[(96, &[0, 0x40, 0, 0])]),
        "the superblock contradicts itself",
    );
}

#[test]
fn a_log_with_smaller_blocks_than_its_device_is_refused() {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let (log_len, data_len) = ((1 << 20) + 32 * (128 << 10), 1 << 20);
        let made_on = Rc::new(RamDevice::new(log_len, 512));
        let data: Rc<dyn Device> = Rc::new(RamDevice::new(data_len, 512));
        let identity = DataIdentity {
            len: data_len,
            path: "data".into(),
            names: Vec::new(),
        };
        let options = CreateOptions {
            name: "moved".into(),
            volume: VolumeId([3; 16]),
            segment: ByteLen::kib(128),
            data: identity.clone(),
        };
        let made = forebay_dcd::create(made_on.clone(), Rc::clone(&data), options).await;
        made.expect("made");
        // As when the image of one disk is copied to another.
        let mut image = vec![0; log_len as usize];
        made_on.peek(0, &mut image);
        let moved_to = Rc::new(RamDevice::new(log_len, 4096));
        moved_to.poke(0, &image);
        let options = AttachOptions::default();
        let attached = DcdVolume::attach(rt, moved_to, data, identity, options).await;
        let error = attached.err().expect("it is refused").to_string();
        assert!(
            error.contains("the log device has blocks of 4096 bytes"),
            "{error}"
        );
    });
}
