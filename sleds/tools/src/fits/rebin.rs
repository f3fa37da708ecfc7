//! `sleds fits bin`: LHEASOFT's fimgbin. Makes a smaller image whose pixels are sums or averages of rectangles of the
//! source image.
//!
//! Rows may arrive in any order. A pixel is the sum of partial sums, one for each of its rows. The partial sums are
//! added in the order of the rows after the last row has arrived, so floating-point results do not depend on the order
//! of reading. Whole numbers are added exactly.

use std::collections::HashMap;
use std::os::unix::fs::FileExt as _;

use anyhow::{Context as _, Result, bail};
use sleds::ReadPlan;

use super::checksum::{self, FitsChecksum};
use super::hdu::{FitsFile, HduSelector};
use super::header::{BLOCK, FitsHeader, name, real};
use super::image::{FitsImage, PixelFormat, RawPixel};
use super::pass::UnitPass;
use super::target::FitsTarget;

/// Options of the command.
pub(super) struct RebinJob<'a> {
    pub(super) which: &'a HduSelector,
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) average: bool,
    pub(super) stored: Option<PixelFormat>,
    pub(super) plan: ReadPlan,
}

/// A partial sum of pixels: stored whole numbers, or floating-point values.
#[derive(Clone, Copy, Default, Debug)]
struct PixelSum {
    whole: i128,
    float: f64,
    /// Number of defined pixels.
    count: u64,
}

/// Rows of the image that form one row of the result. Some rows may not have arrived yet.
struct RowBand {
    rows: Vec<Option<Vec<PixelSum>>>,
    missing: u64,
}

/// The shape of the result.
struct RebinShape {
    /// Pixels of a row of the image, and rows of a plane.
    width: u64,
    height: u64,
    /// Pixels of a row of the result, and rows of a plane.
    out_width: u64,
    out_height: u64,
    planes: u64,
}

/// Makes `target` from `fits`.
pub(super) fn bin(fits: &FitsFile, job: &RebinJob<'_>, mut target: FitsTarget) -> Result<()> {
    let (number, image) = fits.image(job.which)?;
    let hdu = &fits.hdus[number];
    let y = if image.axes.len() == 1 { 1 } else { job.y };
    let height = image.axes.get(1).copied().unwrap_or(1);
    let shape = RebinShape {
        width: image.axes[0],
        height,
        out_width: image.axes[0] / job.x,
        out_height: height / y,
        planes: image.axes.iter().skip(2).product(),
    };
    if shape.out_width == 0 || shape.out_height == 0 {
        let (x, width) = (job.x, shape.width);
        bail!("has {width} by {height} pixels, less than one bin of {x} by {y}");
    }
    let stored = job.stored.unwrap_or(image.stored);
    let mut result = Rebin {
        image: &image,
        out: RebinFormat::new(&image, stored, job.average),
        shape,
        x: job.x,
        y,
        bands: HashMap::new(),
    };
    let mut header = result.header(&hdu.header, job)?;
    let sums = header.value("CHECKSUM").or(header.value("DATASUM"));
    let summed = sums.is_some();
    if summed {
        // Adds both checksum cards now, since they change the length of the header and the offset of the data.
        checksum::put(&mut header, FitsChecksum::default());
    }
    let data_at = header.blocks_bytes();
    // For an image with one axis, a unit is a bin; otherwise a row.
    let per_unit = match image.axes.len() {
        1 => job.x,
        _ => result.shape.width,
    };
    let unit = per_unit * image.stored.size() as u64;
    let row_bytes = (unit as usize).max(1);
    let out_row = match image.axes.len() {
        1 => stored.size() as u64,
        _ => result.shape.out_width * stored.size() as u64,
    };
    let pixels = result.shape.out_width * result.shape.out_height * result.shape.planes;
    let data_bytes = pixels * stored.size() as u64;
    let end = data_at + data_bytes.next_multiple_of(BLOCK as u64);
    target.expect(end, fits.bytes, job.plan);
    let mut pass = UnitPass::over_pixels(fits, hdu, &image, unit, job.plan)?;
    while let Some(units) = pass.next()? {
        for (number, row) in (units.first..).zip(units.bytes.chunks_exact(row_bytes)) {
            if let Some((at, done)) = result.row(number, row)? {
                target.write_at(&done, data_at + at * out_row)?;
            }
        }
    }
    target.file.set_len(end).context("cannot write")?;
    if summed {
        checksum::put(&mut header, sum_of(&target, data_at, end)?);
    }
    target.write_at(&header.to_bytes(), 0)?;
    target.finish()
}

