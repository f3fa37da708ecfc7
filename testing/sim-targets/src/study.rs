//! Repetitions of published studies.

use std::path::PathBuf;

use anyhow::Result;
use forebay_hylog_study::StudyScale;

/// The studies.
#[derive(clap::Subcommand)]
pub(crate) enum StudyCommand {
    /// HyLog (FAST 2004): overwriting, LFS, WOLF, HyLog and SepBIT over disks of 1991 to 2008
    Hylog(HylogArgs),
}

/// Arguments of `study hylog`.
#[derive(clap::Args)]
pub(crate) struct HylogArgs {
    /// Fewer configurations, smaller disks: about three minutes
    #[arg(long)]
    quick: bool,
    /// The folder for the report and its figures
    #[arg(long, default_value = "hylog-study")]
    output: PathBuf,
    /// A folder with recorded requests; default: `data/traces` below FOREBAY_SHARED, if that is set
    #[expect(clippy::doc_markdown, reason = "a help text")]
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Only these experiments, by the names that progress shows
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Store the results of all configurations in this file, and do not run stored configurations again
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Number of threads; default: the number of processors
    #[arg(long)]
    jobs: Option<usize>,
}

impl StudyCommand {
    pub(crate) fn run(&self) -> Result<()> {
        let StudyCommand::Hylog(args) = self;
        let scale = if args.quick {
            StudyScale::Quick
        } else {
            StudyScale::Full
        };
        let shared =
            || Some(PathBuf::from(std::env::var_os("FOREBAY_SHARED")?).join("data/traces"));
        let traces = args.traces.clone().or_else(shared);
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let study = forebay_hylog_study::StudyOptions {
            scale,
            only: &args.only,
            traces: traces.as_deref(),
            resume: args.resume.as_deref(),
            threads: args.jobs.unwrap_or_else(processors),
        };
        let report = study.run(&args.output, &|step| eprintln!("{step}"))?;
        println!("{}", report.display());
        Ok(())
    }
}
