//! Creating and attaching a volume, and rejecting a log if attaching would lose data.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_device::{CheckedDevice, Device, DeviceError, DeviceOp};
use forebay_ring_log::{
    AddressedEntry, HEADER_BYTES, LogOpenError, LogOptions, RecoveredRecord, RingEntry,
    RingGeometry, RingSuperblock, RingSuperblockPair, VolumeId,
};
use forebay_rt::Rt;
use forebay_units::{ByteLen, Epoch, SECTOR_BYTES, Sector};
use serde::Serialize;

use crate::engine::DcdEngine;
use crate::error::{DcdAttachError, DcdCreateError};
use crate::fingerprint::Fingerprint;
use crate::format::{DataIdentity, SuperblockPayload};
use crate::map::{CacheMap, LogFragment};
use crate::options::AttachOptions;
use crate::pairing::{LEN_MAX, PairedDevice, grown, judge};
use crate::ranges::RangeState;
use crate::running::RunningEngine;
use crate::volume::DcdVolume;
use crate::witness::{FailedLogRegistry, is_recorded};

/// Properties of a new volume.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Name.
    pub name: String,
    /// Id: 16 random bytes.
    pub volume: VolumeId,
    /// Size of a segment of the log.
    pub segment: ByteLen,
    /// Identity of the data device.
    pub data: DataIdentity,
}

/// Contents of a log's superblock.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SuperblockContents {
    /// Name of the volume.
    pub name: String,
    /// Id of the volume.
    pub volume: String,
    /// Version of the log's format.
    pub format_version: u32,
    /// The data device that the log belongs to.
    pub data: DataIdentity,
    /// True if the log is empty: the data device alone is the volume.
    pub clean: bool,
    /// True if the log failed and was abandoned.
    pub abandoned: bool,
    /// Size of a segment, in bytes.
    pub segment_bytes: u32,
    /// Number of segments in the log.
    pub segment_count: u64,
    /// Block to which records are padded, in bytes.
    pub block: u32,
    /// Number of times the log was opened.
    pub epoch: u64,
    /// Number of times the superblock was written.
    pub generation: u64,
    /// Oldest segment still needed.
    pub tail: u64,
}

/// Result of attaching.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AttachReport {
    /// True if the log was closed with all data on the data device.
    pub was_clean: bool,
    /// Number of recovered records.
    pub records: u64,
    /// Bytes whose newest data is in the log.
    pub dirty_bytes: u64,
    /// Bytes of the log that recovery read.
    pub bytes_read: u64,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

