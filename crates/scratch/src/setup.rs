//! The compared setups: a disk alone; and the write cache in the paper's two shapes, or a log-structured volume with
//! two placements.

use std::path::PathBuf;

use forebay_units::ByteLen;
use forebay_volume::{DiskModelSpec, LOG_STRUCTURED, RequestedPlacement};

use super::args::TryKind;
use super::context::TryContext;
use super::drive::ScratchVolume;
use super::report::TryReport;
use super::system::{ScratchImage, make_filesystem};
use super::variant::FilesystemVariant;
use forebay_command_output::failure::CommandResult;
use forebay_command_output::result_line;

/// Layout of the stored data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageShape {
    /// The disk alone.
    Plain,
    /// A cache whose log is the first part of the data disk, as the paper measured.
    Logical,
    /// A cache whose log is a separate disk of the same kind.
    Physical,
    /// A volume that overwrites the disk, with this placement of data.
    Placed(RequestedPlacement),
}

/// A volume that users work on, with its setup.
#[derive(Clone, Copy)]
pub(crate) struct TriedVolume<'a> {
    pub(crate) shape: StorageShape,
    pub(crate) setup: &'a StorageSetup,
    pub(crate) volume: &'a ScratchVolume,
}

impl StorageShape {
    /// A disk, and caches.
    pub const ALL: [StorageShape; 3] = [
        StorageShape::Plain,
        StorageShape::Logical,
        StorageShape::Physical,
    ];

    /// Returns the shapes that are compared to show a kind of volume, with these placements if the volume is
    /// log-structured.
    pub(crate) fn of(kind: TryKind, placements: &[RequestedPlacement]) -> Vec<StorageShape> {
        let placed = placements.iter().copied().map(StorageShape::Placed);
        match kind {
            TryKind::Cache => StorageShape::ALL.into(),
            TryKind::Vsl => std::iter::once(StorageShape::Plain).chain(placed).collect(),
            // The disk with ext4; Forebay's filesystem is in `files.rs`.
            TryKind::Fs => vec![StorageShape::Plain],
        }
    }

    /// Returns true if the shape is a layer in front of a disk, which is usable without the layer afterwards.
    pub(crate) fn is_in_front(self) -> bool {
        !matches!(self, StorageShape::Placed(_))
    }

    /// Returns true if the shape's daemon is killed and the volume recovered.
    pub(crate) fn is_killed(self) -> bool {
        matches!(self, StorageShape::Physical | StorageShape::Placed(_))
    }

    /// Returns the title of the column in the tables of `forebay try`.
    pub(crate) fn column(self) -> &'static str {
        match self {
            StorageShape::Plain => "disk alone",
            StorageShape::Logical => "log on disk",
            StorageShape::Physical => "log on 2nd",
            StorageShape::Placed(how) => how.name(),
        }
    }

    /// Returns the name in the terms of the paper.
    pub fn name(self) -> &'static str {
        match self {
            StorageShape::Plain => "plain disk",
            StorageShape::Logical => "logical DCD",
            StorageShape::Physical => "physical DCD",
            StorageShape::Placed(how) => how.name(),
        }
    }

    fn file(self) -> &'static str {
        match self {
            StorageShape::Plain => "plain.img",
            StorageShape::Logical => "logical.img",
            StorageShape::Physical => "data.img",
            StorageShape::Placed(_) => "placed.img",
        }
    }

    /// Returns the offset of the data: the space for the log before the data.
    fn data_at(self, context: &TryContext) -> u64 {
        match self {
            StorageShape::Logical => context.log_bytes,
            StorageShape::Plain | StorageShape::Physical | StorageShape::Placed(_) => 0,
        }
    }
}

/// Returns the device name of an image, on the emulated disk if a disk is emulated.
fn on_disk(model: Option<&DiskModelSpec>, image: &ScratchImage) -> String {
    let path = image.path.display();
    match model {
        Some(model) => format!("model:{model}:{path}{}", image.suffix()),
        None => format!("{path}{}", image.suffix()),
    }
}

/// The images of a shape.
pub struct StorageSetup {
    /// The image of the data.
    pub data: ScratchImage,
    /// Device name of the data, as on the command line.
    pub spec: String,
    log: Option<(PathBuf, String)>,
}

