//! `sleds fits hist`: LHEASOFT's fimhisto. Copies a file and appends the histogram of an image's
//! values as a table.
//!
//! The paper's fimhisto makes three passes: copy, range, bins (its section 5.3). The copy is made in
//! file order; the others in the order that costs least. Counting does not depend on the order.

use std::io::{Read as _, Seek as _, SeekFrom, Write as _};

use anyhow::{Context as _, Result, bail};
use sleds::Plan;

use super::checksum::{self, Sum};
use super::hdu::{Fits, Which};
use super::header::{BLOCK, Header, real};
use super::image::Image;
use super::pass;
use super::target::Target;

/// More bins are a mistake in `binsize`.
const BINS_MAX: f64 = 1e8;

/// From which value to which; `None` is the data's own least or greatest.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Range {
    pub(super) from: Option<f64>,
    pub(super) to: Option<f64>,
}

impl Range {
    /// Reads `0:100`, `0,100`, `0-100`, `-` or `INDEF`; an end that is missing or `INDEF` is the
    /// data's.
    pub(super) fn parse(text: &str) -> Option<Range> {
        let text = text.trim();
        if matches!(text, "" | "-") || text.eq_ignore_ascii_case("INDEF") {
            return Some(Range::default());
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
            in_order.then_some(Range { from, to })
        };
        if let Some((from, to)) = text.split_once([':', ',']) {
            return both(from, to);
        }
        // A dash may also be a sign, or an exponent's.
        let dashes = text.match_indices('-').map(|(at, _)| at);
        dashes
            .filter(|at| *at > 0)
            .find_map(|at| both(&text[..at], &text[at + 1..]))
    }
}

/// What to count.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Bins {
    from: f64,
    to: f64,
    size: f64,
    count: usize,
}

impl Bins {
    fn new(from: f64, to: f64, size: f64) -> Result<Bins> {
        let count = ((to - from) / size).ceil().max(1.0);
        if count > BINS_MAX {
            bail!("{count} bins are too many: {from} to {to} in steps of {size}");
        }
        Ok(Bins {
            from,
            to,
            size,
            count: count as usize,
        })
    }

    /// The bin of a value: its lower edge belongs to it; the range's upper end to the last.
    fn of(&self, value: f64) -> Option<usize> {
        let inside = self.from <= value && value <= self.to;
        inside.then(|| (((value - self.from) / self.size) as usize).min(self.count - 1))
    }
}

/// What is asked for.
pub(super) struct Job<'a> {
    pub(super) which: &'a Which,
    pub(super) range: Range,
    pub(super) binsize: f64,
    pub(super) plan: Plan,
}

/// Makes `target` from `fits`.
pub(super) fn hist(fits: &mut Fits, job: &Job<'_>, mut target: Target) -> Result<()> {
    let (number, image) = fits.image(job.which)?;
    copy(fits, &mut target)?;
    let (from, to) = match (job.range.from, job.range.to) {
        (Some(from), Some(to)) => (from, to),
        (from, to) => {
            let found = extent(fits, number, &image, job.plan)?;
            let (least, greatest) = found.context("has no pixel with a value")?;
            (from.unwrap_or(least), to.unwrap_or(greatest))
        }
    };
    if from > to {
        bail!("has no values between {from} and {to}");
    }
    let bins = Bins::new(from, to, job.binsize)?;
    let counts = count(fits, number, &image, &bins, job.plan)?;
    let table = table(&bins, &counts, number);
    target.file.write_all(&table).context("cannot write")?;
    target.finish()
}

/// The first pass: all HDUs as they are. What is behind the last one is left out.
fn copy(fits: &mut Fits, target: &mut Target) -> Result<()> {
    let end = fits.bytes.min(fits.file_bytes);
    fits.file.seek(SeekFrom::Start(0))?;
    let copied = std::io::copy(&mut (&fits.file).take(end), &mut target.file)?;
    if copied < end {
        bail!("became shorter while it was copied");
    }
    // The last block may lack what fills it, as some programs leave it.
    let missing = fits.bytes - end;
    target.file.write_all(&vec![0; missing as usize])?;
    Ok(())
}

/// The second pass: the least and the greatest value.
fn extent(fits: &Fits, number: usize, image: &Image, plan: Plan) -> Result<Option<(f64, f64)>> {
    let mut found: Option<(f64, f64)> = None;
    let unit = image.stored.size() as u64;
    pass::over(fits, &fits.hdus[number], unit, plan, |_, bytes| {
        let values = image.raw(bytes).filter_map(|raw| image.worth(raw));
        for value in values.filter(|value| value.is_finite()) {
            let (least, greatest) = found.get_or_insert((value, value));
            *least = least.min(value);
            *greatest = greatest.max(value);
        }
        Ok(())
    })?;
    Ok(found)
}

/// The third pass: how many values are in each bin.
fn count(fits: &Fits, number: usize, image: &Image, bins: &Bins, plan: Plan) -> Result<Vec<u64>> {
    let mut counts = vec![0; bins.count];
    let unit = image.stored.size() as u64;
    pass::over(fits, &fits.hdus[number], unit, plan, |_, bytes| {
        let values = image.raw(bytes).filter_map(|raw| image.worth(raw));
        for bin in values.filter_map(|value| bins.of(value)) {
            counts[bin] += 1;
        }
        Ok(())
    })?;
    Ok(counts)
}

/// The histogram as a binary table (FITS standard 4.0, section 7.3).
fn table(bins: &Bins, counts: &[u64], number: usize) -> Vec<u8> {
    let mut data = Vec::with_capacity(counts.len() * 24 + BLOCK);
    for (bin, count) in counts.iter().enumerate() {
        let middle = bins.from + (bin as f64 + 0.5) * bins.size;
        data.extend_from_slice(&middle.to_be_bytes());
        data.extend_from_slice(&count.to_be_bytes());
        data.extend_from_slice(&(*count as f64).sqrt().to_be_bytes());
    }
    data.resize(data.len().next_multiple_of(BLOCK), 0);
    let mut header = Header::default();
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
    let mut sum = Sum::default();
    sum.add(&data);
    checksum::put(&mut header, sum);
    let mut bytes = header.to_bytes();
    bytes.append(&mut data);
    bytes
}