fn sum_of(target: &FitsTarget, from: u64, to: u64) -> Result<FitsChecksum> {
    let mut sum = FitsChecksum::default();
    let mut buffer = vec![0; BLOCK * 100];
    let mut at = from;
    while at < to {
        let n = (buffer.len() as u64).min(to - at) as usize;
        target.file.read_exact_at(&mut buffer[..n], at)?;
        sum.add(&buffer[..n]);
        at += n as u64;
    }
    Ok(sum)
}

struct Rebin<'a> {
    image: &'a FitsImage,
    out: RebinFormat<'a>,
    shape: RebinShape,
    x: u64,
    y: u64,
    bands: HashMap<u64, RowBand>,
}

impl Rebin<'_> {
    /// Adds a row of the image. Returns a completed row of the result and its number.
    fn row(&mut self, number: u64, bytes: &[u8]) -> Result<Option<(u64, Vec<u8>)>> {
        let (plane, row) = (number / self.shape.height, number % self.shape.height);
        let (band, part) = match self.image.axes.len() {
            1 => (number, 0),
            _ if row >= self.shape.out_height * self.y => return Ok(None),
            _ => (plane * self.shape.out_height + row / self.y, row % self.y),
        };
        let sums = self.parts(bytes);
        let y = self.y;
        let waiting = self.bands.entry(band).or_insert_with(|| RowBand {
            rows: vec![None; y as usize],
            missing: y,
        });
        waiting.rows[part as usize] = Some(sums);
        waiting.missing -= 1;
        if waiting.missing > 0 {
            return Ok(None);
        }
        let complete = self.bands.remove(&band).expect("it was there just now");
        let mut rows = complete.rows.into_iter().flatten();
        let mut total = rows.next().unwrap_or_default();
        for row in rows {
            for (sum, part) in total.iter_mut().zip(row) {
                sum.whole += part.whole;
                sum.float += part.float;
                sum.count += part.count;
            }
        }
        let mut done = Vec::with_capacity(total.len() * self.out.stored.size());
        for (column, sum) in total.iter().enumerate() {
            let pixel = self.out.pixel(sum);
            let pixel = pixel.and_then(|pixel| self.out.put(&mut done, pixel));
            if let Err(why) = pixel {
                let (x, y) = match self.image.axes.len() {
                    1 => (band + 1, 1),
                    _ => (column as u64 + 1, band + 1),
                };
                bail!("{why} (pixel {x} of row {y} of the result)");
            }
        }
        Ok(Some((band, done)))
    }

    /// Returns the partial sums of a row.
    fn parts(&self, bytes: &[u8]) -> Vec<PixelSum> {
        let size = self.image.stored.size() * self.x as usize;
        let parts = bytes.chunks_exact(size).map(|part| {
            let mut sum = PixelSum::default();
            for raw in self.image.raw(part) {
                match raw {
                    RawPixel::Int(n) if Some(n) == self.image.blank => continue,
                    RawPixel::Int(n) => sum.whole += i128::from(n),
                    RawPixel::Float(x) if x.is_nan() => continue,
                    RawPixel::Float(x) => sum.float += x,
                }
                sum.count += 1;
            }
            sum
        });
        parts.collect()
    }

    /// Returns the header of the result: the image's header with the changed keywords.
    fn header(&self, from: &FitsHeader, job: &RebinJob<'_>) -> Result<FitsHeader> {
        let mut header = from.clone();
        let dropped = ["XTENSION", "SIMPLE", "PCOUNT", "GCOUNT", "INHERIT"];
        header.remove(|keyword| dropped.contains(&keyword));
        header.insert(0, "SIMPLE", "T", "conforms to the FITS standard");
        let stored = self.out.stored;
        header.set("BITPIX", &stored.bitpix().to_string());
        header.set("NAXIS1", &self.shape.out_width.to_string());
        if self.image.axes.len() > 1 {
            header.set("NAXIS2", &self.shape.out_height.to_string());
        }
        if !self.out.keeps_scale {
            header.remove(|keyword| ["BSCALE", "BZERO"].contains(&keyword));
        }
        if stored.is_float() {
            header.remove(|keyword| keyword == "BLANK");
        }
        // These keywords describe the former pixels.
        header.remove(|keyword| ["DATAMIN", "DATAMAX"].contains(&keyword));
        coordinates(&mut header, [self.x, self.y]).map_err(anyhow::Error::msg)?;
        let what = if job.average { "averages" } else { "sums" };
        header.history(&format!(
            "sleds fits bin: {what} of {} by {} pixels",
            self.x, self.y
        ));
        Ok(header)
    }
}

