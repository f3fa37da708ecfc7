//! `sleds fits hist`: LHEASOFT's fimhisto. Copies a file and appends the histogram of an image's values as a table.
//!
//! The paper's fimhisto makes three passes: copy, range, bins (its section 5.3). Neither copying nor counting depends
//! on the order, so each pass runs in the order that costs least, and the copy also examines the data. With a range, a
//! single pass does everything; without a range, two passes are needed.

use anyhow::{Context as _, Result, bail};
use sleds::ReadPlan;

use super::checksum::{self, FitsChecksum};
use super::hdu::{FitsFile, HduSelector};
use super::header::{BLOCK, FitsHeader, real};
use super::image::FitsImage;
use super::pass::UnitPass;
use super::target::FitsTarget;

/// Maximum number of bins. More bins are a mistake in `binsize`.
const BINS_MAX: f64 = 1e8;

/// Limits of the values; `None` stands for the least or greatest value of the data.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct HistRange {
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
}

impl HistRange {
    /// Parses `0:100`, `0,100`, `0-100`, `-` or `INDEF`. A missing limit, or `INDEF`, is the data's own.
    pub(super) fn parse(text: &str) -> Option<HistRange> {
        let text = text.trim();
        if matches!(text, "" | "-") || text.eq_ignore_ascii_case("INDEF") {
            return Some(HistRange::default());
        }
        let end = |text: &str| -> Option<Option<f64>> {
            let text = text.trim();
            if text.is_empty() || text.eq_ignore_ascii_case("INDEF") {
                return Some(None);
            }
            let number: f64 = text.parse().ok()?;
            number.is_finite().then_some(Some(number))
        };
        let both = |from: &str, to: &str| {
            let (from, to) = (end(from)?, end(to)?);
            let in_order = from.zip(to).is_none_or(|(from, to)| from <= to);
            in_order.then_some(HistRange { from, to })
        };
        if let Some((from, to)) = text.split_once([':', ',']) {
            return both(from, to);
        }
        // A dash may also be the sign of a number or of an exponent.
        let dashes = text.match_indices('-').map(|(at, _)| at);
        dashes
            .filter(|at| *at > 0)
            .find_map(|at| both(&text[..at], &text[at + 1..]))
    }
}

/// Bins of the histogram.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct HistBins {
    from: f64,
    to: f64,
    size: f64,
    count: usize,
}

impl HistBins {
    fn new(from: f64, to: f64, size: f64) -> Result<HistBins> {
        let count = ((to - from) / size).ceil().max(1.0);
        if count > BINS_MAX {
            bail!("{count} bins are too many: {from} to {to} in steps of {size}");
        }
        Ok(HistBins {
            from,
            to,
            size,
            count: count as usize,
        })
    }

    /// Adds the values in `bytes` to `counts`.
    fn count(&self, image: &FitsImage, bytes: &[u8], counts: &mut [u64]) {
        let values = image.raw(bytes).filter_map(|raw| image.worth(raw));
        for bin in values.filter_map(|value| self.of(value)) {
            counts[bin] += 1;
        }
    }

    /// Returns the bin of a value. A bin includes its lower edge, and the last bin also the upper end of the range.
    fn of(&self, value: f64) -> Option<usize> {
        let inside = self.from <= value && value <= self.to;
        inside.then(|| (((value - self.from) / self.size) as usize).min(self.count - 1))
    }
}

/// Options of the command.
pub(super) struct HistJob<'a> {
    pub(super) which: &'a HduSelector,
    pub(super) range: HistRange,
    pub(super) binsize: f64,
    pub(super) plan: ReadPlan,
}

/// Makes `target` from `fits`.
pub(super) fn hist(fits: &FitsFile, job: &HistJob<'_>, mut target: FitsTarget) -> Result<()> {
    let (number, image) = fits.image(job.which)?;
    target.expect(fits.bytes, fits.bytes, job.plan);
    let mut copying = CopyPass {
        fits,
        number,
        image: &image,
        plan: job.plan,
        target: &mut target,
    };
    let (bins, counts) = match (job.range.from, job.range.to) {
        (Some(from), Some(to)) => {
            let bins = HistBins::new(from, to, job.binsize)?;
            let mut counts = vec![0; bins.count];
            copying.run(|bytes| bins.count(&image, bytes, &mut counts))?;
            (bins, counts)
        }
        (from, to) => {
            let mut found = None;
            copying.run(|bytes| extend(&mut found, &image, bytes))?;
            let (least, greatest) = found.context("has no pixel with a value")?;
            let (from, to) = (from.unwrap_or(least), to.unwrap_or(greatest));
            if from > to {
                bail!("has no values between {from} and {to}");
            }
            let bins = HistBins::new(from, to, job.binsize)?;
            let mut counts = vec![0; bins.count];
            let unit = image.stored.size() as u64;
            let mut pass = UnitPass::over_pixels(fits, &fits.hdus[number], &image, unit, job.plan)?;
            while let Some(units) = pass.next()? {
                bins.count(&image, units.bytes, &mut counts);
            }
            (bins, counts)
        }
    };
    target.write_at(&table(&bins, &counts, number), fits.bytes)?;
    target.finish()
}

