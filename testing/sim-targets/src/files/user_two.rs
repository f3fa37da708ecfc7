//! Two concurrent operations of a client, during a read. The results must equal a serial execution.

use std::collections::{BTreeMap, BTreeSet};

use forebay_device::Buf;
use forebay_dfs::{FileKind, Fs, FsError, Inode};
use futures_util::future::join3;

use super::act::{FAR, FileOperation, ModelEffect, OperationResult};
use super::expected::{ViolationText, as_expected, makes_room, wrong};
use super::load::load;
use super::model::{ExpectedError, FilesModel, ModelId, TOP};
use super::user::{FilesUser, name};
use super::user_full::SIZE_MAX;

const SECTOR: u64 = 512;
/// Maximum length of the concurrent read, in bytes.
const READ: usize = 10_000;

/// Result of two operations in one order, or of one operation alone, or of none.
struct SerialOutcome {
    /// Indices of the executed operations, in order.
    order: Vec<usize>,
    came: Vec<Result<ModelEffect, ExpectedError>>,
    model: FilesModel,
}

impl SerialOutcome {
    fn of(model: &FilesModel, acts: &[FileOperation; 2], order: &[usize]) -> SerialOutcome {
        let mut model = model.clone();
        let came = order.iter().map(|n| acts[*n].in_model(&mut model));
        SerialOutcome {
            order: order.to_vec(),
            came: came.collect(),
            model,
        }
    }

    fn came(&self, act: usize) -> Option<Result<ModelEffect, ExpectedError>> {
        let at = self.order.iter().position(|one| *one == act)?;
        self.came.get(at).copied()
    }

    /// Returns true if this outcome matches the results of both operations.
    fn is(&self, got: &[OperationResult; 2]) -> bool {
        got.iter()
            .enumerate()
            .all(|(n, got)| match (self.came(n), got) {
                (None, Err(FsError::Space(_))) => true,
                (Some(Ok(came)), Ok((at, _))) => came.at == *at,
                (Some(Err(expected)), Err(error)) => wrong(error) == Some(expected),
                _ => false,
            })
    }

    /// Returns true if the named files of both outcomes are equal.
    fn is_like(&self, other: &SerialOutcome) -> bool {
        self.model.digest() == other.model.digest()
    }

    /// Returns true if nameless files differ between the outcomes. No later check could observe this difference.
    fn hides(&self, other: &SerialOutcome) -> bool {
        let nameless = |id: &ModelId| self.model.node(*id).links == 0;
        let mut held = self.model.held.iter().filter(|id| nameless(id));
        held.any(|id| self.model.node(*id) != other.model.node(*id))
    }
}

/// Operations that are concurrent with the two.
struct SideOperations {
    /// The file to read.
    read: Option<ModelId>,
    /// Offset of the read.
    offset: u64,
    /// The name to look up.
    name: (ModelId, Vec<u8>),
    /// The file whose use ends.
    released: Option<ModelId>,
}

/// Results of these operations.
struct SideResults {
    read: Option<Buf>,
    looked: Result<Inode, FsError>,
    released: Result<(), FsError>,
}

impl SideOperations {
    async fn in_fs(&self, fs: &Fs, numbers: &BTreeMap<ModelId, u64>) -> SideResults {
        let read = async {
            match self.read {
                Some(id) => fs.read(numbers[&id], self.offset, READ).await.ok(),
                None => None,
            }
        };
        let released = async {
            match self.released {
                Some(id) => fs.forget(numbers[&id], 1).await,
                None => Ok(()),
            }
        };
        let (directory, name) = &self.name;
        let looked = fs.look_up(numbers[directory], name);
        let (read, looked, released) = join3(read, looked, released).await;
        SideResults {
            read,
            looked,
            released,
        }
    }
}

