//! Making a volume, taking one up, and refusing to where that would lose something.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_device::{Checked, Device, DeviceError, Op};
use forebay_log::{
    Entry, HEADER_BYTES, LogOptions, OpenError, Placed, RecoveredRecord, RingGeometry, Superblock,
    SuperblockCopies, VolumeId,
};
use forebay_rt::Rt;
use forebay_units::{ByteLen, SECTOR_BYTES, Sector};
use serde::Serialize;

use crate::engine::Engine;
use crate::error::{AttachError, CreateError};
use crate::fingerprint::Fingerprint;
use crate::format::{DataIdentity, Payload};
use crate::map::{Map, Piece};
use crate::options::AttachOptions;
use crate::pairing::{Judged, LEN_MAX, grown, judge};
use crate::ranges::Mark;
use crate::volume::Volume;
use crate::witness::Witness;

/// What a new volume is to be.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Its name.
    pub name: String,
    /// Its id: 16 random bytes.
    pub volume: VolumeId,
    /// Bytes in a segment of the log.
    pub segment: ByteLen,
    /// What the data device is known by.
    pub data: DataIdentity,
}

/// What a log says of its volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct VolumeInfo {
    /// The volume's name.
    pub name: String,
    /// Its id.
    pub volume: String,
    /// The data device it belongs to.
    pub data: DataIdentity,
    /// True if everything is home: the data device alone is the volume.
    pub clean: bool,
    /// True if the log failed and was given up.
    pub abandoned: bool,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments in the log.
    pub segment_count: u64,
    /// What records are padded to, in bytes.
    pub block: u32,
    /// How often the log was taken up.
    pub epoch: u64,
    /// How often its superblock was written.
    pub generation: u64,
    /// The oldest segment still needed.
    pub tail: u64,
}

/// What attaching found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AttachReport {
    /// True if the log had been stopped with everything home.
    pub was_clean: bool,
    /// Records taken up.
    pub records: u64,
    /// Bytes whose newest data is in the log.
    pub dirty_bytes: u64,
    /// Bytes of log read to find out.
    pub bytes_read: u64,
    /// What an administrator should know.
    pub notes: Vec<String>,
}

pub(crate) fn info(superblock: &Superblock, payload: &Payload) -> VolumeInfo {
    VolumeInfo {
        name: payload.name.clone(),
        volume: superblock.volume.to_string(),
        data: payload.data.clone(),
        clean: superblock.clean,
        abandoned: superblock.abandoned,
        segment_bytes: superblock.segment_bytes,
        segment_count: superblock.segment_count,
        block: superblock.block,
        epoch: superblock.epoch.0,
        generation: superblock.generation,
        tail: superblock.tail.0,
    }
}

/// Makes `log` the log of a new volume over `data`. Writes to the log device only.
///
/// # Errors
/// If the log is too small, the data device too large, or a device fails.
pub async fn create(
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    options: CreateOptions,
) -> Result<VolumeInfo, CreateError> {
    let geometry = data.geometry();
    if geometry.len > LEN_MAX {
        return Err(CreateError::DataTooLarge(ByteLen(geometry.len)));
    }
    let ring = RingGeometry::for_device(&log.geometry(), options.segment)?;
    let payload = Payload {
        name: options.name,
        data: DataIdentity {
            len: geometry.len,
            ..options.data
        },
        block_size: geometry.block_size,
        fingerprint: Fingerprint::take(&*data, geometry.len).await?,
        lost_sectors: 0,
        lost: Vec::new(),
    };
    forebay_log::format_device(&*log, ring, options.volume, payload.encode()).await?;
    let copies = forebay_log::read_superblocks(&*log).await;
    let superblock = copies.as_ref().ok().and_then(|copies| copies.newest().ok());
    let superblock = superblock.ok_or_else(|| {
        let unreadable = std::io::Error::other("the superblock just written does not read back");
        DeviceError::io(Op::Read, 0..HEADER_BYTES as u64, unreadable)
    })?;
    Ok(info(superblock, &payload))
}

/// Whether a recovered record stays within the volume and its blocks. One that does not was written
/// for another data device, or by somebody who wishes us ill: it could never go home.
pub(crate) fn fits(record: &RecoveredRecord, payload: &Payload) -> Result<(), String> {
    let (len, block) = (payload.data.len, u64::from(payload.block_size));
    for placed in &record.entries {
        let (start, sectors) = match placed.entry {
            Entry::Data {
                sector, sectors, ..
            } => (sector.bytes(), u64::from(sectors)),
            Entry::Range {
                sector, sectors, ..
            } => (sector.bytes(), sectors),
        };
        let end = start + sectors * SECTOR_BYTES;
        if end > len {
            return Err(format!(
                "it is about bytes {start}..{end}, and the volume ends at {len}; the log was not \
                 written for this data device, or was tampered with"
            ));
        }
        if !start.is_multiple_of(block) || !end.is_multiple_of(block) {
            return Err(format!(
                "it is about bytes {start}..{end}, and the data device has blocks of {block}; the \
                 log was not written for it, or was tampered with"
            ));
        }
    }
    Ok(())
}

/// Applies one recovered record, which [`fits`], to the map.
pub(crate) fn apply(map: &mut Map, record: &RecoveredRecord) {
    let line = |placed: &Placed| match placed.entry {
        Entry::Data { sector, .. } => Some(sector.line()),
        Entry::Range { .. } => None,
    };
    map.look_ahead(record.entries.iter().filter_map(line));
    for placed in &record.entries {
        match placed.entry {
            Entry::Data {
                sector,
                sectors,
                crc,
            } => {
                map.insert(Piece::new(sector, sectors, placed.addr, crc));
            }
            Entry::Range {
                kind,
                sector: Sector(start),
                sectors,
            } => {
                let mark = Mark {
                    kind,
                    record: record.seq,
                };
                map.mark(start..start + sectors, Some(mark));
            }
        }
    }
}

