//! A device in memory for terabytes of content that consists mostly of stamps.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use forebay_units::LINE_BYTES;
use slab::Slab;

use crate::{Buf, BufMut, Device, DeviceGeometry, Durability, IoFuture, ZeroedSpace};

const BLOCK: usize = LINE_BYTES as usize;
const SECTOR: usize = 512;
const WORD: usize = 8;
/// Blocks of a chunk: one for each bit of a word.
const CHUNK_BLOCKS: u64 = 64;
/// Chunks of a region of 1 GiB.
const REGION_CHUNKS: u64 = 4096;
const REGION_BLOCKS: u64 = CHUNK_BLOCKS * REGION_CHUNKS;

type StampBlock = [u8; BLOCK];

/// A device in memory that stores blocks in compressed form. A block of 4 KiB that repeats one word of 8 bytes takes
/// about 9 bytes. A block in which each sector repeats one word takes about 80, any other block its length, and zeroes
/// take nothing. So simulations whose clients write stamps can have disks of full size.
///
/// For any content, it behaves like [`crate::RamDevice`].
pub struct StampStore {
    geometry: DeviceGeometry,
    state: RefCell<StampTables>,
}

/// Content of a [`StampStore`], in blocks of 4 KiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StampUsage {
    /// Blocks that repeat one word, other than zero.
    pub words: u64,
    /// Blocks in which each sector repeats one word.
    pub sectors: u64,
    /// Blocks stored in full.
    pub full: u64,
}

/// Written regions of 1 GiB, by number.
#[derive(Default)]
struct StampTables {
    regions: BTreeMap<u64, Box<[Option<Box<StampChunk>>]>>,
    sectors: Slab<[u64; BLOCK / SECTOR]>,
    full: Slab<Box<StampBlock>>,
}

/// Content of 64 blocks.
struct StampChunk {
    /// Word that a block repeats, or the key of the rest of its content.
    words: [u64; CHUNK_BLOCKS as usize],
    /// Blocks stored by sectors, one bit each.
    by_sectors: u64,
    /// Blocks stored in full, one bit each.
    in_full: u64,
}

/// Content of a block.
enum StampContent<'a> {
    Word(u64),
    Sectors([u64; BLOCK / SECTOR]),
    Full(&'a StampBlock),
}

/// Returns the word that `bytes` repeat.
fn word_of(bytes: &[u8]) -> Option<u64> {
    let word = u64::from_ne_bytes(bytes[..WORD].try_into().expect("a word"));
    (bytes[WORD..] == bytes[..bytes.len() - WORD]).then_some(word)
}

fn fill(out: &mut [u8], word: u64) {
    out.as_chunks_mut().0.fill(word.to_ne_bytes());
}

impl StampContent<'_> {
    fn of(block: &StampBlock) -> StampContent<'_> {
        if let Some(word) = word_of(block) {
            return StampContent::Word(word);
        }
        let mut words = [0; BLOCK / SECTOR];
        for (word, sector) in words.iter_mut().zip(block.chunks_exact(SECTOR)) {
            match word_of(sector) {
                Some(of_sector) => *word = of_sector,
                None => return StampContent::Full(block),
            }
        }
        StampContent::Sectors(words)
    }
}

impl StampChunk {
    fn new() -> StampChunk {
        StampChunk {
            words: [0; CHUNK_BLOCKS as usize],
            by_sectors: 0,
            in_full: 0,
        }
    }
}

/// Returns the region, the chunk in the region and the block in the chunk.
fn place(block: u64) -> (u64, usize, usize) {
    let chunk = block % REGION_BLOCKS / CHUNK_BLOCKS;
    let region = block / REGION_BLOCKS;
    (region, chunk as usize, (block % CHUNK_BLOCKS) as usize)
}