impl FilesUser {
    /// Executes two concurrent operations.
    pub(super) async fn two(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let acts = if self.rng.one_in(4) {
            match self.crossing(&model) {
                Some(acts) => acts,
                None => return self.deepen().await,
            }
        } else {
            match (self.act(&model), self.act(&model)) {
                (Some(one), Some(other)) => [one, other],
                _ => return Ok(()),
            }
        };
        let mut beside = SideOperations {
            read: self.read_beside(&model, &acts),
            offset: self.offset().min(FAR) / SECTOR * SECTOR,
            name: (self.directory(&model).0, name(&self.rng)),
            released: None,
        };
        let ids = acts.iter().flat_map(FileOperation::files);
        let ids: BTreeSet<ModelId> = ids.chain(beside.read).chain([beside.name.0]).collect();
        let released: Vec<ModelId> = model.held.difference(&ids).copied().collect();
        if !released.is_empty() {
            beside.released = Some(self.rng.pick(&released));
        }
        let mut used = Vec::new();
        for id in &ids {
            match self.fs.look_at(self.numbers[id]).await {
                Ok(_) => used.push(*id),
                Err(FsError::Space(_)) => break,
                Err(error) => return Err(format!("use {id}: {error}")),
            }
        }
        let fresh: Vec<ModelId> = ids.difference(&model.held).copied().collect();
        if used.len() == ids.len() {
            for id in &fresh {
                self.hold(*id);
            }
            self.do_two(&acts, &beside).await?;
        }
        for id in used {
            self.drop_use(id).await?;
            if fresh.contains(&id) {
                self.accounts.borrow_mut()[self.index].hold(id, false);
            }
        }
        Ok(())
    }

    /// Chooses a file for the concurrent read, more often than not a file that the operations change.
    fn read_beside(&self, model: &FilesModel, acts: &[FileOperation; 2]) -> Option<ModelId> {
        let changed = acts.iter().flat_map(FileOperation::files);
        let regular = changed.filter(|id| model.node(*id).kind == FileKind::Regular);
        let regular: Vec<ModelId> = regular.collect();
        if regular.is_empty() || self.rng.one_in(4) {
            self.any(model, |kind| kind == FileKind::Regular)
        } else {
            Some(self.rng.pick(&regular))
        }
    }

    /// Executes two concurrent operations on files in use.
    async fn do_two(
        &mut self,
        acts: &[FileOperation; 2],
        beside: &SideOperations,
    ) -> Result<(), ViolationText> {
        let model = self.model();
        let orders: [&[usize]; 5] = [&[0, 1], &[1, 0], &[0], &[1], &[]];
        let courses = orders.map(|order| SerialOutcome::of(&model, acts, order));
        if !self.can_be_told(&courses[0], &courses[1], acts) {
            return Ok(());
        }
        let all = courses.iter().map(|course| course.model.clone());
        self.accounts.borrow_mut()[self.index].begin_any(all);
        if self.aloud {
            println!("user {}: at once: {acts:?}", self.index);
        }
        let (one, other, seen) = join3(
            acts[0].in_fs(&self.fs, &self.numbers),
            acts[1].in_fs(&self.fs, &self.numbers),
            beside.in_fs(&self.fs, &self.numbers),
        )
        .await;
        let got = [one, other];
        if self.aloud {
            println!("user {}: which came to {got:?}", self.index);
        }
        let course = self.which(&courses, &got).await?;
        let states = match course.order.len() {
            2 => vec![&courses[2], &courses[3], course],
            1 => vec![course],
            _ => Vec::new(),
        };
        let states = states.into_iter().map(|course| course.model.clone());
        self.accounts.borrow_mut()[self.index].end_any(states);
        self.must_have_been(&courses, beside, &seen)?;
        if let Some(id) = beside.released {
            self.accounts.borrow_mut()[self.index].hold(id, false);
        }
        if let Ok(inode) = seen.looked {
            self.let_go(inode.file).await?;
        }
        self.made_and_linked(course, acts, got).await
    }

    /// Checks that the results of the side operations match one of the possible states.
    fn must_have_been(
        &self,
        courses: &[SerialOutcome; 5],
        beside: &SideOperations,
        seen: &SideResults,
    ) -> Result<(), ViolationText> {
        let models = || courses.iter().map(|course| &course.model);
        if let Some((id, read)) = beside.read.zip(seen.read.as_ref()) {
            was_there(id, beside.offset, read, models())?;
        }
        let (directory, name) = &beside.name;
        let is_named = |model: &FilesModel| {
            let named = model.named(*directory, name);
            match (named, &seen.looked) {
                (None, Err(FsError::NotFound)) | (_, Err(FsError::Space(_))) => true,
                // A new file has no number in this map yet.
                (Some(id), Ok(inode)) => self.numbers.get(&id).is_none_or(|n| *n == inode.file),
                _ => false,
            }
        };
        if !models().any(is_named) {
            let looked = &seen.looked;
            return Err(format!(
                "{name:?} in {directory} never was what it was meanwhile: {looked:?}"
            ));
        }
        makes_room("forget", &seen.released)?;
        as_expected(|| "forget".into(), &Ok(()), &seen.released).map(drop)
    }

