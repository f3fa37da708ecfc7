//! Circumstances of a measurement: time, machine and program.

use std::fs;
use std::path::Path;
use std::process::Command;

/// The machine, its load and the program, at the beginning.
pub struct Circumstances {
    load: String,
}

impl Circumstances {
    /// Records the load of the machine before the measurement begins.
    pub fn begin() -> Circumstances {
        Circumstances { load: load() }
    }

    /// Returns the circumstances as Markdown, with the current load of the machine.
    pub fn text(&self) -> String {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        format!(
            "Machine: Linux {}, {cores} cores. Load averages (1, 5, 15 minutes) at the beginning {}, at \
             the end {}. Forebay {}, commit {}{}.",
            first_line("/proc/sys/kernel/osrelease"),
            self.load,
            load(),
            env!("CARGO_PKG_VERSION"),
            commit().unwrap_or_else(|| "not known".into()),
            if cfg!(debug_assertions) {
                ", built for development"
            } else {
                ""
            }
        )
    }
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or("?").to_owned()
}

fn load() -> String {
    let line = first_line("/proc/loadavg");
    let numbers: Vec<&str> = line.split_whitespace().take(3).collect();
    numbers.join(" ")
}

/// Returns the commit of the tree that contains the program, if a tree contains the program.
pub fn commit() -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new("git")
        .arg("-C")
        .arg(program.parent().unwrap_or(Path::new("/")))
        .args(["describe", "--always", "--dirty", "--exclude", "*"])
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circumstances_contain_machine_load_and_commit() {
        let text = Circumstances::begin().text();
        for part in ["Linux ", " cores", "Load averages", "commit "] {
            assert!(text.contains(part), "{text}");
        }
    }
}
