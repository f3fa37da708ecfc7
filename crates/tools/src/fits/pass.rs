//! Passes over an image's data in the order that costs least.

use anyhow::{Result, bail};
use sleds::{Plan, ReadOptions, Reader, Unit};

use super::hdu::{Fits, Hdu};

/// Gives the data of an HDU to `take`, in pieces of whole units of `unit` bytes, every unit once:
/// the number of the first one, and the bytes. What is left at the end, less than a unit, is not
/// given.
pub(super) fn over(
    fits: &Fits,
    hdu: &Hdu,
    unit: u64,
    plan: Plan,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let Ok(size) = u32::try_from(unit) else {
        bail!("has rows of {unit} bytes, which is too long");
    };
    let units = hdu.data_bytes / unit;
    let options = ReadOptions {
        plan,
        unit: Unit::Elements {
            start: hdu.data_at,
            size,
        },
        ..ReadOptions::default()
    };
    // What follows in the file is not ours.
    let end = hdu.data_at + units * unit;
    let mut reader = Reader::before(&fits.file, end, options)?;
    let mut seen = 0;
    while seen < units {
        let Some(piece) = reader.next_piece()? else {
            bail!("became shorter while it was read");
        };
        let first = (piece.offset - hdu.data_at) / unit;
        let whole = (piece.data.len() as u64 / unit).min(units - first);
        if whole > 0 {
            take(first, &piece.data[..(whole * unit) as usize])?;
            seen += whole;
        }
    }
    match seen == units {
        true => Ok(()),
        false => bail!("became shorter while it was read"),
    }
}