/// Changes the coordinates of the reference pixel and the steps, in all coordinate descriptions.
fn coordinates(header: &mut FitsHeader, bins: [u64; 2]) -> Result<(), String> {
    let keywords: Vec<String> = header.cards().iter().map(|c| name(c).to_owned()).collect();
    for keyword in keywords {
        let plain = keyword.trim_end_matches(|c: char| c.is_ascii_uppercase());
        let axis = match plain.chars().last() {
            Some('1') => 0,
            Some('2') => 1,
            _ => continue,
        };
        let factor = bins[axis] as f64;
        let stem = &plain[..plain.len() - 1];
        let is_cd = stem.len() == 4 && stem.starts_with("CD") && stem.ends_with('_');
        let changed = match stem {
            "CRPIX" => |value: f64, factor: f64| (value - 0.5) / factor + 0.5,
            "CDELT" => |value, factor| value * factor,
            _ if is_cd => |value, factor| value * factor,
            _ => continue,
        };
        if let Some(value) = header.real(&keyword)? {
            header.set(&keyword, &real(changed(value, factor)));
        }
    }
    Ok(())
}

/// Storage format of the result.
struct RebinFormat<'a> {
    image: &'a FitsImage,
    stored: PixelFormat,
    average: bool,
    /// True if `BSCALE`, `BZERO` and `BLANK` are kept and keep their meaning.
    keeps_scale: bool,
}