impl StorageSetup {
    /// Makes the images. With `filesystem`, also makes a filesystem on the data image if the shape preserves it: a
    /// cache keeps the content of its data device.
    ///
    /// # Errors
    /// If an image or the filesystem cannot be made, or the user stops the program.
    pub fn new(
        context: &TryContext,
        shape: StorageShape,
        filesystem: Option<FilesystemVariant>,
    ) -> CommandResult<StorageSetup> {
        let (at, len) = (shape.data_at(context), context.data_bytes);
        let path = context
            .scratch
            .image(shape.file(), at + len, &context.stop)?;
        let data = ScratchImage {
            path: path.clone(),
            part: (at > 0).then_some(at..at + len),
        };
        if let Some(variant) = filesystem.filter(|_| shape.is_in_front()) {
            make_filesystem(&data, len, variant)?;
        }
        let model = context.disk.as_ref();
        let log = match shape {
            StorageShape::Plain | StorageShape::Placed(_) => None,
            StorageShape::Logical => {
                let log = ScratchImage {
                    path: path.clone(),
                    part: Some(0..at),
                };
                Some((path, on_disk(model, &log)))
            }
            StorageShape::Physical => {
                let path = context
                    .scratch
                    .image("log.img", context.log_bytes, &context.stop)?;
                let log = ScratchImage {
                    path: path.clone(),
                    part: None,
                };
                let other = model.map(another);
                Some((path, on_disk(other.as_ref(), &log)))
            }
        };
        Ok(StorageSetup {
            spec: on_disk(model, &data),
            data,
            log,
        })
    }

    /// Creates the volume, if the shape has a volume.
    ///
    /// # Errors
    /// Those of [`ScratchVolume::create`].
    pub fn volume(
        &self,
        context: &TryContext,
        shape: StorageShape,
    ) -> CommandResult<Option<ScratchVolume>> {
        let spec = self.spec.as_str();
        if let StorageShape::Placed(how) = shape {
            let how = how.name();
            result_line!("{spec}, placed by {how}");
            let kind = LOG_STRUCTURED.to_string();
            let more = ["--volume", &kind, "--placement", how, "--force"];
            return ScratchVolume::create(&context.program, &context.scratch, how, spec, &more)
                .map(Some);
        }
        let Some((_, log)) = &self.log else {
            return Ok(None);
        };
        let name = match shape {
            StorageShape::Logical => "logical",
            _ => "physical",
        };
        result_line!("{log} in front of {spec}");
        ScratchVolume::create(
            &context.program,
            &context.scratch,
            name,
            spec,
            // The next table uses the names again.
            &["--log", log, "--force"],
        )
        .map(Some)
    }

    /// Removes the images, unless the user wants to keep them.
    pub fn remove(&self, context: &TryContext) {
        if context.scratch.is_kept() {
            return;
        }
        let log = self.log.iter().map(|(path, _)| path);
        for path in log.chain([&self.data.path]) {
            // A logical cache has one image, which is removed twice. The directory's removal covers leftovers.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Returns another disk of the same kind, which does not rotate in step with the first.
fn another(model: &DiskModelSpec) -> DiskModelSpec {
    let text = format!("{model},phase=0.5");
    text.parse().unwrap_or_else(|_| model.clone())
}

/// Drains and detaches a volume, and reports the time.
///
/// # Errors
/// If the daemon does not answer, or the volume cannot be detached.
pub fn move_home(
    report: &mut TryReport,
    shape: StorageShape,
    volume: &ScratchVolume,
) -> CommandResult {
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
    let dirty = status.summary().dirty_bytes;
    report.note(format!(
        "{}: destaging {} and detaching took {:.3} s",
        shape.name(),
        ByteLen(dirty),
        took.as_secs_f64()
    ));
    Ok(())
}

/// Prints a description of the trial, before the long measurements.
pub(crate) fn introduce(context: &TryContext) {
    match &context.disk {
        Some(model) => result_line!(
            "emulating the disk {model}: images of {}, logs of {}",
            ByteLen(context.data_bytes),
            ByteLen(context.log_bytes)
        ),
        None => {
            result_line!("no disk is emulated; on a fast disk, expect little gain");
        }
    }
}
