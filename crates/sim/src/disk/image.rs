//! The content of a disk, cheap to copy: pages that copies share until one of them writes.

use std::ops::Range;
use std::rc::Rc;

/// Bytes in a page.
const PAGE: usize = 4096;
static ZEROES: [u8; PAGE] = [0; PAGE];
/// Pages in a chunk.
const PAGES: usize = 32;
const CHUNK: usize = PAGE * PAGES;

type Page = [u8; PAGE];
type Chunk = [Option<Rc<Page>>; PAGES];

/// The bytes of a disk. A clone costs a pointer for every 128 KiB; pages never written are zeroes
/// and take no memory.
#[derive(Clone)]
pub struct Image {
    len: u64,
    chunks: Vec<Option<Rc<Chunk>>>,
}

/// Parts of a range that lie in one page: page number, where in it, where in the range.
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

fn is_zero(page: &Option<Rc<Page>>) -> bool {
    page.as_ref().is_none_or(|page| **page == ZEROES)
}

fn same_page((one, two): (&Option<Rc<Page>>, &Option<Rc<Page>>)) -> bool {
    match (one, two) {
        (Some(one), Some(two)) => Rc::ptr_eq(one, two) || one == two,
        _ => is_zero(one) && is_zero(two),
    }
}

impl Image {
    /// An image of zeroes.
    pub fn new(len: u64) -> Image {
        let chunks = vec![None; (len as usize).div_ceil(CHUNK)];
        Image { len, chunks }
    }

    /// An image of these bytes.
    pub fn of(bytes: &[u8]) -> Image {
        let mut image = Image::new(bytes.len() as u64);
        for (n, page) in bytes.chunks(PAGE).enumerate() {
            // Compared as a whole: tests, which are hardly optimised, spend much time here.
            if *page != ZEROES[..page.len()] {
                image.write((n * PAGE) as u64, page);
            }
        }
        image
    }

    /// Its length in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a disk is never empty")]
    pub fn len(&self) -> u64 {
        self.len
    }

    fn page(&self, page: usize) -> Option<&Rc<Page>> {
        self.chunks[page / PAGES].as_ref()?[page % PAGES].as_ref()
    }

    fn chunk_mut(&mut self, chunk: usize) -> &mut Chunk {
        let slot = self.chunks[chunk].get_or_insert_with(|| Rc::new([const { None }; PAGES]));
        Rc::make_mut(slot)
    }

    /// Copies `out.len()` bytes from `at` on.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        for (page, from, to) in pages(at, out.len()) {
            match self.page(page) {
                Some(bytes) => out[to].copy_from_slice(&bytes[from]),
                None => out[to].fill(0),
            }
        }
    }

    /// As [`Image::read`], into memory that is known to be zeroes.
    pub fn read_into_zeroes(&self, at: u64, out: &mut [u8]) {
        for (page, from, to) in pages(at, out.len()) {
            if let Some(bytes) = self.page(page) {
                out[to].copy_from_slice(&bytes[from]);
            }
        }
    }

    /// Stores bytes from `at` on.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        for (page, to, from) in pages(at, bytes.len()) {
            let slot = &mut self.chunk_mut(page / PAGES)[page % PAGES];
            match slot {
                Some(old) => Rc::make_mut(old)[to].copy_from_slice(&bytes[from]),
                None => {
                    let mut new = [0; PAGE];
                    new[to].copy_from_slice(&bytes[from]);
                    *slot = Some(Rc::new(new));
                }
            }
        }
    }

    /// Stores zeroes in a range.
    pub fn clear(&mut self, range: Range<u64>) {
        for (page, part, _) in pages(range.start, (range.end - range.start) as usize) {
            if self.page(page).is_none() {
                continue;
            }
            let slot = &mut self.chunk_mut(page / PAGES)[page % PAGES];
            if part.len() == PAGE {
                *slot = None;
            } else if let Some(old) = slot {
                Rc::make_mut(old)[part].fill(0);
            }
        }
    }

    /// Takes over what `other` has in a range.
    pub fn copy_from(&mut self, other: &Image, range: Range<u64>) {
        for (page, part, _) in pages(range.start, (range.end - range.start) as usize) {
            match other.page(page) {
                Some(new) if part.len() == PAGE => {
                    self.chunk_mut(page / PAGES)[page % PAGES] = Some(Rc::clone(new));
                }
                Some(new) => self.write((page * PAGE + part.start) as u64, &new[part]),
                None => {
                    let at = (page * PAGE) as u64;
                    self.clear(at + part.start as u64..at + part.end as u64);
                }
            }
        }
    }

    /// True if both images hold the same bytes. Pages that both share are not compared.
    pub fn is_same(&self, other: &Image) -> bool {
        let same_chunk = |(one, two): (&Option<Rc<Chunk>>, &Option<Rc<Chunk>>)| match (one, two) {
            (Some(one), Some(two)) => Rc::ptr_eq(one, two) || one.iter().zip(&**two).all(same_page),
            (Some(one), None) | (None, Some(one)) => one.iter().all(is_zero),
            (None, None) => true,
        };
        self.len == other.len && self.chunks.iter().zip(&other.chunks).all(same_chunk)
    }

    /// All of it.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len as usize];
        self.read_into_zeroes(0, &mut bytes);
        bytes
    }

    /// A part of it.
    pub fn bytes(&self, range: Range<u64>) -> Vec<u8> {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        self.read_into_zeroes(range.start, &mut bytes);
        bytes
    }

    /// Where pages lie that are not known to be zeroes.
    pub fn written(&self) -> impl Iterator<Item = u64> + '_ {
        let count = (self.len as usize).div_ceil(PAGE);
        (0..count)
            .filter(|page| self.page(*page).is_some())
            .map(|page| (page * PAGE) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_content_when_the_original_is_written() {
        let mut image = Image::new(300 << 10);
        image.write(5000, &[7; 9000]);
        let copy = image.clone();
        image.write(6000, &[8; 10]);
        image.clear(8192..12288);
        assert_eq!(copy.bytes(5000..14000), vec![7; 9000]);
        let mut want = vec![7; 9000];
        want[1000..1010].fill(8);
        want[3192..7288].fill(0);
        assert_eq!(image.bytes(5000..14000), want);
        assert_eq!(Image::of(&image.to_vec()).to_vec(), image.to_vec());
        assert!(!image.is_same(&copy) && Image::of(&image.to_vec()).is_same(&image));
        image.copy_from(&copy, 5500..9000);
        want[500..4000].fill(7);
        assert_eq!(image.bytes(5000..14000), want);
    }
}
