//! Passes over a part of a file in the order that costs least.

use anyhow::{Result, bail};
use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use super::hdu::{FitsFile, Hdu};
use super::image::FitsImage;

/// A pass over whole units of equal length, each exactly once.
pub(super) struct UnitPass<'f> {
    reader: FileReader<'f>,
    /// Offset of the first unit in the file.
    at: u64,
    unit: u64,
    units: u64,
    seen: u64,
}

/// Consecutive units.
pub(super) struct PassUnits<'p> {
    /// Number of the first unit.
    pub(super) first: u64,
    pub(super) bytes: &'p [u8],
}

impl<'f> UnitPass<'f> {
    /// Makes a pass over the pixels of the image in an HDU. An incomplete unit at the end is omitted.
    pub(super) fn over_pixels(
        fits: &'f FitsFile,
        hdu: &Hdu,
        image: &FitsImage,
        unit: u64,
        plan: ReadPlan,
    ) -> Result<UnitPass<'f>> {
        UnitPass::over(fits, hdu.data_at, image.pixel_bytes() / unit, unit, plan)
    }

    /// Makes a pass over `units` units of `unit` bytes, from byte `at` of the file on.
    pub(super) fn over(
        fits: &'f FitsFile,
        at: u64,
        units: u64,
        unit: u64,
        plan: ReadPlan,
    ) -> Result<UnitPass<'f>> {
        let Ok(size) = u32::try_from(unit) else {
            bail!("has rows of {unit} bytes, which is too long");
        };
        let options = ReadOptions {
            plan,
            unit: ReadUnit::Elements { start: at, size },
            ..ReadOptions::default()
        };
        // The bytes after the range must not be read.
        let reader = FileReader::before(&fits.file, at + units * unit, options)?;
        Ok(UnitPass {
            reader,
            at,
            unit,
            units,
            seen: 0,
        })
    }

    /// Returns the next units, possibly an empty list; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<PassUnits<'_>>> {
        if self.seen == self.units {
            return Ok(None);
        }
        let Some(piece) = self.reader.next_piece()? else {
            bail!("became shorter while it was read");
        };
        let first = (piece.offset - self.at) / self.unit;
        let whole = (piece.data.len() as u64 / self.unit).min(self.units - first);
        self.seen += whole;
        let bytes = &piece.data[..(whole * self.unit) as usize];
        Ok(Some(PassUnits { first, bytes }))
    }
}
