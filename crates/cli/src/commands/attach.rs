//! `forebay attach`: recovers a volume and serves it, in the foreground or in the background.

use crate::args::{AttachArgs, warn};
use crate::daemon::{self, ServingArgs};
use forebay_command_output::failure::CommandResult;

pub(crate) fn run(args: AttachArgs) -> CommandResult {
    if !args.daemon {
        warn(&args.options.warnings);
    }
    if args.foreground {
        daemon::in_foreground(ServingArgs {
            target: args.target,
            options: args.options.values,
            accept: args.accept,
            daemon: args.daemon,
            mount: None,
        })
    } else {
        daemon::in_background(std::env::args_os().skip(1).collect(), false)
    }
}
