//! Values that a shell offers to complete. The shell runs the program for them, because the names of volumes change.

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter,
};
use forebay_volume::{OptionSpec, VolumeName, kind_specs};

use crate::dirs::ProgramDirs;

/// Returns a completer of the names of all volumes that are attached or have a configuration file.
pub(crate) fn volume_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(known_volumes(true)))
}

/// Returns a completer of the names of attached volumes.
pub(crate) fn attached_names() -> ArgValueCandidates {
    ArgValueCandidates::new(|| candidates(known_volumes(false)))
}

/// Returns a completer of paths.
pub(crate) fn paths() -> ArgValueCompleter {
    ArgValueCompleter::new(PathCompleter::any())
}

/// Returns a completer of the listed values of an option; `None` if the option has no list.
pub(crate) fn choices(spec: &'static OptionSpec) -> Option<ArgValueCandidates> {
    let values = spec.choices;
    let offer = move || values.iter().map(CompletionCandidate::new).collect();
    (!values.is_empty()).then(|| ArgValueCandidates::new(offer))
}

/// Returns a completer of the kinds of volumes.
pub(crate) fn kinds() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let kind = |kind: &forebay_volume::KindSpec| {
            CompletionCandidate::new(kind.name).help(Some(kind.help.into()))
        };
        kind_specs().map(kind).collect()
    })
}

fn candidates(mut names: Vec<VolumeName>) -> Vec<CompletionCandidate> {
    names.sort();
    names.dedup();
    let names = names.into_iter();
    names
        .map(|name| CompletionCandidate::new(name.to_string()))
        .collect()
}

fn known_volumes(described: bool) -> Vec<VolumeName> {
    let Ok(dirs) = ProgramDirs::new() else {
        return Vec::new();
    };
    let mut names = dirs.attached_names();
    if described {
        names.extend(dirs.described_names());
    }
    names
}
