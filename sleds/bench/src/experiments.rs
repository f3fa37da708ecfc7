//! The experiments: programs, files and arguments (the paper, section 5).

use std::path::{Path, PathBuf};

use super::files;

/// Reading with or without the descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SledsMode {
    /// The ordinary program, or `--plan linear` for a tool without one.
    Without,
    /// `sleds` with its own decision.
    With,
}

/// One experiment: a program on files of growing size.
pub(super) struct PaperExperiment {
    /// Name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Figures of the paper that the experiment repeats.
    pub(super) figures: &'static str,
    /// Result in the paper.
    pub(super) paper: &'static str,
    pub(super) kind: ExperimentProgram,
}

/// Program of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExperimentProgram {
    Wc,
    GrepAll,
    GrepFirst,
    Histogram,
    /// Binning by this number of pixels in each direction.
    Bin(u32),
}

/// All experiments, in the paper's order.
pub(super) const EXPERIMENTS: [PaperExperiment; 6] = [
    PaperExperiment {
        name: "wc",
        title: "wc",
        figures: "7, 8, 9",
        paper: "up to 4.5 times as fast, at 60 MB with 64 MB of memory; 1.5 or more over a broad range; \
                pages read grow slowly instead of all at once",
        kind: ExperimentProgram::Wc,
    },
    PaperExperiment {
        name: "grep",
        title: "grep, all matches",
        figures: "10",
        paper: "about 15 s saved on a CD-ROM (roughly what filling the cache costs); some CPU lost on \
                small files",
        kind: ExperimentProgram::GrepAll,
    },
    PaperExperiment {
        name: "grep-first",
        title: "grep -q, one match in a random place",
        figures: "11, 12, 13",
        paper: "more than 10 times as fast under some conditions",
        kind: ExperimentProgram::GrepFirst,
    },
    PaperExperiment {
        name: "fits-hist",
        title: "fits hist (fimhisto)",
        figures: "14",
        paper: "15 to 25 % less time, 30 to 50 % fewer pages, at 48 to 64 MB",
        kind: ExperimentProgram::Histogram,
    },
    PaperExperiment {
        name: "fits-bin-4",
        title: "fits bin (fimgbin), a fourth of the data",
        figures: "15",
        paper: "11 % less time at 48 MB and more",
        kind: ExperimentProgram::Bin(2),
    },
    PaperExperiment {
        name: "fits-bin-16",
        title: "fits bin (fimgbin), a sixteenth of the data",
        figures: "15",
        paper: "25 to 35 % less time at 48 MB and more",
        kind: ExperimentProgram::Bin(4),
    },
];

/// A command to run.
pub(super) struct ExperimentCommand {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
}

impl ExperimentProgram {
    /// Returns true if the program reads an image, false for a text.
    pub(super) fn reads_an_image(self) -> bool {
        matches!(
            self,
            ExperimentProgram::Histogram | ExperimentProgram::Bin(_)
        )
    }

    /// Returns the command of the `n`-th run on `input`; `output` is the path of an output image.
    pub(super) fn words(
        self,
        way: SledsMode,
        sleds: &Path,
        input: &Path,
        output: &Path,
        n: usize,
    ) -> ExperimentCommand {
        let (tool, mut args) = self.tool(input, output, n);
        let plan = match way {
            SledsMode::With => "--plan=auto",
            SledsMode::Without if tool == "fits" => "--plan=linear",
            SledsMode::Without => {
                let program = tool.into();
                return ExperimentCommand { program, args };
            }
        };
        args.insert(usize::from(tool == "fits"), plan.to_owned());
        args.insert(0, tool.to_owned());
        ExperimentCommand {
            program: sleds.to_owned(),
            args,
        }
    }

    /// Returns the name of the program, and its arguments without a plan.
    fn tool(self, input: &Path, output: &Path, n: usize) -> (&'static str, Vec<String>) {
        let input: &str = &input.display().to_string();
        let output: &str = &output.display().to_string();
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        match self {
            ExperimentProgram::Wc => ("wc", owned(&[input])),
            ExperimentProgram::GrepAll => ("grep", owned(&[files::NEEDLE, input])),
            ExperimentProgram::GrepFirst => ("grep", owned(&["-q", &files::lone_needle(n), input])),
            ExperimentProgram::Histogram => {
                let args = ["hist", "--clobber", input, output, "0:100", "1"];
                ("fits", owned(&args))
            }
            ExperimentProgram::Bin(by) => {
                let by: &str = &by.to_string();
                ("fits", owned(&["bin", "--clobber", input, output, by, by]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: ExperimentProgram, way: SledsMode) -> String {
        let words = kind.words(
            way,
            Path::new("sleds"),
            Path::new("in"),
            Path::new("out"),
            3,
        );
        format!("{} {}", words.program.display(), words.args.join(" "))
    }

    #[test]
    fn the_baseline_is_the_ordinary_program() {
        assert_eq!(line(ExperimentProgram::Wc, SledsMode::Without), "wc in");
        assert_eq!(
            line(ExperimentProgram::Wc, SledsMode::With),
            "sleds wc --plan=auto in"
        );
        assert_eq!(
            line(ExperimentProgram::GrepFirst, SledsMode::Without),
            "grep -q penstock03 in"
        );
    }

    #[test]
    fn without_an_ordinary_program_the_baseline_is_sleds_in_linear_order() {
        let line = line(ExperimentProgram::Bin(4), SledsMode::Without);
        assert_eq!(line, "sleds fits bin --plan=linear --clobber in out 4 4");
    }
}
