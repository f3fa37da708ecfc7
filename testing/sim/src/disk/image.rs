//! Content of a disk, cheap to copy: copies share pages until one of them is written.

use std::ops::Range;
use std::rc::Rc;

/// Bytes in a page.
const PAGE: usize = 4096;
const SECTOR: usize = 512;
static ZEROES: [u8; PAGE] = [0; PAGE];
/// Pages in a chunk.
const PAGES: usize = 32;
const CHUNK: usize = PAGE * PAGES;

type ImagePage = [u8; PAGE];
/// For each sector of a page, the word that the sector repeats.
type SectorWords = [u64; PAGE / SECTOR];
type ImageChunk = [PageContent; PAGES];

/// The content of a page.
#[derive(Clone)]
enum PageContent {
    Zeroes,
    /// Each sector repeats a word of eight bytes.
    Words(Rc<SectorWords>),
    Full(Rc<ImagePage>),
}

/// Returns the word of each sector in `bytes`, if all sectors repeat a word.
fn words_of(bytes: &[u8]) -> Option<SectorWords> {
    let mut words = [0; PAGE / SECTOR];
    for (word, sector) in words.iter_mut().zip(bytes.chunks(SECTOR)) {
        let of_sector = sector.as_chunks::<8>().0;
        if of_sector.len() < 2 || of_sector[0] != of_sector[1] {
            return None;
        }
        *word = u64::from_le_bytes(of_sector[0]);
    }
    let repeat = |sector: &[u8]| sector[8..] == sector[..sector.len() - 8];
    bytes.chunks(SECTOR).all(repeat).then_some(words)
}

fn filled(words: &SectorWords) -> ImagePage {
    let mut page = [0; PAGE];
    for (sector, word) in page.chunks_exact_mut(SECTOR).zip(words) {
        sector.as_chunks_mut().0.fill(word.to_le_bytes());
    }
    page
}

impl PageContent {
    /// Copies the part from byte `from` on to `out`. Returns false for zeroes, which are not copied.
    fn read(&self, from: usize, out: &mut [u8]) -> bool {
        match self {
            PageContent::Zeroes => return false,
            PageContent::Full(page) => out.copy_from_slice(&page[from..from + out.len()]),
            PageContent::Words(words)
                if from.is_multiple_of(SECTOR) && out.len().is_multiple_of(SECTOR) =>
            {
                let sectors = out.chunks_exact_mut(SECTOR).zip(&words[from / SECTOR..]);
                for (sector, word) in sectors {
                    sector.as_chunks_mut().0.fill(word.to_le_bytes());
                }
            }
            PageContent::Words(words) => {
                out.copy_from_slice(&filled(words)[from..from + out.len()]);
            }
        }
        true
    }

    fn write(&mut self, from: usize, bytes: &[u8]) {
        if let PageContent::Full(page) = self
            && bytes.len() < PAGE
        {
            Rc::make_mut(page)[from..from + bytes.len()].copy_from_slice(bytes);
            return;
        }
        let in_sectors = from.is_multiple_of(SECTOR) && bytes.len().is_multiple_of(SECTOR);
        if let Some(new) = in_sectors.then(|| words_of(bytes)).flatten() {
            let mut words = match self {
                PageContent::Words(words) => **words,
                _ => [0; PAGE / SECTOR],
            };
            let (first, count) = (from / SECTOR, bytes.len() / SECTOR);
            words[first..first + count].copy_from_slice(&new[..count]);
            *self = PageContent::Words(Rc::new(words));
            return;
        }
        let mut page = [0; PAGE];
        if bytes.len() < PAGE {
            self.read(0, &mut page);
        }
        page[from..from + bytes.len()].copy_from_slice(bytes);
        *self = PageContent::Full(Rc::new(page));
    }

