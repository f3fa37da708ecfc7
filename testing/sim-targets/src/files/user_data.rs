//! A client's operations on data.

use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_device::BufMut;
use forebay_dfs::{Edits, Fallocate, FileFlags, FileKind, INLINE_MAX, NewAttributes};

use super::expected::{ViolationText, as_expected};
use super::model::{FilesModel, ModelId};
use super::user::FilesUser;

impl FilesUser {
    /// Returns a random offset or size.
    pub(super) fn offset(&self) -> u64 {
        match self.rng.below(8) {
            0 => 0,
            1 | 2 => self.rng.below(INLINE_MAX as u64 + 4),
            3..=5 => self.rng.below(9000),
            6 => self.rng.below(20_000) / 512 * 512,
            _ => self
                .rng
                .pick(&[4096, 4097, 1 << 20, (512 << 20) - 1, 512 << 20]),
        }
    }

    pub(super) fn regular(&self, model: &FilesModel) -> Option<(ModelId, u64)> {
        let rare = self.rng.one_in(40);
        let id = self.any(model, |kind| rare || kind == FileKind::Regular)?;
        Some((id, self.numbers[&id]))
    }

    pub(super) async fn write(&mut self) -> Result<(), ViolationText> {
        let Some((id, number)) = self.regular(&self.model()) else {
            return Ok(());
        };
        let most = self.rng.pick(&[1, 100, 512, 5000, 16_384]);
        let mut data = vec![0; self.rng.below(most + 1) as usize];
        self.rng.fill(&mut data);
        let offset = (!self.rng.one_in(5)).then(|| self.offset().min((512 << 20) - most));
        let size = self.model().node(id).bytes.size;
        if offset.is_none() && size + most > 512 << 20 {
            return Ok(());
        }
        if let Some(offset) = offset
            && self.reads
            && self.rng.one_in(3)
        {
            return self.write_durably(id, offset, &data).await;
        }
        let is_there = self.is_there(id, offset, data.len() as u64).await;
        let buf = BufMut::copy_of(&data).freeze();
        let done = self
            .change_within(
                is_there,
                || format!("write {} bytes to {id} at {offset:?}", data.len()),
                |model| model.write(id, offset, &data),
                async |fs| fs.write(number, offset, buf).await,
            )
            .await?;
        match done {
            Some((expected, got)) if expected != got => {
                Err(format!("data was written at {got}, not at {expected}"))
            }
            _ => self.read(id).await,
        }
    }

    /// Writes like a program that opened the file with flags for durable writes.
    async fn write_durably(
        &mut self,
        id: ModelId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), ViolationText> {
        let is_sync = self.model().node(id).flags.has(FileFlags::SYNC);
        let flags = if is_sync {
            0
        } else {
            self.rng.pick(&[libc::O_DSYNC, libc::O_SYNC])
        };
        let (number, files) = (self.numbers[&id], Rc::clone(&self.files));
        let mut done = self.done_by_all();
        let buf = BufMut::copy_of(data).freeze();
        let written = self
            .change(
                || {
                    format!(
                        "write {} bytes to {id} at {offset}, flags {flags:o}",
                        data.len()
                    )
                },
                |model| model.write(id, Some(offset), data),
                async |_| {
                    let flags = flags.cast_unsigned();
                    files.write(number, offset, buf, flags).await
                },
            )
            .await?;
        if written.is_some() {
            done[self.index] = self.done_by_all()[self.index];
            self.durable(&done);
            if flags == libc::O_SYNC || is_sync {
                // No other client changes the file.
                let inode = self.fs.inode(number).await;
                if let Ok(inode) = &inode {
                    self.known.borrow_mut().durable(inode);
                }
            }
        }
        self.read(id).await
    }