/// The superblock that counts, of a write cache's log that can lie on this device.
fn usable<'a>(
    copies: &'a SuperblockCopies,
    log: &dyn Device,
    accept_loss: bool,
) -> Result<(&'a Superblock, Payload), AttachError> {
    let superblock = if accept_loss {
        copies.newest_readable().map_err(OpenError::from)?
    } else {
        copies.newest().map_err(OpenError::from)?
    };
    forebay_log::fits_device(superblock, log)?;
    let payload = Payload::decode(&superblock.layer).ok_or(AttachError::NotOurs)?;
    Ok((superblock, payload))
}

/// Refuses a log that was given up after a failure, as it says itself or a witness does.
async fn not_given_up(
    superblock: &Superblock,
    payload: &Payload,
    witness: Option<&dyn Witness>,
) -> Result<(), AttachError> {
    if superblock.abandoned {
        let lost = ByteLen(payload.lost_sectors * SECTOR_BYTES);
        return Err(AttachError::Abandoned { lost });
    }
    let Some(witness) = witness else {
        return Ok(());
    };
    let given_up = witness.given_up(superblock.volume).await;
    let given_up = given_up.map_err(|error| AttachError::Witness(std::sync::Arc::new(error)))?;
    match given_up.is_some_and(|epoch| superblock.epoch.0 <= epoch) {
        true => Err(AttachError::GivenUp),
        false => Ok(()),
    }
}

/// What to note of copies of the superblock that are written anew.
fn repaired(copies: &SuperblockCopies) -> impl Iterator<Item = String> {
    let copies = [
        ("A", copies.a.as_ref().err()),
        ("B", copies.b.as_ref().err()),
    ];
    let broken = copies
        .into_iter()
        .filter_map(|(name, error)| Some((name, error?)));
    broken.map(|(name, error)| format!("copy {name} of the superblock was repaired: {error}"))
}

impl Volume {
    /// Takes the volume up: finds what the log holds, begins a new epoch, and serves.
    ///
    /// `log` and `data` must be held exclusively.
    ///
    /// # Errors
    /// If something that was durable is missing, or the two devices do not belong together as they
    /// are. Then nothing has been changed. If a device fails; then the next attach finds what this one
    /// found.
    pub async fn attach(
        rt: Rt,
        log: Rc<dyn Device>,
        data: Rc<dyn Device>,
        identity: DataIdentity,
        options: AttachOptions,
    ) -> Result<(Volume, AttachReport), AttachError> {
        Volume::attach_witnessed(rt, log, data, identity, options, None).await
    }

    /// As [`Volume::attach`], with a witness that remembers which logs were given up.
    ///
    /// # Errors
    /// As for [`Volume::attach`]; and if this log was given up, or the witness cannot be asked.
    pub async fn attach_witnessed(
        rt: Rt,
        log: Rc<dyn Device>,
        data: Rc<dyn Device>,
        identity: DataIdentity,
        options: AttachOptions,
        witness: Option<Rc<dyn Witness>>,
    ) -> Result<(Volume, AttachReport), AttachError> {
        let log: Rc<dyn Device> = Rc::new(Checked::new(log, "log"));
        let data: Rc<dyn Device> = Rc::new(Checked::new(data, "data"));
        let copies = forebay_log::read_superblocks(&*log).await?;
        let (superblock, mut payload) = usable(&copies, &*log, options.accept_loss)?;
        not_given_up(superblock, &payload, witness.as_deref()).await?;
        let accept = options.accept_changed;
        let judged = judge(&payload, superblock.clean, &*data, &identity, accept).await?;
        let Judged { len, mut notes } = judged;
        notes.extend(grown(payload.data.len, len, data.geometry().len));
        notes.extend(repaired(&copies));
        // What lies in the device's cache only may be gone after the next power cut: what destaging wrote
        // before a process died, or what somebody put there without us and will have flushed through us.
        // What is noted of the device, and what is vouched for, has to be durable there.
        data.flush().await?;
        payload.fingerprint = Fingerprint::take(&*data, len).await?;
        // The superblock of the new epoch records a new length. Until it is durable, the old length is valid: no
        // record is about what lies behind it.
        payload.data = DataIdentity { len, ..identity };
        let map = RefCell::new(Map::to_recover(RingGeometry::of(superblock)));
        let layer = payload.encode();
        let (log, workers, recovery) = forebay_log::open(
            rt.clone(),
            log,
            LogOptions {
                max_delay: options.max_delay,
                gaps: options.gaps,
            },
            superblock,
            options.accept_loss,
            &mut |record| {
                fits(record, &payload)?;
                apply(&mut map.borrow_mut(), record);
                Ok(())
            },
            |superblock| superblock.layer = layer,
        )
        .await?;
        if let Some(damage) = &recovery.scan.damage {
            notes.push(format!(
                "taken up without {} and all after it, as told",
                damage.record
            ));
        }
        let mut map = map.into_inner();
        map.recovered();
        let report = AttachReport {
            was_clean: recovery.was_clean,
            records: recovery.scan.records,
            dirty_bytes: map.live_sectors() * SECTOR_BYTES,
            bytes_read: recovery.scan.bytes_read,
            notes,
        };
        let mut engine = Engine::new(rt, log, data, options, map, payload);
        engine.witness = witness;
        Ok((Volume::start(engine, workers), report))
    }
}