    /// Returns true if a later check can observe the order of the operations, or the order does not matter. The
    /// operations must also keep files within [`SIZE_MAX`].
    fn can_be_told(
        &self,
        first: &SerialOutcome,
        second: &SerialOutcome,
        acts: &[FileOperation; 2],
    ) -> bool {
        let told = |course: &SerialOutcome, n| course.came(n).map(|came| came.map(|came| came.at));
        let is_told = (0..2).any(|n| told(first, n) != told(second, n));
        let is_known = is_told || first.is_like(second) || self.reads;
        let fits = |course: &SerialOutcome| {
            let both = course.order.iter().zip(&course.came);
            let mut ends = both.filter_map(|(n, came)| acts[*n].end(came.ok()?.at));
            ends.all(|end| end < SIZE_MAX)
        };
        is_known && !first.hides(second) && fits(first) && fits(second)
    }

    /// Returns the outcome that matches the results.
    async fn which<'a>(
        &self,
        courses: &'a [SerialOutcome; 5],
        got: &[OperationResult; 2],
    ) -> Result<&'a SerialOutcome, ViolationText> {
        let fitting: Vec<&SerialOutcome> = courses.iter().filter(|course| course.is(got)).collect();
        match fitting[..] {
            [] => Err(format!("two at once, in no order: {got:?}")),
            [one] => Ok(one),
            [first, second, ..] if first.is_like(second) => Ok(first),
            _ => {
                let loaded = load(&self.fs, self.numbers[&TOP]).await;
                let (model, _) = loaded.map_err(|error| format!("after two at once: {error}"))?;
                let is_it = |course: &&SerialOutcome| course.model.digest() == model.digest();
                let found = fitting.into_iter().find(is_it);
                found.ok_or_else(|| "after two at once it is like after neither order".into())
            }
        }
    }

    /// Records new files, and additional uses of linked files.
    async fn made_and_linked(
        &mut self,
        course: &SerialOutcome,
        acts: &[FileOperation; 2],
        got: [OperationResult; 2],
    ) -> Result<(), ViolationText> {
        for (n, got) in got.into_iter().enumerate() {
            let (Some(Ok(came)), Ok((_, inode))) = (course.came(n), got) else {
                continue;
            };
            if let FileOperation::Link { id, .. } = &acts[n] {
                self.drop_use(*id).await?;
            }
            if let Some((id, inode)) = came.made.zip(inode) {
                self.known.borrow_mut().made(&inode)?;
                self.numbers.insert(id, inode.file);
                // The other operation may have removed the name.
                self.drop_use(id).await?;
            }
        }
        Ok(())
    }
}

/// Checks that each sector of the concurrent read matches one of the possible states.
fn was_there<'a>(
    id: ModelId,
    offset: u64,
    seen: &Buf,
    models: impl Iterator<Item = &'a FilesModel>,
) -> Result<(), ViolationText> {
    let states = models.map(|model| model.node(id).bytes.read(offset, READ as u64));
    let states: Vec<Vec<u8>> = states.collect();
    if states.iter().all(|state| state.len() != seen.len()) {
        let len = seen.len();
        return Err(format!("{id} was read at {offset} meanwhile: {len} bytes"));
    }
    for (n, sector) in seen.chunks(SECTOR as usize).enumerate() {
        let from = n * SECTOR as usize;
        let is_there = |state: &Vec<u8>| state.get(from..from + sector.len()) == Some(sector);
        if !states.iter().any(is_there) {
            let at = offset + from as u64;
            return Err(format!("{id} was read at {at} meanwhile as it never was"));
        }
    }
    Ok(())
}
