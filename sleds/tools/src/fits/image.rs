//! Images: the format of their pixels, and the values of the pixels.

use super::header::FitsHeader;

/// Storage format of a pixel: `BITPIX`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PixelFormat {
    U8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl PixelFormat {
    pub(super) fn of(bitpix: i64) -> Option<PixelFormat> {
        Some(match bitpix {
            8 => PixelFormat::U8,
            16 => PixelFormat::I16,
            32 => PixelFormat::I32,
            64 => PixelFormat::I64,
            -32 => PixelFormat::F32,
            -64 => PixelFormat::F64,
            _ => return None,
        })
    }

    pub(super) fn bitpix(self) -> i64 {
        match self {
            PixelFormat::U8 => 8,
            PixelFormat::I16 => 16,
            PixelFormat::I32 => 32,
            PixelFormat::I64 => 64,
            PixelFormat::F32 => -32,
            PixelFormat::F64 => -64,
        }
    }

    /// Returns the bytes of a pixel.
    pub(super) fn size(self) -> usize {
        self.bitpix().unsigned_abs() as usize / 8
    }

    pub(super) fn is_float(self) -> bool {
        self.bitpix() < 0
    }

    /// Returns the least and the greatest whole number of the format.
    pub(super) fn range(self) -> (i128, i128) {
        match self {
            PixelFormat::U8 => (0, 255),
            PixelFormat::I16 => (i16::MIN.into(), i16::MAX.into()),
            PixelFormat::I32 => (i32::MIN.into(), i32::MAX.into()),
            _ => (i64::MIN.into(), i64::MAX.into()),
        }
    }
}

/// A pixel in its storage format.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum RawPixel {
    Int(i64),
    Float(f64),
}

/// The description of an image in its header.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct FitsImage {
    pub(super) stored: PixelFormat,
    /// Lengths of the axes, the fastest first; never 0.
    pub(super) axes: Vec<u64>,
    pub(super) scale: f64,
    pub(super) zero: f64,
    /// The whole number that marks an undefined pixel.
    pub(super) blank: Option<i64>,
}

impl FitsImage {
    /// Reads a header. The error text continues a sentence that begins with the file or HDU.
    pub(super) fn of(header: &FitsHeader) -> Result<FitsImage, String> {
        if header.logical("GROUPS") {
            return Err("has random groups, not an image".into());
        }
        if header.logical("ZIMAGE") {
            return Err("has a compressed image; unpack it first (funpack)".into());
        }
        if let Some(kind) = header.text("XTENSION").filter(|kind| kind != "IMAGE") {
            return Err(format!("is a {kind} extension, not an image"));
        }
        let missing = |keyword: &str| format!("is broken: {keyword} is missing");
        let bitpix = header.integer("BITPIX")?.ok_or_else(|| missing("BITPIX"))?;
        let stored = PixelFormat::of(bitpix).ok_or_else(|| format!("has BITPIX {bitpix}"))?;
        let count = header.integer("NAXIS")?.ok_or_else(|| missing("NAXIS"))?;
        let mut axes = Vec::new();
        for axis in 1..=count {
            let keyword = format!("NAXIS{axis}");
            let length = header.integer(&keyword)?.ok_or_else(|| missing(&keyword))?;
            axes.push(u64::try_from(length).map_err(|_| format!("has {keyword} {length}"))?);
        }
        if axes.is_empty() || axes.contains(&0) {
            return Err("has no image data".into());
        }
        let scale = header.real("BSCALE")?.unwrap_or(1.0);
        if scale == 0.0 {
            return Err("has BSCALE 0".into());
        }
        let blank = if stored.is_float() {
            None
        } else {
            header.integer("BLANK")?
        };
        Ok(FitsImage {
            stored,
            axes,
            scale,
            zero: header.real("BZERO")?.unwrap_or(0.0),
            blank,
        })
    }

    /// Returns the number of bytes of the pixels. The data of an HDU may continue behind the pixels (`PCOUNT`,
    /// `GCOUNT`).
    pub(super) fn pixel_bytes(&self) -> u64 {
        self.axes.iter().product::<u64>() * self.stored.size() as u64
    }

    /// Returns `BZERO` if values are whole numbers that differ from the stored numbers only by `BZERO`.
    pub(super) fn whole_zero(&self) -> Option<i128> {
        let whole = self.scale == 1.0 && self.zero.fract() == 0.0 && self.zero.abs() < 1e30;
        whole.then_some(self.zero as i128)
    }

    /// Returns the pixels in `bytes`, which must be whole pixels.
    pub(super) fn raw<'a>(&self, bytes: &'a [u8]) -> Box<dyn Iterator<Item = RawPixel> + 'a> {
        fn each<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> {
            let chunks = bytes.chunks_exact(N);
            chunks.map(|chunk| chunk.try_into().expect("a chunk has this length"))
        }
        match self.stored {
            PixelFormat::U8 => Box::new(bytes.iter().map(|b| RawPixel::Int((*b).into()))),
            PixelFormat::I16 => {
                Box::new(each(bytes).map(|b| RawPixel::Int(i16::from_be_bytes(b).into())))
            }
            PixelFormat::I32 => {
                Box::new(each(bytes).map(|b| RawPixel::Int(i32::from_be_bytes(b).into())))
            }
            PixelFormat::I64 => Box::new(each(bytes).map(|b| RawPixel::Int(i64::from_be_bytes(b)))),
            PixelFormat::F32 => {
                Box::new(each(bytes).map(|b| RawPixel::Float(f32::from_be_bytes(b).into())))
            }
            PixelFormat::F64 => {
                Box::new(each(bytes).map(|b| RawPixel::Float(f64::from_be_bytes(b))))
            }
        }
    }

    /// Returns the value of a stored number; `None` if the pixel is undefined.
    pub(super) fn worth(&self, raw: RawPixel) -> Option<f64> {
        match raw {
            RawPixel::Int(n) if Some(n) == self.blank => None,
            // Integer arithmetic is lossless if `BZERO` turns signed numbers into unsigned ones.
            RawPixel::Int(n) => Some(match self.whole_zero() {
                Some(zero) => (i128::from(n) + zero) as f64,
                None => n as f64 * self.scale + self.zero,
            }),
            RawPixel::Float(x) if x.is_nan() => None,
            RawPixel::Float(x) if self.scale == 1.0 && self.zero == 0.0 => Some(x),
            RawPixel::Float(x) => Some(x * self.scale + self.zero),
        }
    }
}