pub(crate) fn info(superblock: &RingSuperblock, payload: &SuperblockPayload) -> SuperblockContents {
    SuperblockContents {
        name: payload.name.clone(),
        volume: superblock.volume.to_string(),
        format_version: superblock.version(),
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

/// Creates a new volume: makes `log` the log of `data`. Writes to the log device only.
///
/// # Errors
/// If the log is too small, the data device too large, or a device fails.
pub async fn create(
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    options: CreateOptions,
) -> Result<SuperblockContents, DcdCreateError> {
    let geometry = data.geometry();
    if geometry.len > LEN_MAX {
        return Err(DcdCreateError::DataTooLarge(ByteLen(geometry.len)));
    }
    let ring = RingGeometry::for_device(&log.geometry(), options.segment)?;
    let payload = SuperblockPayload {
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
    let volume = options.volume;
    forebay_ring_log::format_device(&*log, ring, volume, Epoch(0), payload.encode()).await?;
    let copies = forebay_ring_log::read_superblocks(&*log).await;
    let superblock = copies.as_ref().ok().and_then(|copies| copies.newest().ok());
    let superblock = superblock.ok_or_else(|| {
        let unreadable =
            std::io::Error::other("the superblock cannot be read back after it was written");
        DeviceError::io(DeviceOp::Read, 0..HEADER_BYTES as u64, unreadable)
    })?;
    Ok(info(superblock, &payload))
}

/// Checks that a recovered record stays within the volume and its blocks. A record that does not was written for
/// another data device, or forged by an attacker, and could never be destaged.
pub(crate) fn fits(record: &RecoveredRecord, payload: &SuperblockPayload) -> Result<(), String> {
    let (len, block) = (payload.data.len, u64::from(payload.block_size));
    for placed in &record.entries {
        let (start, sectors) = match placed.entry {
            RingEntry::Data {
                sector, sectors, ..
            } => (sector.bytes(), u64::from(sectors)),
            RingEntry::Range {
                sector, sectors, ..
            } => (sector.bytes(), sectors),
        };
        let end = start + sectors * SECTOR_BYTES;
        if end > len {
            return Err(format!(
                "it covers bytes {start}..{end}, but the volume ends at {len}; the log was not \
                 written for this data device, or was tampered with"
            ));
        }
        if !start.is_multiple_of(block) || !end.is_multiple_of(block) {
            return Err(format!(
                "it covers bytes {start}..{end}, but the data device has blocks of {block} bytes; the \
                 log was not written for this data device, or was tampered with"
            ));
        }
    }
    Ok(())
}

/// Applies a recovered record to the map. The record must have passed [`fits`].
pub(crate) fn apply(map: &mut CacheMap, record: &RecoveredRecord) {
    let line = |placed: &AddressedEntry| match placed.entry {
        RingEntry::Data { sector, .. } => Some(sector.line()),
        RingEntry::Range { .. } => None,
    };
    map.look_ahead(record.entries.iter().filter_map(line));
    for placed in &record.entries {
        match placed.entry {
            RingEntry::Data {
                sector,
                sectors,
                crc,
            } => {
                map.insert(LogFragment::new(sector, sectors, placed.addr, crc));
            }
            RingEntry::Range {
                kind,
                sector: Sector(start),
                sectors,
            } => {
                let mark = RangeState {
                    kind,
                    record: record.seq,
                };
                map.mark(start..start + sectors, Some(mark));
            }
        }
    }
}

/// Returns the valid superblock of a write cache's log that fits on this device.
fn usable<'a>(
    copies: &'a RingSuperblockPair,
    log: &dyn Device,
    accept_loss: bool,
) -> Result<(&'a RingSuperblock, SuperblockPayload), DcdAttachError> {
    let superblock = if accept_loss {
        copies.newest_readable().map_err(LogOpenError::from)?
    } else {
        copies.newest().map_err(LogOpenError::from)?
    };
    forebay_ring_log::fits_device(superblock, log)?;
    let payload = SuperblockPayload::decode(&superblock.layer).ok_or(DcdAttachError::NotOurs)?;
    Ok((superblock, payload))
}

/// Rejects a log that was abandoned after a failure, according to its superblock or to the failed-log record.
async fn not_abandoned(
    superblock: &RingSuperblock,
    payload: &SuperblockPayload,
    witness: Option<&dyn FailedLogRegistry>,
) -> Result<(), DcdAttachError> {
    if superblock.abandoned {
        let lost = ByteLen(payload.lost_sectors * SECTOR_BYTES);
        return Err(DcdAttachError::Abandoned { lost });
    }
    let recorded = is_recorded(witness, superblock.volume, superblock.epoch.0).await;
    if recorded.map_err(|error| DcdAttachError::Witness(std::sync::Arc::new(error)))? {
        Err(DcdAttachError::GivenUp)
    } else {
        Ok(())
    }
}

/// Returns a note for each copy of the superblock that is repaired.
fn repaired(copies: &RingSuperblockPair) -> impl Iterator<Item = String> {
    let copies = [
        ("A", copies.a.as_ref().err()),
        ("B", copies.b.as_ref().err()),
    ];
    let broken = copies
        .into_iter()
        .filter_map(|(name, error)| Some((name, error?)));
    broken.map(|(name, error)| format!("copy {name} of the superblock was repaired: {error}"))
}

impl DcdVolume {
    /// Attaches the volume: recovers the log, begins a new epoch, and serves.
    ///
    /// The caller must hold `log` and `data` exclusively.
    ///
    /// # Errors
    /// If durable data is missing, or the two devices do not belong together in their present state. Then neither
    /// device was changed. If a device fails; then the next attach finds the same state as this attach.
    pub async fn attach(
        rt: Rt,
        log: Rc<dyn Device>,
        data: Rc<dyn Device>,
        identity: DataIdentity,
        options: AttachOptions,
    ) -> Result<(DcdVolume, AttachReport), DcdAttachError> {
        DcdVolume::attach_witnessed(rt, log, data, identity, options, None).await
    }

    /// Attaches the volume like [`DcdVolume::attach`], with storage for failed-log records.
    ///
    /// # Errors
    /// As for [`DcdVolume::attach`]. Also if this log was abandoned, or the failed-log record cannot be read.
    pub async fn attach_witnessed(
        rt: Rt,
        log: Rc<dyn Device>,
        data: Rc<dyn Device>,
        identity: DataIdentity,
        options: AttachOptions,
        witness: Option<Rc<dyn FailedLogRegistry>>,
    ) -> Result<(DcdVolume, AttachReport), DcdAttachError> {
        let attached = attach_engine(rt, log, data, identity, options, witness);
        let (running, report) = attached.await?;
        Ok((DcdVolume::new(running), report))
    }
}

/// Recovers a log, begins a new epoch, and starts an engine; see [`DcdVolume::attach_witnessed`].
pub(crate) async fn attach_engine(
    rt: Rt,
    log: Rc<dyn Device>,
    data: Rc<dyn Device>,
    identity: DataIdentity,
    options: AttachOptions,
    witness: Option<Rc<dyn FailedLogRegistry>>,
) -> Result<(RunningEngine, AttachReport), DcdAttachError> {
    let log: Rc<dyn Device> = Rc::new(CheckedDevice::new(log, "log"));
    let data: Rc<dyn Device> = Rc::new(CheckedDevice::new(data, "data"));
    let copies = forebay_ring_log::read_superblocks(&*log).await?;
    let (superblock, mut payload) = usable(&copies, &*log, options.accept_loss)?;
    not_abandoned(superblock, &payload, witness.as_deref()).await?;
    let accept = options.accept_changed;
    let judged = judge(&payload, superblock.clean, &*data, &identity, accept).await?;
    let PairedDevice { len, mut notes } = judged;
    notes.extend(grown(payload.data.len, len, data.geometry().len));
    notes.extend(repaired(&copies));
    // Data that lies only in the device's cache may be lost at the next power cut. Destaging may have written it
    // before the process died, or another program may have written it without the cache and flushes it through this
    // volume. The recorded fingerprint, and the flushes this volume will acknowledge, need this data to be durable.
    data.flush().await?;
    payload.fingerprint = Fingerprint::take(&*data, len).await?;
    // The superblock of the new epoch records a new length. Until the superblock is durable, the old length is
    // valid: no record concerns sectors behind it.
    payload.data = DataIdentity { len, ..identity };
    let map = RefCell::new(CacheMap::to_recover(RingGeometry::of(superblock)));
    let layer = payload.encode();
    let (log, workers, recovery) = forebay_ring_log::open(
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
            "attached without {} and all later records, as requested",
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
    let mut engine = DcdEngine::new(rt, log, data, options, map, payload);
    engine.witness = witness;
    Ok((RunningEngine::start(engine, workers), report))
}