impl StampTables {
    fn load(&self, block: u64, out: &mut StampBlock) {
        let (region, chunk, at) = place(block);
        let chunk = self.regions.get(&region).and_then(|r| r[chunk].as_deref());
        let Some(chunk) = chunk else {
            out.fill(0);
            return;
        };
        let word = chunk.words[at];
        if chunk.in_full & 1 << at != 0 {
            out.copy_from_slice(&self.full[word as usize][..]);
        } else if chunk.by_sectors & 1 << at != 0 {
            let words = self.sectors[word as usize];
            for (sector, word) in out.chunks_exact_mut(SECTOR).zip(words) {
                fill(sector, word);
            }
        } else {
            fill(out, word);
        }
    }

    fn store(&mut self, block: u64, data: &StampBlock) {
        let (region, chunk, at) = place(block);
        let content = StampContent::of(data);
        if matches!(content, StampContent::Word(0)) {
            return self.clear(block..block + 1);
        }
        let regions = &mut self.regions;
        let region = regions
            .entry(region)
            .or_insert_with(|| (0..REGION_CHUNKS).map(|_| None).collect());
        let chunk = region[chunk].get_or_insert_with(|| Box::new(StampChunk::new()));
        let bit = 1 << at;
        match content {
            StampContent::Full(data) if chunk.in_full & bit != 0 => {
                self.full[chunk.words[at] as usize].copy_from_slice(data);
                return;
            }
            StampContent::Sectors(words) if chunk.by_sectors & bit != 0 => {
                self.sectors[chunk.words[at] as usize] = words;
                return;
            }
            _ => {}
        }
        release(chunk, at, &mut self.sectors, &mut self.full);
        chunk.words[at] = match content {
            StampContent::Word(word) => word,
            StampContent::Sectors(words) => {
                chunk.by_sectors |= bit;
                self.sectors.insert(words) as u64
            }
            StampContent::Full(data) => {
                chunk.in_full |= bit;
                self.full.insert(Box::new(*data)) as u64
            }
        };
    }

    /// Zeroes whole blocks.
    fn clear(&mut self, blocks: Range<u64>) {
        let StampTables {
            regions,
            sectors,
            full,
        } = self;
        let (first, last) = (
            blocks.start / REGION_BLOCKS,
            blocks.end.div_ceil(REGION_BLOCKS),
        );
        let mut emptied = Vec::new();
        for (number, region) in regions.range_mut(first..last) {
            let start = number * REGION_BLOCKS;
            let within = blocks.start.max(start) - start
                ..blocks.end.min(start.saturating_add(REGION_BLOCKS)) - start;
            let chunks = within.start / CHUNK_BLOCKS..within.end.div_ceil(CHUNK_BLOCKS);
            for number in chunks {
                let slot = &mut region[number as usize];
                let Some(chunk) = slot.as_deref_mut() else {
                    continue;
                };
                let start = number * CHUNK_BLOCKS;
                let from = within.start.saturating_sub(start) as usize;
                let to = (within.end - start).min(CHUNK_BLOCKS) as usize;
                (from..to).for_each(|at| release(chunk, at, sectors, full));
                if chunk.words == [0; CHUNK_BLOCKS as usize]
                    && chunk.by_sectors | chunk.in_full == 0
                {
                    *slot = None;
                }
            }
            if within == (0..REGION_BLOCKS) {
                emptied.push(*number);
            }
        }
        for number in emptied {
            regions.remove(&number);
        }
    }
}

/// Zeroes a block of a chunk.
fn release(
    chunk: &mut StampChunk,
    at: usize,
    sectors: &mut Slab<[u64; BLOCK / SECTOR]>,
    full: &mut Slab<Box<StampBlock>>,
) {
    let (bit, key) = (1 << at, std::mem::take(&mut chunk.words[at]) as usize);
    if chunk.by_sectors & bit != 0 {
        sectors.remove(key);
    }
    if chunk.in_full & bit != 0 {
        full.remove(key);
    }
    chunk.by_sectors &= !bit;
    chunk.in_full &= !bit;
}

