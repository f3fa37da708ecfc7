//! The three things that are compared: a disk alone, and the write cache in the paper's two shapes.

use std::path::PathBuf;

use forebay_stack::Model;
use forebay_units::ByteLen;

use super::Context;
use super::drive::Volume;
use super::report::Report;
use super::system::{Image, make_filesystem};
use crate::failure::Outcome;
use crate::output::result_line;

/// How the data is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// The disk alone.
    Plain,
    /// A cache whose log is the first part of the disk that the data is on, as the paper measured.
    Logical,
    /// A cache whose log is a disk of its own, of the same kind.
    Physical,
}

impl Shape {
    pub(super) const ALL: [Shape; 3] = [Shape::Plain, Shape::Logical, Shape::Physical];

    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Plain => "plain disk",
            Shape::Logical => "logical DCD",
            Shape::Physical => "physical DCD",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Shape::Plain => "plain.img",
            Shape::Logical => "logical.img",
            Shape::Physical => "data.img",
        }
    }

    /// Room for the log before the data.
    fn data_at(self, context: &Context) -> u64 {
        match self {
            Shape::Logical => context.log_bytes,
            Shape::Plain | Shape::Physical => 0,
        }
    }
}

/// An image on the disk that is emulated, if one is.
fn on_disk(model: Option<&Model>, image: &Image) -> String {
    let path = image.path.display();
    match model {
        Some(model) => format!("model:{model}:{path}{}", image.suffix()),
        None => format!("{path}{}", image.suffix()),
    }
}

/// Where a shape has its data.
pub(super) struct Setup {
    pub(super) data: Image,
    /// The same as users name it.
    pub(super) spec: String,
    log: Option<(PathBuf, String)>,
}

impl Setup {
    /// Makes the images, with a filesystem where the data is if `filesystem` is set: the cache is put
    /// in front of what is there.
    pub(super) fn new(context: &Context, shape: Shape, filesystem: bool) -> Outcome<Setup> {
        let (at, len) = (shape.data_at(context), context.data_bytes);
        let path = context
            .scratch
            .image(shape.file(), at + len, &context.stop)?;
        let data = Image {
            path: path.clone(),
            part: (at > 0).then_some(at..at + len),
        };
        if filesystem {
            make_filesystem(&data, len, context.journal)?;
        }
        let model = context.disk.as_ref();
        let log = match shape {
            Shape::Plain => None,
            Shape::Logical => {
                let log = Image {
                    path: path.clone(),
                    part: Some(0..at),
                };
                Some((path, on_disk(model, &log)))
            }
            Shape::Physical => {
                let path = context
                    .scratch
                    .image("log.img", context.log_bytes, &context.stop)?;
                let log = Image {
                    path: path.clone(),
                    part: None,
                };
                let other = model.map(another);
                Some((path, on_disk(other.as_ref(), &log)))
            }
        };
        Ok(Setup {
            spec: on_disk(model, &data),
            data,
            log,
        })
    }

    /// Makes a volume of it, if it has a log.
    pub(super) fn volume(&self, context: &Context, shape: Shape) -> Outcome<Option<Volume>> {
        let Some((_, log)) = &self.log else {
            return Ok(None);
        };
        let name = match shape {
            Shape::Logical => "logical",
            Shape::Plain | Shape::Physical => "physical",
        };
        result_line!("{log} in front of {}", self.spec);
        Volume::create(&context.scratch, name, &self.spec, log).map(Some)
    }

    /// Removes the images, which are no longer needed, unless they are to be kept.
    pub(super) fn remove(&self, context: &Context) {
        if context.scratch.is_kept() {
            return;
        }
        let log = self.log.iter().map(|(path, _)| path);
        for path in log.chain([&self.data.path]) {
            // Twice for a logical one; and what stays goes with the directory.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Another disk of the same kind: it does not turn in step with the first.
fn another(model: &Model) -> Model {
    let text = format!("{model},phase=0.5");
    text.parse().unwrap_or_else(|_| model.clone())
}

/// Drains and detaches a volume, and says how long that took.
pub(super) fn move_home(report: &mut Report, shape: Shape, volume: &Volume) -> Outcome {
    let dirty = volume.status()?.status.dirty_bytes();
    let took = volume.detach()?;
    report.note(format!(
        "{}: moving {} home and detaching took {:.3} s",
        shape.name(),
        ByteLen(dirty),
        took.as_secs_f64()
    ));
    Ok(())
}

/// What to expect, before it takes its time.
pub(super) fn introduce(context: &Context) {
    match &context.disk {
        Some(model) => result_line!(
            "emulating the disk {model}: images of {}, logs of {}",
            ByteLen(context.data_bytes),
            ByteLen(context.log_bytes)
        ),
        None => {
            result_line!("no disk is emulated; on a fast disk, expect little gain from the cache")
        }
    }
}
