//! A client's operations on a full volume, and the operations that must not be refused there.

use std::ops::Range;

use forebay_device::BufMut;
use forebay_dfs::{FileKind, Fs, FsError};

use super::expected::{ViolationText, makes_room};
use super::model::{ExpectedError, FilesModel, ModelId};
use super::user::FilesUser;

/// Maximum length of a file, in bytes.
pub(super) const SIZE_MAX: u64 = 512 << 20;
/// The longest write to a preallocated range, in bytes.
const WRITE_MAX: u64 = 64 << 10;
/// Number of writes of one size that is sufficient to use up the free space.
const WRITES_MAX: u64 = 64;

impl FilesUser {
    /// Executes an operation like `change`. If it needs no space, it must not be refused for lack of space.
    pub(super) async fn change_within<T: PartialEq + std::fmt::Debug, U>(
        &mut self,
        takes_none: bool,
        what: impl Fn() -> String,
        in_model: impl FnOnce(&mut FilesModel) -> Result<T, ExpectedError>,
        in_fs: impl AsyncFnOnce(&Fs) -> Result<U, FsError>,
    ) -> Result<Option<(T, U)>, ViolationText> {
        let mut full = Ok(());
        let done = self
            .change(&what, in_model, async |fs| {
                let got = in_fs(fs).await;
                if takes_none {
                    full = makes_room(&what(), &got);
                }
                got
            })
            .await?;
        full?;
        Ok(done)
    }

    /// Uses up the free space, and then writes every preallocated byte. This needs a scenario with little free space,
    /// and a preallocation from an earlier incarnation.
    pub(super) async fn begin(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let all: Vec<(ModelId, Range<u64>)> = model
            .ids()
            .into_iter()
            .flat_map(|id| {
                let ranges = model.node(id).preallocated.iter();
                ranges.map(move |range| (id, range))
            })
            .collect();
        if !self.fills || all.is_empty() || self.rng.coin() {
            return Ok(());
        }
        self.take_room().await?;
        for (id, range) in all {
            for offset in range.clone().step_by(WRITE_MAX as usize) {
                let len = WRITE_MAX.min(range.end - offset);
                self.write_where_preallocated(id, offset, len).await?;
            }
        }
        Ok(())
    }

    /// Appends to a file until the volume is full.
    async fn take_room(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        if let Some(id) = self.any(&model, |kind| kind == FileKind::Regular) {
            for len in [16 << 10, 4096, 512] {
                let mut writes = 0;
                while writes < WRITES_MAX && self.append(id, len).await? {
                    writes += 1;
                }
            }
        }
        Ok(())
    }

    /// Uses up the free space, and then executes an operation that needs no space.
    pub(super) async fn fill(&mut self) -> Result<(), ViolationText> {
        self.take_room().await?;
        match self.rng.below(14) {
            0..=3 => self.take_away().await,
            4..=6 => self.rename().await,
            7 => self.resize().await,
            8 => self.fallocate().await,
            9 => self.set().await,
            10 => self.set_attribute().await,
            11 | 12 => self.write_preallocated().await,
            _ => self.release().await,
        }
    }

    /// Appends `len` bytes to a file. Returns true if the volume had space.
    async fn append(&mut self, id: ModelId, len: u64) -> Result<bool, ViolationText> {
        if self.model().node(id).bytes.size + len > SIZE_MAX {
            return Ok(false);
        }
        let mut data = vec![0; len as usize];
        self.rng.fill(&mut data);
        let (number, buf) = (self.numbers[&id], BufMut::copy_of(&data).freeze());
        let done = self
            .change(
                || format!("append {len} bytes to {id}"),
                |model| model.write(id, None, &data),
                async |fs| fs.write(number, None, buf).await,
            )
            .await?;
        Ok(done.is_some())
    }

    /// Writes to a preallocated range, which must not be refused.
    async fn write_preallocated(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let mut ids = model.ids();
        ids.retain(|id| !model.node(*id).preallocated.is_empty());
        if ids.is_empty() {
            return Ok(());
        }
        let id = self.rng.pick(&ids);
        let ranges: Vec<_> = model.node(id).preallocated.iter().collect();
        let range = self.rng.pick(&ranges);
        let offset = range.start + self.rng.below(range.end - range.start);
        let most = (range.end - offset).min(self.rng.pick(&[1, 512, 5000, 16_384]));
        let len = 1 + self.rng.below(most);
        self.write_where_preallocated(id, offset, len).await
    }

    /// Writes these bytes of a preallocated range.
    async fn write_where_preallocated(
        &mut self,
        id: ModelId,
        offset: u64,
        len: u64,
    ) -> Result<(), ViolationText> {
        let mut data = vec![0; len as usize];
        self.rng.fill(&mut data);
        let (number, buf) = (self.numbers[&id], BufMut::copy_of(&data).freeze());
        self.change_within(
            true,
            || {
                format!(
                    "write {} preallocated bytes to {id} at {offset}",
                    data.len()
                )
            },
            |model| model.write(id, Some(offset), &data),
            async |fs| fs.write(number, Some(offset), buf).await,
        )
        .await?;
        Ok(())
    }

    /// Returns true if all bytes of a range are allocated or preallocated, so that a write needs no more space.
    pub(super) async fn is_there(&self, id: ModelId, offset: Option<u64>, len: u64) -> bool {
        let Some(offset) = offset.filter(|_| self.fills) else {
            return false;
        };
        let (number, end) = (self.numbers[&id], offset + len);
        let model = self.model();
        let node = model.node(id);
        let preallocated = node.preallocated.parts(offset..end).into_iter();
        let preallocated: u64 = preallocated.map(|part| part.end - part.start).sum();
        if len > 0 && preallocated == len {
            return true;
        }
        if len == 0 || end > node.bytes.size {
            return false;
        }
        let data = self.fs.seek(number, offset, false).await;
        let hole = self.fs.seek(number, offset, true).await;
        data.is_ok_and(|data| data == offset) && hole.is_ok_and(|hole| hole >= end)
    }
}
