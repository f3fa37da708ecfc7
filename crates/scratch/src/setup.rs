//! What is compared: a disk alone; and the write cache in the paper's two shapes, or a log-structured volume with two
//! placements.

use std::path::PathBuf;

use forebay_stack::{Kind, Model, Placing};
use forebay_units::ByteLen;

use super::Context;
use super::drive::Volume;
use super::report::Report;
use super::system::{Image, make_filesystem};
use forebay_program::failure::Outcome;
use forebay_program::result_line;

/// How the data is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shape {
    /// The disk alone.
    Plain,
    /// A cache whose log is the first part of the disk that the data is on, as the paper measured.
    Logical,
    /// A cache whose log is a disk of its own, of the same kind.
    Physical,
    /// A volume that overwrites the disk, and places data like this.
    Placed(Placing),
}

impl Shape {
    /// A disk, and caches.
    pub(super) const ALL: [Shape; 3] = [Shape::Plain, Shape::Logical, Shape::Physical];

    /// Those that are compared to show a kind of volume, with these placements if it is log-structured.
    pub(super) fn of(kind: Kind, placements: &[Placing]) -> Vec<Shape> {
        let placed = placements.iter().copied().map(Shape::Placed);
        match kind {
            Kind::Cache => Shape::ALL.into(),
            Kind::Space => std::iter::once(Shape::Plain).chain(placed).collect(),
            // The disk with another filesystem, and Forebay's (`files.rs`).
            Kind::Files => vec![Shape::Plain],
        }
    }

    /// Whether it is put in front of a disk, which can be used without it afterwards.
    pub(super) fn is_in_front(self) -> bool {
        !matches!(self, Shape::Placed(_))
    }

    /// Whether its daemon is killed and it is recovered.
    pub(super) fn is_killed(self) -> bool {
        matches!(self, Shape::Physical | Shape::Placed(_))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Shape::Plain => "plain disk",
            Shape::Logical => "logical DCD",
            Shape::Physical => "physical DCD",
            Shape::Placed(how) => how.name(),
        }
    }

    fn file(self) -> &'static str {
        match self {
            Shape::Plain => "plain.img",
            Shape::Logical => "logical.img",
            Shape::Physical => "data.img",
            Shape::Placed(_) => "placed.img",
        }
    }

    /// Room for the log before the data.
    fn data_at(self, context: &Context) -> u64 {
        match self {
            Shape::Logical => context.log_bytes,
            Shape::Plain | Shape::Physical | Shape::Placed(_) => 0,
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
    /// Makes the images, with a filesystem where the data is if `filesystem` is set and it can stay there: a
    /// cache is put in front of what is there.
    pub(super) fn new(context: &Context, shape: Shape, filesystem: bool) -> Outcome<Setup> {
        let (at, len) = (shape.data_at(context), context.data_bytes);
        let path = context
            .scratch
            .image(shape.file(), at + len, &context.stop)?;
        let data = Image {
            path: path.clone(),
            part: (at > 0).then_some(at..at + len),
        };
        if filesystem && shape.is_in_front() {
            make_filesystem(&data, len, context.journal)?;
        }
        let model = context.disk.as_ref();
        let log = match shape {
            Shape::Plain | Shape::Placed(_) => None,
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

    /// Makes a volume of it, if it is one.
    pub(super) fn volume(&self, context: &Context, shape: Shape) -> Outcome<Option<Volume>> {
        let spec = self.spec.as_str();
        if let Shape::Placed(how) = shape {
            let how = how.name();
            result_line!("{spec}, placed by {how}");
            let kind = Kind::Space.to_string();
            let more = ["--volume", &kind, "--placement", how, "--force"];
            return Volume::create(&context.scratch, how, spec, &more).map(Some);
        }
        let Some((_, log)) = &self.log else {
            return Ok(None);
        };
        let name = match shape {
            Shape::Logical => "logical",
            _ => "physical",
        };
        result_line!("{log} in front of {spec}");
        Volume::create(&context.scratch, name, spec, &["--log", log]).map(Some)
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
    let status = volume.status()?.status;
    let took = volume.detach()?;
    if !shape.is_in_front() {
        let said = format!(
            "{}: detaching took {:.3} s",
            shape.name(),
            took.as_secs_f64()
        );
        report.note(said);
        return Ok(());
    }
    let dirty = status.dirty_bytes();
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
            result_line!("no disk is emulated; on a fast disk, expect little gain")
        }
    }
}