/// The first pass: copies all HDUs, and examines the data of the selected HDU. Bytes after the last HDU are omitted.
struct CopyPass<'a> {
    fits: &'a FitsFile,
    number: usize,
    image: &'a FitsImage,
    plan: ReadPlan,
    target: &'a mut FitsTarget,
}

impl CopyPass<'_> {
    fn run(&mut self, mut look: impl FnMut(&[u8])) -> Result<()> {
        let hdu = &self.fits.hdus[self.number];
        let unit = self.image.stored.size() as u64;
        let units = self.image.pixel_bytes() / unit;
        // The padding of the last block may be missing: some programs do not write it.
        let end = self.fits.bytes.min(self.fits.file_bytes);
        let rest = hdu.data_at + units * unit;
        self.part(0, hdu.data_at, 1, &mut |_| {})?;
        self.part(hdu.data_at, units, unit, &mut look)?;
        self.part(rest, end - rest, 1, &mut |_| {})?;
        let missing = self.fits.bytes - end;
        self.target.write_at(&vec![0; missing as usize], end)
    }

    /// Copies `units` units from byte `at` on.
    fn part(&mut self, at: u64, units: u64, unit: u64, look: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut pass = UnitPass::over(self.fits, at, units, unit, self.plan)?;
        while let Some(units) = pass.next()? {
            look(units.bytes);
            self.target.write_at(units.bytes, at + units.first * unit)?;
        }
        Ok(())
    }
}

/// Updates the least and the greatest value with `bytes`.
fn extend(found: &mut Option<(f64, f64)>, image: &FitsImage, bytes: &[u8]) {
    let values = image.raw(bytes).filter_map(|raw| image.worth(raw));
    for value in values.filter(|value| value.is_finite()) {
        let (least, greatest) = found.get_or_insert((value, value));
        *least = least.min(value);
        *greatest = greatest.max(value);
    }
}

/// Returns the histogram as a binary table (FITS standard 4.0, section 7.3).
fn table(bins: &HistBins, counts: &[u64], number: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(counts.len() * 24 + BLOCK);
    for (bin, count) in counts.iter().enumerate() {
        let middle = bins.from + (bin as f64 + 0.5) * bins.size;
        data.extend_from_slice(&middle.to_be_bytes());
        data.extend_from_slice(&count.to_be_bytes());
        data.extend_from_slice(&(*count as f64).sqrt().to_be_bytes());
    }
    data.resize(data.len().next_multiple_of(BLOCK), 0);
    let mut header = FitsHeader::default();
    for (keyword, value, comment) in [
        (
            "XTENSION",
            "'BINTABLE'".to_owned(),
            "binary table extension",
        ),
        ("BITPIX", "8".into(), "bytes"),
        ("NAXIS", "2".into(), ""),
        ("NAXIS1", "24".into(), "bytes in a row"),
        ("NAXIS2", counts.len().to_string(), "bins"),
        ("PCOUNT", "0".into(), ""),
        ("GCOUNT", "1".into(), ""),
        ("TFIELDS", "3".into(), "columns"),
        ("TTYPE1", "'X       '".into(), "middle of the bin"),
        ("TFORM1", "'D       '".into(), ""),
        ("TTYPE2", "'Y       '".into(), "pixels in the bin"),
        ("TFORM2", "'K       '".into(), ""),
        ("TTYPE3", "'ERROR   '".into(), "square root of Y"),
        ("TFORM3", "'D       '".into(), ""),
        ("EXTNAME", "'HISTOGRAM'".into(), ""),
        (
            "HISTHDU",
            number.to_string(),
            "HDU of the image, 0 is the primary",
        ),
        ("HISTMIN", real(bins.from), "lower end of the range"),
        ("HISTMAX", real(bins.to), "upper end of the range"),
        ("BINSIZE", real(bins.size), "width of a bin"),
    ] {
        header.push(keyword, &value, comment);
    }
    let mut sum = FitsChecksum::default();
    sum.add(&data);
    checksum::put(&mut header, sum);
    let mut bytes = header.to_bytes();
    bytes.append(&mut data);
    bytes
}