impl<'a> RebinFormat<'a> {
    fn new(image: &'a FitsImage, stored: PixelFormat, average: bool) -> RebinFormat<'a> {
        RebinFormat {
            image,
            stored,
            average,
            keeps_scale: stored.is_float() == image.stored.is_float(),
        }
    }

    /// Returns a pixel of the result; `None` if all its source pixels are undefined.
    fn pixel(&self, sum: &PixelSum) -> Result<Option<RawPixel>, String> {
        if sum.count == 0 {
            return Ok(None);
        }
        if !self.keeps_scale {
            return Ok(Some(RawPixel::Float(self.value(sum))));
        }
        let count = sum.count as f64;
        let (scale, zero) = (self.image.scale, self.image.zero);
        Ok(Some(match (self.image.stored.is_float(), self.average) {
            (true, true) => RawPixel::Float(sum.float / count),
            // In the stored number, `zero` is contained exactly once.
            (true, false) if scale != 1.0 || zero != 0.0 => {
                RawPixel::Float(sum.float + (count - 1.0) * (zero / scale))
            }
            (true, false) => RawPixel::Float(sum.float),
            (false, true) => RawPixel::Int(rounded(sum.whole, sum.count)?),
            (false, false) => self.whole_sum(sum)?,
        }))
    }

    /// Returns the sum or the average as a physical value. Whole numbers are added before they become doubles, since
    /// the stored numbers of an unsigned image (`BZERO` 2⁶³) are large and cancel `BZERO`.
    fn value(&self, sum: &PixelSum) -> f64 {
        let count = sum.count as f64;
        let (scale, zero) = (self.image.scale, self.image.zero);
        match self.image.whole_zero() {
            Some(zero) if !self.image.stored.is_float() => {
                let total = sum.whole + i128::from(sum.count) * zero;
                if !self.average {
                    return total as f64;
                }
                let (whole, rest) = (total / i128::from(sum.count), total % i128::from(sum.count));
                whole as f64 + rest as f64 / count
            }
            _ => {
                let stored = sum.whole as f64 + sum.float;
                if self.average {
                    stored / count * scale + zero
                } else {
                    stored * scale + count * zero
                }
            }
        }
    }

    /// Returns the sum of whole numbers in the storage format. The stored sum contains `BZERO` once, like each pixel.
    fn whole_sum(&self, sum: &PixelSum) -> Result<RawPixel, String> {
        let offset = self.image.zero / self.image.scale;
        let more = (sum.count - 1) as f64 * offset;
        let total = if offset.fract() == 0.0 && offset.abs() < 1e20 {
            sum.whole + i128::from(sum.count - 1) * offset as i128
        } else {
            sum.whole + more.round_ties_even() as i128
        };
        match i64::try_from(total) {
            Ok(total) => Ok(RawPixel::Int(total)),
            Err(_) => Err(self.overflow(&total.to_string())),
        }
    }

    fn overflow(&self, value: &str) -> String {
        let bitpix = self.stored.bitpix();
        format!("{value} does not fit BITPIX {bitpix}; choose another by --bitpix, or --average")
    }

    /// Writes a pixel.
    fn put(&self, to: &mut Vec<u8>, pixel: Option<RawPixel>) -> Result<(), String> {
        if !self.stored.is_float() {
            return self.put_whole(to, pixel);
        }
        let value = match pixel {
            None => f64::NAN,
            Some(RawPixel::Int(n)) => n as f64,
            Some(RawPixel::Float(x)) => x,
        };
        match self.stored {
            PixelFormat::F32 => {
                let small = value as f32;
                if small.is_infinite() && value.is_finite() {
                    return Err(self.overflow(&format!("{value:e}")));
                }
                to.extend_from_slice(&small.to_be_bytes());
            }
            _ => to.extend_from_slice(&value.to_be_bytes()),
        }
        Ok(())
    }

    fn put_whole(&self, to: &mut Vec<u8>, pixel: Option<RawPixel>) -> Result<(), String> {
        let blank = self.image.blank;
        let value: i128 = match pixel {
            None => match blank {
                Some(blank) => blank.into(),
                None => return Err("nothing is defined here, and there is no BLANK".into()),
            },
            Some(RawPixel::Int(n)) => n.into(),
            Some(RawPixel::Float(x)) if !x.is_finite() => {
                return Err(self.overflow(&x.to_string()));
            }
            Some(RawPixel::Float(x)) => x.round_ties_even() as i128,
        };
        let (least, greatest) = self.stored.range();
        if !(least..=greatest).contains(&value) {
            return Err(self.overflow(&value.to_string()));
        }
        if pixel.is_some() && blank.map(i128::from) == Some(value) {
            return Err(format!(
                "{value} is what BLANK is, so it would not be defined"
            ));
        }
        // The range was checked, so the cast removes only sign bits.
        let bytes = (value as i64).to_be_bytes();
        to.extend_from_slice(&bytes[8 - self.stored.size()..]);
        Ok(())
    }
}

/// Divides a whole number, and rounds to nearest, ties to even.
fn rounded(sum: i128, count: u64) -> Result<i64, String> {
    let count = i128::from(count);
    let (mut quotient, rest) = (sum.div_euclid(count), sum.rem_euclid(count));
    let twice = rest * 2;
    if twice > count || twice == count && quotient % 2 != 0 {
        quotient += 1;
    }
    i64::try_from(quotient).map_err(|_| "the average does not fit".to_owned())
}