    fn is_same(&self, other: &PageContent) -> bool {
        match (self, other) {
            (PageContent::Zeroes, PageContent::Zeroes) => true,
            (PageContent::Full(one), PageContent::Full(two)) => Rc::ptr_eq(one, two) || one == two,
            (PageContent::Words(one), PageContent::Words(two)) => one == two,
            _ => self.page() == other.page(),
        }
    }

    fn page(&self) -> ImagePage {
        let mut page = [0; PAGE];
        self.read(0, &mut page);
        page
    }
}

/// The bytes of a disk. A clone costs a pointer for each 128 KiB. Pages that were never written are zeroes and take no
/// memory. Pages whose sectors repeat a word take 80 bytes each.
#[derive(Clone)]
pub struct DiskImage {
    len: u64,
    chunks: Vec<Option<Rc<ImageChunk>>>,
}

/// Returns the parts of a range by page: page number, range in the page, range in the data.
fn pages(at: u64, len: usize) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let pos = at as usize + done;
        let from = pos % PAGE;
        let n = (PAGE - from).min(len - done);
        let part = (pos / PAGE, from..from + n, done..done + n);
        done += n;
        (n > 0).then_some(part)
    })
}

impl DiskImage {
    /// Creates an image of zeroes.
    pub fn new(len: u64) -> DiskImage {
        let chunks = vec![None; (len as usize).div_ceil(CHUNK)];
        DiskImage { len, chunks }
    }

