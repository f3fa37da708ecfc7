//! A log with one stream of notes, and recovery of its content after a power failure.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_rt::{Executor, Instant, Rt, Task, VirtualTime};
use forebay_segment_log::format::envelope::ByteReader;
use forebay_segment_log::{
    CommitPipeline, CommitWorkers, GatherLimits, HeaderFields, InFlightSegments, LogLayout,
    OnFailure, RecordComposer, RecordEntry, SegmentBuilder, SegmentShape, SegmentSummary,
    SummaryFields, VolumeId, WalkTarget, payload_is_sound, walk,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::disk::ForgetfulDisk;

pub(crate) const SEGMENT: u32 = 128 << 10;
const SHAPE: SegmentShape = SegmentShape {
    segment_bytes: SEGMENT,
    block: 512,
};
const VOLUME: VolumeId = VolumeId([7; 16]);
const EPOCH: Epoch = Epoch(1);

/// A number, which determines the data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NoteEntry {
    number: u32,
    sectors: u8,
}

impl NoteEntry {
    fn data(&self) -> Vec<u8> {
        let len = usize::from(self.sectors) * SECTOR_BYTES as usize;
        self.number
            .to_le_bytes()
            .into_iter()
            .cycle()
            .take(len)
            .collect()
    }
}

impl RecordEntry for NoteEntry {
    const BYTES_MIN: usize = 5;

    fn encoded_len(&self) -> usize {
        5
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.number.to_le_bytes());
        out.push(self.sectors);
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<NoteEntry> {
        Some(NoteEntry {
            number: from.uint(4)? as u32,
            sectors: from.uint(1)? as u8,
        })
    }

    fn payload_sectors(&self) -> u64 {
        self.sectors.into()
    }

