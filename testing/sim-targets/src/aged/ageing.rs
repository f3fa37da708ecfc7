//! Ageing of a volume.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Device, Durability};
use forebay_rng::mix;
use forebay_sim::Violation;
use forebay_sim::disk::{DiskImage, WriteFate};

use super::content::ExpectedContent;
use super::plan::{TrimDurability, WriterPhase};
use super::recipe::{Age, AgedVolume, Recipe};
use super::scenario::{AgedRun, guarded};
use super::volume::making;
use super::writer::{AgedWriter, IncarnationOver};
use crate::space::SpaceDisk;

/// Makes a volume and ages it.
///
/// # Errors
/// The violation that occurred during ageing.
pub(super) fn age(recipe: &Recipe) -> Result<AgedVolume, Violation> {
    let content = ExpectedContent::new(recipe.lines() as usize, recipe.writers);
    let scenario = AgedRun::new(recipe, content, 0, false);
    let (machine, holder) = scenario.machine(recipe.seed, &DiskImage::new(recipe.medium_bytes()));
    let disk = Rc::clone(&machine.disks[SpaceDisk::Medium]);
    disk.slowest.set(Duration::from_micros(20));
    let (shared, rt) = (Rc::clone(&scenario), machine.rt.clone());
    let ageing = move || {
        machine.run(async move {
            let making = making(&shared.recipe, &*disk);
            let device = Rc::clone(&disk) as Rc<dyn Device>;
            let created = forebay_vsl::create(rt.clone(), device, &making).await;
            created.expect("the disk works");
            let Ok((space, workers)) = shared.open(&rt, &disk).await else {
                return;
            };
            let mappable = space.capacity().mappable / 4096 * 15 / 16;
            let used = mappable * shared.recipe.filled / 100;
            shared.used.set(used.min(shared.recipe.lines()));
            for number in 0..shared.recipe.writers {
                let seed = mix(shared.recipe.seed, number as u64);
                let writer = AgedWriter {
                    number,
                    ..shared.writer(&space, &rt, &holder, seed)
                };
                if work_to_age(&writer).await.is_err() {
                    return;
                }
            }
            drop(workers);
        });
        machine
    };
    let machine = guarded(&scenario, ageing);
    let image = machine.map(|machine| {
        let image = machine.cut(WriteFate::Keep)[SpaceDisk::Medium].clone();
        scenario.leave(&machine);
        image
    });
    let violation = scenario.violation.borrow().clone();
    match (violation, image) {
        (None, Some(image)) => Ok(AgedVolume {
            image,
            content: scenario.content.borrow().clone(),
            used: scenario.used.get(),
        }),
        (violation, _) => {
            let Violation { checker, what } = violation.expect("one");
            Err(Violation::new(checker, format!("while it aged: {what}")))
        }
    }
}

/// Ages the part of the volume that belongs to a writer.
async fn work_to_age(writer: &AgedWriter) -> Result<(), IncarnationOver> {
    let (used, recipe) = (writer.used(), &writer.scenario.recipe);
    for line in used.clone() {
        writer.write_lines(line..line + 1).await?;
        if line % 4096 == 4095 {
            writer.flush().await?;
        }
    }
    let lines = used.len() as u64;
    match recipe.age {
        Age::Cold => {
            let cold = used.start..writer.hot().start;
            for line in cold.step_by(recipe.every as usize) {
                writer.write_lines(line..line + 1).await?;
            }
            writer.phase(WriterPhase::Hot(40)).await?;
        }
        Age::Uniform | Age::Tight | Age::Crowd => {
            for _ in 0..lines {
                let line = used.start + writer.rng.below(lines) as usize;
                writer.write_lines(line..line + 1).await?;
            }
        }
        Age::Pieces => {
            let durability = [Durability::Flush, Durability::Fua][usize::from(recipe.fua)];
            writer.every_sector(durability).await?;
        }
        Age::Files => {
            for _ in 0..6 {
                writer.phase(WriterPhase::Delete(10)).await?;
                writer
                    .phase(WriterPhase::TrimHuge(5, TrimDurability::Flushed))
                    .await?;
                writer.phase(WriterPhase::Fill(lines / 8)).await?;
                writer.phase(WriterPhase::TrimSmall(lines / 32)).await?;
            }
        }
        Age::Sparse | Age::Small => {}
    }
    writer.flush().await?;
    match recipe.seed % 3 {
        0 => Ok(()),
        _ => writer.checkpoint().await,
    }
}