impl StampStore {
    /// Creates a device of `len` zero bytes in blocks of `block_size` bytes.
    ///
    /// # Panics
    /// If `len` is not a multiple of the block size, or the block size is neither 512 nor 4096.
    pub fn new(len: u64, block_size: u32) -> StampStore {
        assert!(
            block_size == 512 || block_size == 4096,
            "block size {block_size}"
        );
        assert!(
            len.is_multiple_of(block_size.into()),
            "{len} bytes in blocks of {block_size}"
        );
        let geometry = DeviceGeometry {
            len,
            block_size,
            physical_block_size: block_size,
            preferred_io: 4096,
            volatile: false,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        };
        StampStore {
            geometry,
            state: RefCell::default(),
        }
    }

    /// Copies the content from byte `at` on into `out`.
    pub fn peek(&self, at: u64, out: &mut [u8]) {
        let state = self.state.borrow();
        for_blocks(at, out.len(), |block, in_block, in_buf| {
            let out = &mut out[in_buf];
            if let Ok(whole) = <&mut StampBlock>::try_from(&mut *out) {
                state.load(block, whole);
            } else {
                let mut whole = [0; BLOCK];
                state.load(block, &mut whole);
                out.copy_from_slice(&whole[in_block]);
            }
        });
    }

    /// Stores `data` from byte `at` on.
    pub fn poke(&self, at: u64, data: &[u8]) {
        let mut state = self.state.borrow_mut();
        for_blocks(at, data.len(), |block, in_block, in_buf| {
            let data = &data[in_buf];
            if let Ok(whole) = <&StampBlock>::try_from(data) {
                state.store(block, whole);
            } else {
                let mut whole = [0; BLOCK];
                state.load(block, &mut whole);
                whole[in_block].copy_from_slice(data);
                state.store(block, &whole);
            }
        });
    }

    /// Returns the number of blocks by the form in which they are stored.
    pub fn usage(&self) -> StampUsage {
        let state = self.state.borrow();
        let chunks = state.regions.values().flatten().flatten();
        let words = chunks.map(|chunk| {
            let kept = chunk.by_sectors | chunk.in_full;
            let is_word = |at: &usize| kept & 1 << at == 0 && chunk.words[*at] != 0;
            (0..CHUNK_BLOCKS as usize).filter(is_word).count() as u64
        });
        StampUsage {
            words: words.sum(),
            sectors: state.sectors.len() as u64,
            full: state.full.len() as u64,
        }
    }

    fn zero(&self, range: Range<u64>) {
        let first = range.start.next_multiple_of(LINE_BYTES).min(range.end);
        let last = (range.end - range.end % LINE_BYTES).max(first);
        for edge in [range.start..first, last..range.end] {
            self.poke(edge.start, &[0; BLOCK][..(edge.end - edge.start) as usize]);
        }
        if first < last {
            let blocks = first / LINE_BYTES..last / LINE_BYTES;
            self.state.borrow_mut().clear(blocks);
        }
    }
}

/// Calls `each` for every block of a request, with the block's number, the range in the block and the range in the
/// buffer.
fn for_blocks(at: u64, len: usize, mut each: impl FnMut(u64, Range<usize>, Range<usize>)) {
    let mut done = 0;
    while done < len {
        let pos = at + done as u64;
        let from = (pos % LINE_BYTES) as usize;
        let n = (BLOCK - from).min(len - done);
        each(pos / LINE_BYTES, from..from + n, done..done + n);
        done += n;
    }
}

impl Device for StampStore {
    fn geometry(&self) -> DeviceGeometry {
        self.geometry
    }

    fn read(&self, at: u64, mut buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move {
            self.peek(at, &mut buf);
            Ok(buf)
        })
    }

    fn write(&self, at: u64, buf: Buf, _durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.poke(at, &buf);
            Ok(())
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.write_zeroes(range, ZeroedSpace::Release)
    }

    /// Frees memory for both values of `room`: a write never fails for lack of space.
    fn write_zeroes(&self, range: Range<u64>, _room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(async move {
            self.zero(range);
            Ok(())
        })
    }
}

#[cfg(test)]
#[path = "stamps_tests.rs"]
mod tests;
