//! What a user does with data.

use forebay_device::BufMut;
use forebay_dfs::{Fallocate, INLINE_MAX, Kind, NewAttributes};

use super::model::{Id, Model};
use super::user::{User, Violated, as_expected};

impl User {
    /// An offset, or a size.
    fn offset(&self) -> u64 {
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

    fn regular(&self, model: &Model) -> Option<(Id, u64)> {
        let rare = self.rng.one_in(40);
        let id = self.any(model, |kind| rare || kind == Kind::Regular)?;
        Some((id, self.numbers[&id]))
    }

    pub(super) async fn write(&mut self) -> Result<(), Violated> {
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
        let buf = BufMut::copy_of(&data).freeze();
        let done = self
            .change(
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

    pub(super) async fn resize(&mut self) -> Result<(), Violated> {
        let Some((id, number)) = self.regular(&self.model()) else {
            return Ok(());
        };
        let size = self.offset();
        let new = NewAttributes {
            size: Some(size),
            ..NewAttributes::default()
        };
        self.change(
            || format!("resize {id} to {size}"),
            |model| model.resize(id, size),
            async |fs| fs.set(number, &new).await,
        )
        .await?;
        self.read(id).await
    }

    pub(super) async fn fallocate(&mut self) -> Result<(), Violated> {
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
        self.change(
            || format!("{what:?} of {id}: {len} at {offset}"),
            |model| model.fallocate(id, offset, len, what),
            async |fs| fs.fallocate(number, offset, len, what).await,
        )
        .await?;
        self.read(id).await
    }

    /// Reads a part of a file, and asks where its holes are.
    async fn read(&mut self, id: Id) -> Result<(), Violated> {
        let model = self.model();
        let node = model.node(id);
        if node.kind != Kind::Regular {
            return Ok(());
        }
        let offset = match self.rng.coin() {
            true => self.offset(),
            false => self.rng.below(node.bytes.size + 1),
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
