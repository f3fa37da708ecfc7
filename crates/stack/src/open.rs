//! Opening the devices a volume is made of, and seeing that they are two.

use std::rc::Rc;

use forebay_dcd::DataIdentity;
use forebay_device::{Device, Slice};
use forebay_os::{DeviceIdentity, OpenOptions, Opened, Ring, same_device};

use crate::{Spec, StackError};

/// An opened device, or a part of one.
pub struct Part {
    /// As it was named.
    pub spec: Spec,
    /// To be read and written.
    pub device: Rc<dyn Device>,
    /// By what to know it again. Of a part, all names carry where it lies.
    pub identity: DataIdentity,
}

/// A log and its data.
pub struct Pair {
    /// The log.
    pub log: Part,
    /// The data.
    pub data: Part,
    /// Whether both are parts of one device.
    pub shared: bool,
}

/// Opens what `spec` names.
///
/// # Errors
/// If it cannot be opened, or has no such part.
pub fn open_one(ring: &Rc<Ring>, spec: &Spec, options: OpenOptions) -> Result<Part, StackError> {
    let opened = forebay_os::open(ring, spec.path(), options)?;
    part_of(&opened, spec)
}

/// Opens a log and its data. If both are parts of one device, it is opened once.
///
/// # Errors
/// If one cannot be opened, or they have bytes in common.
pub fn open_pair(
    ring: &Rc<Ring>,
    log: &Spec,
    data: &Spec,
    options: OpenOptions,
) -> Result<Pair, StackError> {
    // By identity, not by name: links of either kind lead to the same bytes. If one of them is not
    // there, opening it says so better.
    let shared = same_device(log.path(), data.path()).unwrap_or(false);
    if !shared {
        return Ok(Pair {
            log: open_one(ring, log, options)?,
            data: open_one(ring, data, options)?,
            shared,
        });
    }
    if log.overlaps(data) {
        return Err(StackError::SameDevice {
            log: log.to_string(),
            data: data.to_string(),
            in_part: log.part().is_some() || data.part().is_some(),
        });
    }
    let opened = forebay_os::open(ring, log.path(), options)?;
    Ok(Pair {
        log: part_of(&opened, log)?,
        data: part_of(&opened, data)?,
        shared,
    })
}

fn part_of(opened: &Opened, spec: &Spec) -> Result<Part, StackError> {
    let whole = opened.device.geometry();
    let device: Rc<dyn Device> = match spec.part() {
        None => Rc::clone(&opened.device),
        Some(part) if part.end > whole.len => {
            return Err(StackError::PastTheEnd {
                spec: spec.to_string(),
                len: whole.len,
            });
        }
        Some(part) => {
            let slice = Slice::new(Rc::clone(&opened.device), part.start, part.end - part.start);
            Rc::new(slice.ok_or_else(|| StackError::Unaligned {
                spec: spec.to_string(),
                block_size: whole.block_size,
            })?)
        }
    };
    Ok(Part {
        identity: identity_of(&opened.identity, spec, device.geometry().len),
        spec: spec.clone(),
        device,
    })
}

fn identity_of(whole: &DeviceIdentity, spec: &Spec, len: u64) -> DataIdentity {
    let suffix = spec.suffix();
    let name = |name: &String| format!("{name}{suffix}");
    DataIdentity {
        len,
        path: name(&whole.path),
        names: whole.names.iter().map(name).collect(),
    }
}
