//! Creates a volume of any kind: checks its parameters, opens its devices, checks their content, and formats them.

use forebay_dcd::FailedLogRegistry;

use crate::content::{DeviceContent, probe};
use crate::create_spec::{CreateReport, CreateSpec};
use crate::error::VolumeError;
use crate::kind::{CreateContext, FoundVolume, VolumeCreation};
use crate::kind_spec::KindSpec;
use crate::open::{OpenContext, OpenDevice};
use crate::registry::{kind_of, kind_specs, kinds};
use crate::spec::DeviceSpec;

/// The opened devices of a volume to be created; all are still unchanged.
pub struct OpenedForCreate {
    spec: CreateSpec,
    creation: Box<dyn VolumeCreation>,
}

impl CreateSpec {
    /// Returns the kind of the layer that is also to be created, in front of the volume: the kind that is identified by
    /// a named device for which the volume itself has no role.
    fn above(&self) -> Option<&'static KindSpec> {
        let role = self
            .devices
            .roles()
            .find(|role| !self.kind.has_role(role))?;
        kind_specs().find(|kind| kind.own_role == role)
    }

    /// Checks the parameters, as far as is possible without the devices.
    ///
    /// # Errors
    /// If a device is missing, or a parameter does not fit the kind.
    pub fn check(&self) -> Result<(), VolumeError> {
        kind_of(self.kind).check_spec(self)?;
        let layers = || self.above().into_iter().chain([self.kind]);
        let what = self.kind.title;
        let mut roles = self.devices.roles();
        if let Some(role) = roles.find(|role| !layers().any(|kind| kind.has_role(role))) {
            return Err(VolumeError::Usage(format!(
                "a {what} has no {role}: leave out --{role}"
            )));
        }
        let has = |kind: &KindSpec, key: &str| kind.all_options().any(|row| row.spec.key == key);
        let mut keys = self.options.keys();
        let Some(key) = keys.find(|key| !layers().any(|kind| has(kind, key))) else {
            return Ok(());
        };
        let others = kind_specs().filter(|kind| has(kind, key));
        let others: Vec<String> = others.map(|kind| format!("--volume {kind}")).collect();
        let others = others.join(" or ");
        Err(VolumeError::Usage(format!(
            "--{key} is not an option of a {what}: leave it out, or make another kind of volume with {others}"
        )))
    }

    /// Opens the devices.
    ///
    /// # Errors
    /// If a parameter does not fit, a device cannot be opened, devices do not go together, or a device is unsuitable.
    pub fn open(self, context: OpenContext<'_>) -> Result<OpenedForCreate, VolumeError> {
        self.check()?;
        let creation = match self.above() {
            Some(above) => kind_of(above).plan_above(&self, context)?,
            None => kind_of(self.kind).plan(&self, context)?,
        };
        Ok(OpenedForCreate {
            spec: self,
            creation,
        })
    }
}

impl OpenedForCreate {
    /// Returns the device that should have no holes if it is a file. A write to a log is acknowledged when it is
    /// durable, and allocating blocks of the file first takes longer.
    pub fn to_fill(&self) -> Option<&OpenDevice> {
        self.creation.to_fill()
    }

    /// Returns the content of each device that will be formatted, with the device's name and the reason not to
    /// overwrite it.
    ///
    /// # Errors
    /// If a device cannot be read.
    pub async fn holds(
        &self,
        failed_logs: Option<&dyn FailedLogRegistry>,
    ) -> Result<Vec<(DeviceSpec, DeviceContent, String)>, VolumeError> {
        let mut held = Vec::new();
        for (part, role) in self.creation.formatted() {
            if let Some((content, why)) = content_of(part, role, failed_logs).await? {
                held.push((part.spec.clone(), content, why));
            }
        }
        Ok(held)
    }

    /// Returns the id of the volume on the device that will identify the new volume, if it holds one.
    pub async fn replaces(&self) -> Option<String> {
        let (own, _) = *self.creation.formatted().first()?;
        for kind in kinds() {
            if let Ok(identity) = kind.identify(own).await {
                return Some(identity.volume);
            }
        }
        None
    }

    /// Creates the volume.
    ///
    /// # Errors
    /// If a device fails.
    pub async fn create(&self, context: CreateContext<'_>) -> Result<CreateReport, VolumeError> {
        let made = self.creation.create(context).await?;
        let only_created = self.spec.kind.create_options;
        let options = self.spec.options.without(only_created);
        Ok(CreateReport {
            tree: made.tree.with(&options)?,
            ..made
        })
    }
}

/// Returns the content of a device that will be formatted for `role`, and the reason not to overwrite it.
///
/// # Errors
/// If the device cannot be read.
pub(crate) async fn content_of(
    part: &OpenDevice,
    role: &str,
    failed_logs: Option<&dyn FailedLogRegistry>,
) -> Result<Option<(DeviceContent, String)>, VolumeError> {
    let probed = probe(&part.device).await;
    let content = probed.map_err(|error| VolumeError::Read {
        path: part.spec.to_string(),
        error,
    })?;
    let Some(content) = content else {
        return Ok(None);
    };
    let content = with_record(content, failed_logs).await;
    let why = reason_not_to_overwrite(&part.spec, role, &content);
    Ok(Some((content, why)))
}

/// Returns the content, described as an abandoned log if a failed-log record exists for it.
async fn with_record(
    content: DeviceContent,
    failed_logs: Option<&dyn FailedLogRegistry>,
) -> DeviceContent {
    let DeviceContent::Volume(FoundVolume { log: Some(log), .. }) = &content else {
        return content;
    };
    // Without a readable record, the log is treated as one whose data is still needed.
    match forebay_dcd::is_recorded(failed_logs, log.volume, log.epoch).await {
        Ok(true) => DeviceContent::Volume(FoundVolume {
            text: log.if_abandoned.clone(),
            unsaved: None,
            log: None,
        }),
        _ => content,
    }
}

fn reason_not_to_overwrite(spec: &DeviceSpec, role: &str, content: &DeviceContent) -> String {
    let unsaved = match content {
        DeviceContent::Volume(found) => found.unsaved.as_ref(),
        DeviceContent::Foreign(_) => None,
    };
    match unsaved {
        Some(volume) => format!(
            "{spec} HOLDS UNSAVED DATA of the Forebay volume {volume}: making a new log there loses that data \
             permanently; attach and drain that volume first, or abandon its data with --force"
        ),
        None => format!(
            "{spec} holds {content}, which would be lost; give another {role} device, or overwrite it with --force"
        ),
    }
}