    /// Creates an image of these bytes.
    pub fn of(bytes: &[u8]) -> DiskImage {
        let mut image = DiskImage::new(bytes.len() as u64);
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            // Whole pages are compared, since tests with little optimisation spend much time here.
            if *page != ZEROES[..page.len()] {
                image.write((n * PAGE) as u64, page);
            }
        }
        image
    }

    /// Returns the length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a disk is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Appends zeroes up to a length of `len` bytes.
    pub(crate) fn grow(&mut self, len: u64) {
        self.len = self.len.max(len);
        self.chunks
            .resize((self.len as usize).div_ceil(CHUNK), None);
    }

    fn slot(&self, page: usize) -> &PageContent {
        match &self.chunks[page / PAGES] {
            Some(chunk) => &chunk[page % PAGES],
            None => &PageContent::Zeroes,
        }
    }

    fn slot_mut(&mut self, page: usize) -> &mut PageContent {
        let chunk = &mut self.chunks[page / PAGES];
        let chunk = chunk.get_or_insert_with(|| Rc::new([const { PageContent::Zeroes }; PAGES]));
        &mut Rc::make_mut(chunk)[page % PAGES]
    }

    /// Copies `out.len()` bytes from `at` on.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        for (page, from, to) in pages(at, out.len()) {
            if !self.slot(page).read(from.start, &mut out[to.clone()]) {
                out[to].fill(0);
            }
        }
    }

    /// Reads like [`DiskImage::read`], into memory that already contains zeroes.
    pub fn read_into_zeroes(&self, at: u64, out: &mut [u8]) {
        for (page, from, to) in pages(at, out.len()) {
            self.slot(page).read(from.start, &mut out[to]);
        }
    }

    /// Writes bytes from `at` on.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (page, to, from) in pages(at, bytes.len()) {
            self.slot_mut(page).write(to.start, &bytes[from]);
        }
    }

    /// Writes zeroes to a range.
    pub fn clear(&mut self, range: Range<u64>) {
        for (page, part, _) in pages(range.start, (range.end - range.start) as usize) {
            if matches!(self.slot(page), PageContent::Zeroes) {
                continue;
            }
            let slot = self.slot_mut(page);
            match part.len() {
                PAGE => *slot = PageContent::Zeroes,
                len => slot.write(part.start, &ZEROES[..len]),
            }
        }
    }

    /// Copies a range from `other`.
    pub fn copy_from(&mut self, other: &DiskImage, range: Range<u64>) {
        for (page, part, _) in pages(range.start, (range.end - range.start) as usize) {
            if part.len() == PAGE {
                let same = other.slot(page).clone();
                if !matches!(
                    (&same, self.slot(page)),
                    (PageContent::Zeroes, PageContent::Zeroes)
                ) {
                    *self.slot_mut(page) = same;
                }
                continue;
            }
            let at = (page * PAGE) as u64;
            match other.slot(page) {
                PageContent::Zeroes => self.clear(at + part.start as u64..at + part.end as u64),
                slot => {
                    let bytes = &slot.page()[part.clone()];
                    self.slot_mut(page).write(part.start, bytes);
                }
            }
        }
    }

    /// Returns true if both images have the same content. Shared pages are not compared.
    pub fn is_same(&self, other: &DiskImage) -> bool {
        let same_chunk =
            |(one, two): (&Option<Rc<ImageChunk>>, &Option<Rc<ImageChunk>>)| match (one, two) {
                (Some(one), Some(two)) => {
                    let mut slots = one.iter().zip(&**two);
                    Rc::ptr_eq(one, two) || slots.all(|(one, two)| one.is_same(two))
                }
                (Some(one), None) | (None, Some(one)) => {
                    one.iter().all(|slot| slot.is_same(&PageContent::Zeroes))
                }
                (None, None) => true,
            };
        self.len == other.len && self.chunks.iter().zip(&other.chunks).all(same_chunk)
    }

    /// Returns all bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read_into_zeroes(0, &mut bytes);
        bytes
    }

    /// Returns the bytes of a range.
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_into_zeroes(range.start, &mut bytes);
        bytes
    }

    /// Returns the places of pages that are not known to be zeroes.
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        let count = (self.len as usize).div_ceil(PAGE);
        (0..count)
            .filter(|page| !matches!(self.slot(*page), PageContent::Zeroes))
            .map(|page| (page * PAGE) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_words_and_pages_of_bytes_are_read_back_as_written() {
        let mut image = DiskImage::new(64 << 10);
        let mut plain = vec![0; 64 << 10];
        let rng = forebay_rng::Rng::new(3);
        for n in 0..2000_usize {
            let (at, len) = match rng.below(3) {
                0 => (rng.below(60_000) as usize, rng.below(3000) as usize),
                1 => (rng.below(100) as usize * 512, 512),
                _ => (
                    rng.below(14) as usize * 4096,
                    4096 * (1 + rng.below(2) as usize),
                ),
            };
            let bytes = match rng.below(4) {
                0 => rng.bytes(len),
                1 => vec![0; len],
                _ => (n as u64).to_le_bytes().repeat(len / 8 + 1)[..len].to_vec(),
            };
            if rng.one_in(8) {
                image.clear(at as u64..(at + len) as u64);
                plain[at..at + len].fill(0);
            } else {
                image.write(at as u64, &bytes);
                plain[at..at + len].copy_from_slice(&bytes);
            }
            assert_eq!(
                image.bytes(at as u64..(at + len) as u64),
                plain[at..at + len]
            );
        }
        assert!(image.to_vec() == plain && image.is_same(&DiskImage::of(&plain)));
    }

    #[test]
    fn a_copy_of_an_image_is_unaffected_by_writes_to_the_original() {
        let mut image = DiskImage::new(300 << 10);
        image.write(5000, &[7; 9000]);
        let copy = image.clone();
        image.write(6000, &[8; 10]);
        image.clear(8192..12288);
        assert_eq!(copy.bytes(5000..14000), vec![7; 9000]);
        let mut want = vec![7; 9000];
        want[1000..1010].fill(8);
        want[3192..7288].fill(0);
        assert_eq!(image.bytes(5000..14000), want);
        assert_eq!(DiskImage::of(&image.to_vec()).to_vec(), image.to_vec());
        assert!(!image.is_same(&copy) && DiskImage::of(&image.to_vec()).is_same(&image));
        image.copy_from(&copy, 5500..9000);
        want[500..4000].fill(7);
        assert_eq!(image.bytes(5000..14000), want);
    }
}
