//! The experiments: programs, files and arguments (the paper, section 5).

use std::path::{Path, PathBuf};

use super::files;

/// Reading with or without the descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// The ordinary program, or `--plan linear` for a tool without one.
    Without,
    /// `sleds` with its own decision.
    With,
}

/// One experiment: a program on files of growing size.
pub(super) struct Experiment {
    /// Name on the command line.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Figures of the paper that the experiment repeats.
    pub(super) figures: &'static str,
    /// Result in the paper.
    pub(super) paper: &'static str,
    pub(super) kind: Kind,
}

/// Program of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Wc,
    GrepAll,
    GrepFirst,
    Histogram,
    /// Binning by this number of pixels in each direction.
    Bin(u32),
}

/// All experiments, in the paper's order.
pub(super) const EXPERIMENTS: [Experiment; 6] = [
    Experiment {
        name: "wc",
        title: "wc",
        figures: "7, 8, 9",
        paper: "up to 4.5 times as fast, at 60 MB with 64 MB of memory; 1.5 or more over a broad range; \
                pages read grow slowly instead of all at once",
        kind: Kind::Wc,
    },
    Experiment {
        name: "grep",
        title: "grep, all matches",
        figures: "10",
        paper: "about 15 s saved on a CD-ROM (roughly what filling the cache costs); some CPU lost on \
                small files",
        kind: Kind::GrepAll,
    },
    Experiment {
        name: "grep-first",
        title: "grep -q, one match in a random place",
        figures: "11, 12, 13",
        paper: "more than 10 times as fast under some conditions",
        kind: Kind::GrepFirst,
    },
    Experiment {
        name: "fits-hist",
        title: "fits hist (fimhisto)",
        figures: "14",
        paper: "15 to 25 % less time, 30 to 50 % fewer pages, at 48 to 64 MB",
        kind: Kind::Histogram,
    },
    Experiment {
        name: "fits-bin-4",
        title: "fits bin (fimgbin), a fourth of the data",
        figures: "15",
        paper: "11 % less time at 48 MB and more",
        kind: Kind::Bin(2),
    },
    Experiment {
        name: "fits-bin-16",
        title: "fits bin (fimgbin), a sixteenth of the data",
        figures: "15",
        paper: "25 to 35 % less time at 48 MB and more",
        kind: Kind::Bin(4),
    },
];

/// A command to run.
pub(super) struct Words {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
}

impl Kind {
    /// Returns true if the program reads an image, false for a text.
    pub(super) fn reads_an_image(self) -> bool {
        matches!(self, Kind::Histogram | Kind::Bin(_))
    }

    /// Returns the command of the `n`-th run on `input`; `output` is the path of an output image.
    pub(super) fn words(
        self,
        way: Way,
        sleds: &Path,
        input: &Path,
        output: &Path,
        n: usize,
    ) -> Words {
        let (tool, mut args) = self.tool(input, output, n);
        let plan = match way {
            Way::With => "--plan=auto",
            Way::Without if tool == "fits" => "--plan=linear",
            Way::Without => {
                let program = tool.into();
                return Words { program, args };
            }
        };
        args.insert(usize::from(tool == "fits"), plan.to_owned());
        args.insert(0, tool.to_owned());
        Words {
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
            Kind::Wc => ("wc", owned(&[input])),
            Kind::GrepAll => ("grep", owned(&[files::NEEDLE, input])),
            Kind::GrepFirst => ("grep", owned(&["-q", &files::lone_needle(n), input])),
            Kind::Histogram => {
                let args = ["hist", "--clobber", input, output, "0:100", "1"];
                ("fits", owned(&args))
            }
            Kind::Bin(by) => {
                let by: &str = &by.to_string();
                ("fits", owned(&["bin", "--clobber", input, output, by, by]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: Kind, way: Way) -> String {
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
    fn the_ordinary_program_is_what_is_compared_with() {
        assert_eq!(line(Kind::Wc, Way::Without), "wc in");
        assert_eq!(line(Kind::Wc, Way::With), "sleds wc --plan=auto in");
        assert_eq!(line(Kind::GrepFirst, Way::Without), "grep -q penstock03 in");
    }

    #[test]
    fn where_there_is_none_it_is_ours_in_linear_order() {
        let line = line(Kind::Bin(4), Way::Without);
        assert_eq!(line, "sleds fits bin --plan=linear --clobber in out 4 4");
    }
}