    fn is_sound(&self, data: &[u8]) -> bool {
        data == self.data()
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoteLayout {}

impl LogLayout for NoteLayout {
    type Entry = NoteEntry;
    const RECORD: &'static [u8; 8] = b"TESTREC\x01";
    const SUMMARY: &'static [u8; 8] = b"TESTSUM\x01";
    const NUMBERED: bool = true;
}

/// Composes notes, segment after segment.
pub(crate) struct NoteComposer {
    flight: InFlightSegments,
    open: Option<SegmentBuilder<NoteLayout>>,
    next_segment: SegmentSeq,
    next_record: RecordSeq,
    notes: u32,
    /// All segments that were begun.
    begun: BTreeSet<SegmentSeq>,
}

impl NoteComposer {
    fn new() -> NoteComposer {
        NoteComposer {
            flight: InFlightSegments::new(SHAPE, RecordSeq(0), 0),
            open: None,
            next_segment: SegmentSeq(0),
            next_record: RecordSeq(1),
            notes: 0,
            begun: BTreeSet::new(),
        }
    }

    fn append(&mut self, sectors: u8) -> RecordSeq {
        let number = self.notes;
        let note = NoteEntry { number, sectors };
        self.notes += 1;
        let (data, len) = (note.data(), u32::from(sectors) * SECTOR_BYTES as u32);
        let fits = |open: &SegmentBuilder<NoteLayout>| open.fits_record(note.encoded_len(), len);
        if !self.open.as_ref().is_some_and(fits) {
            self.close();
            let fits =
                |open: &SegmentBuilder<NoteLayout>| open.fits_new_record(note.encoded_len(), len);
            if !self.open.as_ref().is_some_and(fits) {
                self.seal();
                let seq = self.next_segment;
                self.next_segment = seq.next();
                self.flight.begin_segment(seq);
                self.begun.insert(seq);
                self.open = Some(SegmentBuilder::new(seq, SHAPE, 0));
            }
            self.open.as_mut().expect("opened").open_record();
            self.next_record = self.next_record.next();
        }
        let open = self.open.as_mut().expect("has room");
        let place = open.push(note, len);
        let ram = self.flight.segment_mut(open.seq());
        ram.unfrozen(place..place + len).copy_from_slice(&data);
        self.next_record.prev()
    }

    pub(crate) fn seal(&mut self) {
        self.close();
        let Some(open) = self.open.take() else { return };
        let end = SummaryFields {
            volume: VOLUME,
            epoch: EPOCH,
            stable: self.flight.stable(),
            fill: 4096,
        };
        let ram = self.flight.segment_mut(open.seq());
        open.seal(ram, &end);
    }
}

impl RecordComposer for NoteComposer {
    fn flight(&self) -> &InFlightSegments {
        &self.flight
    }

    fn flight_mut(&mut self) -> &mut InFlightSegments {
        &mut self.flight
    }

    fn segment_at(&self, segment: SegmentSeq) -> u64 {
        segment.0 * u64::from(SEGMENT)
    }

    fn open(&self) -> Option<u64> {
        let open = self.open.as_ref().filter(|open| open.has_open_record());
        open.map(|_| self.next_record.prev().0)
    }

    fn open_bytes(&self) -> u32 {
        self.open
            .as_ref()
            .map_or(0, SegmentBuilder::open_record_bytes)
    }

    fn close(&mut self) -> RecordSeq {
        let seq = self.next_record.prev();
        if let Some(open) = &mut self.open {
            let closing = HeaderFields {
                volume: VOLUME,
                epoch: EPOCH,
                seq,
                stable: self.flight.stable(),
                continues: false,
            };
            let ram = self.flight.segment_mut(open.seq());
            if open.close_record(ram, &closing) {
                self.flight.record_closed(seq, false);
            }
        }
        seq
    }

    fn wants_flush(&self) -> bool {
        self.flight.segments().count() > 8
    }

    fn set_stable(&mut self, covered: RecordSeq) {
        self.flight.set_stable(covered);
    }
}

/// A commit of notes on a disk.
#[derive(Clone)]
pub(crate) struct CommitRig {
    pub(crate) rt: Rt,
    pub(crate) disk: Rc<ForgetfulDisk>,
    pub(crate) commit: Rc<CommitPipeline<NoteComposer>>,
    pub(crate) workers: Rc<RefCell<Option<CommitWorkers>>>,
    /// A record that was found, the first in its segment, at which the next recovery begins its search.
    known: Rc<Cell<(SegmentSeq, RecordSeq)>>,
    /// Released segments that were verified to be durable.
    sound: Rc<RefCell<BTreeSet<SegmentSeq>>>,
}

impl CommitRig {
    fn new(rt: &Rt, on_failure: OnFailure) -> CommitRig {
        let disk = Rc::new(ForgetfulDisk::new(rt));
        let device: Rc<dyn Device> = disk.clone();
        let gathering = GatherLimits::after(Duration::from_millis(50));
        let stream = NoteComposer::new();
        let (commit, workers) =
            CommitPipeline::new(rt.clone(), device, gathering, on_failure, stream, ());
        CommitRig {
            rt: rt.clone(),
            disk,
            commit,
            workers: Rc::new(RefCell::new(Some(workers))),
            known: Rc::new(Cell::new((SegmentSeq(0), RecordSeq(1)))),
            sound: Rc::default(),
        }
    }

    /// Appends a note. Returns its record.
    pub(crate) fn append(&self, sectors: u8) -> RecordSeq {
        let mut stream = self.commit.composer_mut();
        let record = stream.append(sectors);
        self.commit.appended(&mut stream, false);
        record
    }

    /// Appends a note, and closes its record.
    pub(crate) fn append_closed(&self, sectors: u8) -> RecordSeq {
        let record = self.append(sectors);
        self.commit.composer_mut().close();
        self.commit.has_work();
        record
    }

    pub(crate) fn stable(&self) -> RecordSeq {
        self.commit.composer().flight.stable()
    }

    pub(crate) fn written(&self) -> RecordSeq {
        self.commit.composer().flight.written()
    }

    /// Runs a flush in a task of its own.
    pub(crate) fn spawn_flush<T: 'static>(
        &self,
        flush: impl AsyncFnOnce(&CommitRig) -> T + 'static,
    ) -> Task<T> {
        let rig = self.clone();
        self.rt.spawn(async move { flush(&rig).await })
    }

    /// Returns the newest record that recovery finds after a power failure that loses as much as possible.
    pub(crate) fn recovered(&self) -> RecordSeq {
        let (known, mut next) = self.known.get();
        for segment in self.commit.composer().begun.range(known..) {
            let bytes = self.segment_bytes(*segment);
            let first = next;
            for record in
                walk::<NoteLayout>(&bytes, SHAPE.block, VOLUME, *segment, WalkTarget::Is(next))
            {
                if !payload_is_sound(&bytes, record.offset, &record.entries) {
                    return next.prev();
                }
                self.known.set((*segment, first));
                next = record.seq.next();
            }
        }
        next.prev()
    }

    /// Makes the next recovery verify everything again.
    pub(crate) fn trust_nothing(&self) {
        self.known.set((SegmentSeq(0), RecordSeq(1)));
        self.sound.borrow_mut().clear();
    }

    fn segment_bytes(&self, segment: SegmentSeq) -> Vec<u8> {
        let at = segment.0 * u64::from(SEGMENT);
        self.disk.stable(at..at + u64::from(SEGMENT))
    }

    /// Asserts that memory was released only for segments that are durable, including their summaries.
    pub(crate) fn assert_released_are_durable(&self) {
        let begun = self.commit.composer().begun.clone();
        for segment in begun {
            let in_memory = self.commit.composer().flight.segment(segment).is_some();
            if in_memory || !self.sound.borrow_mut().insert(segment) {
                continue;
            }
            let bytes = self.segment_bytes(segment);
            let last = &bytes[bytes.len() - 4096..];
            let len =
                SegmentSummary::<NoteLayout>::total_len(last, SEGMENT).expect("a summary's end");
            let summary = SegmentSummary::<NoteLayout>::decode(&bytes[bytes.len() - len..]);
            let summary = summary.expect("a durable summary");
            assert_eq!(summary.segment, segment);
            for record in &summary.records {
                let sound = payload_is_sound(&bytes, record.offset, &record.entries);
                assert!(sound, "{} in {segment:?}", record.seq);
            }
        }
    }
}

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn since_start(rt: &Rt) -> Duration {
    rt.now().since(Instant::default())
}

/// Runs a test on a virtual clock.
pub(crate) fn run<F: Future<Output = ()> + 'static>(
    on_failure: OnFailure,
    test: impl FnOnce(CommitRig) -> F,
) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rig = CommitRig::new(&executor.rt(), on_failure);
    executor.block_on(test(rig));
}
