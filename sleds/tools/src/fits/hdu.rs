//! The HDUs of a FITS file, and the selection of an HDU.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::header::{BLOCK, FitsHeader, FitsHeaderError};
use super::image::FitsImage;

/// A header and its data.
#[derive(Debug)]
pub(super) struct Hdu {
    pub(super) header: FitsHeader,
    /// Offset of the data in the file.
    pub(super) data_at: u64,
    /// Bytes of data, without the padding of the last block.
    pub(super) data_bytes: u64,
}

/// Selection of an HDU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum HduSelector {
    /// The first HDU with an image.
    FirstImage,
    /// By number; 0 is the primary HDU.
    Number(usize),
    /// By `EXTNAME`.
    Name(String),
}

/// A FITS file with its parsed headers.
pub(super) struct FitsFile {
    pub(super) file: File,
    pub(super) hdus: Vec<Hdu>,
    /// Bytes from the first HDU to the end of the last, with the padding of its last block.
    pub(super) bytes: u64,
    /// Bytes of the file.
    pub(super) file_bytes: u64,
}

impl FitsFile {
    /// Opens a file and reads all headers.
    pub(super) fn open(path: &Path) -> Result<FitsFile> {
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        if meta.is_dir() {
            bail!("is a directory");
        }
        if !meta.is_file() {
            bail!("is not a file with a length, which reading in any order needs");
        }
        let mut fits = FitsFile {
            hdus: Vec::new(),
            bytes: 0,
            file_bytes: meta.len(),
            file: file.try_clone()?,
        };
        loop {
            file.seek(SeekFrom::Start(fits.bytes))?;
            let first = fits.hdus.is_empty();
            let header = match FitsHeader::read(&mut file, first) {
                Ok(header) => header,
                Err(FitsHeaderError::End) if first => bail!("is empty"),
                Err(FitsHeaderError::End) => return Ok(fits),
                Err(FitsHeaderError::Io(error)) => return Err(error.into()),
                // The standard allows records of another kind after the last HDU.
                Err(FitsHeaderError::Wrong(_)) if !first => return Ok(fits),
                Err(FitsHeaderError::Wrong(why)) => bail!("{why}"),
            };
            let data_bytes = data_bytes(&header).map_err(anyhow::Error::msg)?;
            let data_at = fits.bytes + header.blocks_bytes();
            let end = data_at.checked_add(data_bytes);
            let end = end.and_then(|end| end.checked_next_multiple_of(BLOCK as u64));
            fits.bytes = end.context("the header asks for more data than a file can have")?;
            fits.hdus.push(Hdu {
                header,
                data_at,
                data_bytes,
            });
            if fits.bytes >= fits.file_bytes {
                return Ok(fits);
            }
        }
    }

    /// Returns the selected image and the number of its HDU.
    pub(super) fn image(&self, which: &HduSelector) -> Result<(usize, FitsImage)> {
        let number = match which {
            HduSelector::Number(number) => *number,
            HduSelector::Name(name) => {
                let has_name = |hdu: &Hdu| {
                    let found = hdu.header.text("EXTNAME");
                    found.is_some_and(|found| found.eq_ignore_ascii_case(name))
                };
                let found = self.hdus.iter().position(has_name);
                found.with_context(|| format!("has no HDU called {name}"))?
            }
            HduSelector::FirstImage => {
                let is_image = |hdu: &Hdu| hdu.data_bytes > 0 && FitsImage::of(&hdu.header).is_ok();
                self.hdus.iter().position(is_image).unwrap_or(0)
            }
        };
        let hdu = self.hdus.get(number).with_context(|| {
            let count = self.hdus.len();
            format!("has no HDU {number}: it has {count}, counted from 0")
        })?;
        let image =
            FitsImage::of(&hdu.header).map_err(|why| anyhow::anyhow!("HDU {number} {why}"))?;
        let end = hdu.data_at + hdu.data_bytes;
        if end > self.file_bytes {
            let missing = end - self.file_bytes;
            bail!("is cut off: {missing} bytes of the data of HDU {number} are missing");
        }
        Ok((number, image))
    }
}

/// Returns the number of data bytes that a header declares.
fn data_bytes(header: &FitsHeader) -> Result<u64, String> {
    let number = |keyword: &str, usual: Option<i64>| {
        let value = header.integer(keyword)?.or(usual);
        let value = value.ok_or_else(|| format!("{keyword} is missing"))?;
        u64::try_from(value).map_err(|_| format!("{keyword} is {value}"))
    };
    let bitpix = header.integer("BITPIX")?.ok_or("BITPIX is missing")?;
    if ![8, 16, 32, 64, -32, -64].contains(&bitpix) {
        return Err(format!("BITPIX is {bitpix}"));
    }
    let axes = number("NAXIS", None)?;
    if axes > 999 {
        return Err(format!("NAXIS is {axes}"));
    }
    if axes == 0 {
        return Ok(0);
    }
    let groups = header.logical("GROUPS");
    let mut elements = Some(1_u64);
    for axis in 1..=axes {
        let length = number(&format!("NAXIS{axis}"), None)?;
        if !(groups && axis == 1 && length == 0) {
            elements = elements.and_then(|n| n.checked_mul(length));
        }
    }
    let more = number("PCOUNT", Some(0))?;
    let times = number("GCOUNT", Some(1))?;
    elements
        .and_then(|n| n.checked_add(more))
        .and_then(|n| n.checked_mul(times))
        .and_then(|n| n.checked_mul(bitpix.unsigned_abs() / 8))
        .filter(|bytes| *bytes < 1 << 62)
        .ok_or_else(|| "the header asks for more data than a file can have".to_owned())
}

/// Splits a name: `FILE`, `FILE[2]`, `FILE[NAME]` or `FILE+2`. The whole name of an existing file is not split.
pub(super) fn named(name: &OsStr) -> (PathBuf, HduSelector) {
    let whole = || (PathBuf::from(name), HduSelector::FirstImage);
    if Path::new(name).exists() {
        return whole();
    }
    let bytes = name.as_bytes();
    let text = |bytes: &[u8]| OsString::from(OsStr::from_bytes(bytes));
    if let Some(inner) = bytes.strip_suffix(b"]") {
        let Some(at) = inner.iter().rposition(|b| *b == b'[') else {
            return whole();
        };
        let which = String::from_utf8_lossy(&inner[at + 1..]).into_owned();
        return (text(&inner[..at]).into(), which_of(&which));
    }
    match bytes.iter().rposition(|b| *b == b'+') {
        Some(at) if bytes[at + 1..].iter().all(u8::is_ascii_digit) && at + 1 < bytes.len() => {
            let which = String::from_utf8_lossy(&bytes[at + 1..]).into_owned();
            (text(&bytes[..at]).into(), which_of(&which))
        }
        _ => whole(),
    }
}

/// Parses a number or a name.
pub(super) fn which_of(text: &str) -> HduSelector {
    match text.trim().parse() {
        Ok(number) => HduSelector::Number(number),
        Err(_) => HduSelector::Name(text.trim().to_owned()),
    }
}
