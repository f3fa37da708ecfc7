//! `forebay check`: reports the state that recovery would find. With `--salvage`, writes data that was lost with an
//! abandoned log to the data device. The command has its own exit codes.

use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    CheckContext, CheckVerdict, LayerCheckReport, LayerSalvageReport, OpenContext,
    SuperblockDevice, open,
};
use serde::Serialize;

use crate::args::CheckArgs;
use crate::dirs::ProgramDirs;
use crate::lock::NameLock;
use crate::run::on_ring;
use crate::target::{VolumeTarget, own};
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_command_output::progress::ByteProgress;
use forebay_command_output::result_line;

/// Exit code for a device that is not a log, or cannot be examined.
const UNUSABLE: u8 = 3;

/// Output of `--json` if no log can be examined.
#[derive(Serialize)]
struct FailedCheck {
    verdict: &'static str,
    problems: Vec<String>,
}

/// Runs the command and returns its exit code.
pub(crate) fn run(args: CheckArgs) -> CommandResult<u8> {
    let json = args.json;
    if args.salvage {
        let salvaged = on_ring(move |rt, ring| salvage(args, rt, ring));
        let code = |report: &LayerSalvageReport| if report.is_whole { 0 } else { 2 };
        return reported(json, salvaged, |report| &report.lines, code);
    }
    let checked = on_ring(move |rt, ring| check(args, rt, ring));
    let code = |report: &LayerCheckReport| match report.verdict {
        CheckVerdict::Clean => 0,
        CheckVerdict::Dirty => 1,
        CheckVerdict::Abandoned | CheckVerdict::Damaged => 2,
    };
    reported(json, checked, |report| &report.lines, code)
}

/// Prints the report, or the failure. Returns the exit code.
fn reported<R: Serialize>(
    json: bool,
    outcome: CommandResult<R>,
    lines: impl FnOnce(&R) -> &Vec<String>,
    code: impl FnOnce(&R) -> u8,
) -> CommandResult<u8> {
    match outcome {
        Ok(report) => {
            if json {
                let text =
                    serde_json::to_string_pretty(&report).map_err(CommandFailure::general)?;
                result_line!("{text}");
            } else {
                for line in lines(&report) {
                    result_line!("{line}");
                }
            }
            Ok(code(&report))
        }
        Err(failure) => {
            if json {
                let unusable = FailedCheck {
                    verdict: match failure.code {
                        FailureCode::Io => "failing",
                        _ => "unusable",
                    },
                    problems: vec![failure.text.clone()],
                };
                let text =
                    serde_json::to_string_pretty(&unusable).map_err(CommandFailure::general)?;
                result_line!("{text}");
            }
            eprintln!("forebay: {failure}");
            Ok(UNUSABLE)
        }
    }
}

/// Salvages an abandoned log. Holds both devices as an attach does, so that no other process has them mounted, attached
/// or open.
async fn salvage(args: CheckArgs, rt: Rt, ring: Rc<IoRing>) -> CommandResult<LayerSalvageReport> {
    let dirs = ProgramDirs::new()?;
    let target = VolumeTarget::find(&args.target, &dirs, &rt, &ring).await?;
    let lock = NameLock::take(&dirs, &target.name)?;
    let all = async || {
        let context = OpenContext {
            rt: &rt,
            ring: &ring,
            options: DeviceOpenOptions::existing(),
        };
        Ok(open(&target.tree, context)?)
    };
    let opened = lock.patiently(&rt, all).await?;
    if let (Ok(log), Ok(state)) = (opened.own().inspect().await, dirs.state())
        && !log.abandoned
        && FailedLogDir::new(&rt, state).is_abandoned(&log).await?
    {
        return Err(CommandFailure::refused(format!(
            "cannot salvage {}: this log failed in use and could not be marked, so it does not list the data that was \
             lost with it; all data that could be read was moved to the data device",
            target.own()
        )));
    }
    Ok(opened.salvage().await?)
}

async fn check(args: CheckArgs, rt: Rt, ring: Rc<IoRing>) -> CommandResult<LayerCheckReport> {
    let context = OpenContext {
        rt: &rt,
        ring: &ring,
        options: DeviceOpenOptions::existing().for_reading(),
    };
    let target = &args.target;
    // The data device is examined only if it is named; without it, the log alone can be checked.
    let by_own_alone = target.name.is_none() && target.devices.roles().count() < 2;
    let opened = if by_own_alone {
        None
    } else {
        let found = VolumeTarget::find(target, &ProgramDirs::new()?, &rt, &ring).await?;
        Some(open(&found.tree, context)?)
    };
    let checked_device = if let Some(opened) = &opened {
        opened.own()
    } else {
        let (kind, spec) = own(target)?;
        SuperblockDevice::open(kind, spec, context)?
    };
    let failed_logs = FailedLogDir::if_known(&rt);
    let context = CheckContext {
        rt: &rt,
        failed_logs: failed_logs.as_ref().map(|records| records as _),
    };
    let mut progress = ByteProgress::new(format!("checking {}", checked_device.spec()));
    let checked = {
        let mut set = |done, total| progress.set(done, total);
        match &opened {
            Some(opened) => opened.check(context, &mut set).await,
            None => checked_device.check(context, &mut set).await,
        }
    };
    progress.finish();
    Ok(checked?)
}
