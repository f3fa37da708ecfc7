//! The table as a TOML file, described in docs/format/sleds-table.md.

use std::env;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::table::{DeviceEntry, DeviceTable, DeviceTableError, RateSource, ReadRates, machine};

/// Version of the format.
pub const VERSION: u32 = 1;
/// Maximum length of a table's file.
const BYTES_MAX: u64 = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableDocument {
    version: u32,
    machine: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<ReadRates>,
    #[serde(default, rename = "device", skip_serializing_if = "Vec::is_empty")]
    devices: Vec<DeviceEntry>,
}

/// The environment variable with the path of the table's file.
pub const TABLE_VARIABLE: &str = "SLEDS_TABLE";

/// Returns the paths of the table in search order: only the path in `$SLEDS_TABLE` if it is set; otherwise the user's
/// path, then the system's.
pub fn paths() -> Vec<PathBuf> {
    if let Some(path) = env::var_os(TABLE_VARIABLE).filter(|path| !path.is_empty()) {
        return vec![path.into()];
    }
    let absolute = |name: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")));
    let user = state.map(|state| state.join("forebay/sleds.toml"));
    let system = PathBuf::from("/var/lib/forebay/sleds.toml");
    user.into_iter().chain([system]).collect()
}

/// Returns the path that `sleds calibrate` writes: the system's for root, the user's own for other users.
pub fn path_to_write() -> PathBuf {
    let mut paths = paths();
    if rustix::process::geteuid().is_root() {
        paths.pop().expect("there is always a path")
    } else {
        paths.swap_remove(0)
    }
}

/// Loads the table of this machine, and returns the table and its path.
///
/// # Errors
/// If no usable table exists. Use [`DeviceTable::default`] in that case.
pub fn load() -> Result<(DeviceTable, PathBuf), DeviceTableError> {
    let looked = paths();
    let mut elsewhere = None;
    for path in &looked {
        match load_from(path) {
            Err(DeviceTableError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotFound => {}
            // A home directory may be shared between machines.
            Err(error @ DeviceTableError::OtherMachine { .. }) => {
                elsewhere = elsewhere.or(Some(error));
            }
            Err(error) => return Err(error),
            Ok(table) => return Ok((table, path.clone())),
        }
    }
    Err(elsewhere.unwrap_or(DeviceTableError::Missing { looked }))
}

/// Loads the table from a file.
///
/// # Errors
/// If the file cannot be read, is broken, or belongs to another machine.
pub fn load_from(path: &Path) -> Result<DeviceTable, DeviceTableError> {
    let fail = |source| DeviceTableError::Io {
        path: path.to_owned(),
        source,
    };
    let file = fs::File::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(fail)?;
    let broken = |why: String| DeviceTableError::Broken {
        path: path.to_owned(),
        why,
    };
    let table = parse(&bytes).map_err(broken)?;
    let ours = machine();
    if table.machine != ours {
        return Err(DeviceTableError::OtherMachine {
            path: path.to_owned(),
            theirs: table.machine,
            ours,
        });
    }
    Ok(table)
}

/// Parses a table.
///
/// # Errors
/// A description of the fault.
pub fn parse(bytes: &[u8]) -> Result<DeviceTable, String> {
    #[derive(Deserialize)]
    struct DocumentHeader {
        version: u32,
    }
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("longer than {BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "not text in UTF-8".to_owned())?;
    // The version first: otherwise the additional fields of a later version would be reported as faults.
    let head: DocumentHeader = toml::from_str(text).map_err(|error| one_line(&error))?;
    if head.version != VERSION {
        let theirs = head.version;
        return Err(format!(
            "its form is version {theirs}, this program reads {VERSION}"
        ));
    }
    let document: TableDocument = toml::from_str(text).map_err(|error| one_line(&error))?;
    let usual = DeviceTable::default();
    let table = DeviceTable {
        machine: document.machine,
        memory: document.memory.unwrap_or(usual.memory),
        memory_source: document
            .memory
            .map_or(RateSource::Default, |_| RateSource::Measured),
        devices: document.devices,
    };
    match table.fault() {
        Some(fault) => Err(fault),
        None => Ok(table),
    }
}

/// Shortens a TOML error to its message. The full error text has several lines.
fn one_line(error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    format!("{} (at byte {at})", error.message().replace('\n', " "))
}

/// Returns the text of a table's file.
pub fn print(table: &DeviceTable) -> String {
    let document = TableDocument {
        version: VERSION,
        machine: table.machine.clone(),
        memory: (table.memory_source != RateSource::Default).then_some(table.memory),
        devices: table.devices.clone(),
    };
    let body = toml::to_string(&document).expect("a table has only what TOML can say");
    format!("# What reading costs on this machine, as `sleds calibrate` measured it.\n\n{body}")
}

/// Writes a table atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn save(table: &DeviceTable, path: &Path) -> Result<(), DeviceTableError> {
    let fail = |source| DeviceTableError::Io {
        path: path.to_owned(),
        source,
    };
    replace(path, print(table).as_bytes(), ReplaceDurability::Yes).map_err(fail)
}

/// Durability of a written file after a crash of the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplaceDurability {
    Yes,
    No,
}

/// Replaces the content of a file atomically.
pub(crate) fn replace(path: &Path, content: &[u8], durable: ReplaceDurability) -> io::Result<()> {
    let directory = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
    let temporary = format!(".{}.{}", name.to_string_lossy(), std::process::id());
    let temporary = directory.join(temporary);
    let written = fs::File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(content)?;
            match durable {
                ReplaceDurability::Yes => file.sync_all(),
                ReplaceDurability::No => Ok(()),
            }
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