    /// Atomically changes several places of several files.
    pub(super) async fn edit(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let (mut all, mut changes) = (BTreeMap::new(), Vec::new());
        for _ in 0..1 + self.rng.below(4) {
            let Some(id) = self.any(&model, |kind| kind == FileKind::Regular) else {
                return Ok(());
            };
            let edits: &mut Edits = all.entry(self.numbers[&id]).or_default();
            for _ in 0..1 + self.rng.below(3) {
                let most = self.rng.pick(&[1, 100, 512, 5000]);
                let offset = self.offset().min((512 << 20) - most);
                let mut data = vec![0; 1 + self.rng.below(most) as usize];
                if self.rng.one_in(3) {
                    edits.punch(offset, data.len() as u64);
                } else {
                    self.rng.fill(&mut data);
                    // Zeroes would make a hole.
                    data[0] |= 1;
                    edits.write(offset, BufMut::copy_of(&data).freeze());
                }
                changes.push((id, offset, data));
            }
        }
        let places = |id| changes.iter().filter(move |(one, ..)| *one == id).count();
        self.change(
            || {
                let files = changes.iter().map(|(id, ..)| *id);
                let files: BTreeMap<ModelId, usize> = files.map(|id| (id, places(id))).collect();
                format!("edit files, each in so many places: {files:?}")
            },
            |model| {
                for (id, offset, data) in &changes {
                    model.edit(*id, *offset, data)?;
                }
                Ok(())
            },
            async |fs| fs.edit(&all).await,
        )
        .await?;
        let (id, ..) = changes[0];
        self.read(id).await
    }

    /// Exchanges the data of two files.
    pub(super) async fn exchange(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let (Some((one, first)), Some((other, second))) =
            (self.regular(&model), self.regular(&model))
        else {
            return Ok(());
        };
        self.change(
            || format!("exchange what is in {one} and {other}"),
            |model| model.exchange_data(one, other),
            async |fs| fs.exchange_data(first, second).await,
        )
        .await?;
        self.read(one).await?;
        self.read(other).await
    }

    pub(super) async fn resize(&mut self) -> Result<(), ViolationText> {
        let Some((id, number)) = self.regular(&self.model()) else {
            return Ok(());
        };
        let size = self.offset();
        let new = NewAttributes {
            size: Some(size),
            ..NewAttributes::default()
        };
        let shrinks = size <= self.model().node(id).bytes.size;
        self.change_within(
            shrinks,
            || format!("resize {id} to {size}"),
            |model| model.resize(id, size),
            async |fs| fs.set(number, &new).await,
        )
        .await?;
        self.read(id).await
    }

    pub(super) async fn fallocate(&mut self) -> Result<(), ViolationText> {
        let Some((id, number)) = self.regular(&self.model()) else {
            return Ok(());
        };
        let keep_size = self.rng.coin();
        let what = self.rng.pick(&[
            Fallocate::Punch,
            Fallocate::Punch,
            Fallocate::Zero { keep_size },
            Fallocate::Reserve { keep_size },
        ]);
        let offset = self.offset().min((512 << 20) - 1);
        let most = self.rng.pick(&[600, 10_000, 1 << 20]);
        let len = (1 + self.rng.below(most)).min((512 << 20) - offset);
        self.change_within(
            what == Fallocate::Punch,
            || format!("{what:?} of {id}: {len} at {offset}"),
            |model| model.fallocate(id, offset, len, what),
            async |fs| fs.fallocate(number, offset, len, what).await,
        )
        .await?;
        self.read(id).await
    }

    /// Reads a part of a file, and checks its holes.
    async fn read(&mut self, id: ModelId) -> Result<(), ViolationText> {
        let model = self.model();
        let node = model.node(id);
        if node.kind != FileKind::Regular {
            return Ok(());
        }
        let offset = if self.rng.coin() {
            self.offset()
        } else {
            self.rng.below(node.bytes.size + 1)
        };
        let len = 1 + self.rng.below(10_000);
        let read = self.fs.read(self.numbers[&id], offset, len as usize).await;
        if as_expected(|| format!("read {id}"), &Ok(()), &read)? {
            let (expected, read) = (node.bytes.read(offset, len), read.expect("it is done"));
            if read[..] != expected[..] {
                let at = read.iter().zip(&expected).position(|(a, b)| a != b);
                let (has, wants) = (read.len(), expected.len());
                return Err(format!(
                    "{id} reads wrong from {offset} on: {has} bytes, not {wants}, the first at {at:?}"
                ));
            }
        }
        self.same_inode(id).await
    }
}
