//! `forebay attach`: recover a volume and serve it, here or in the background.

use crate::args::AttachArgs;
use crate::daemon;
use crate::failure::Outcome;

pub(crate) fn run(args: AttachArgs) -> Outcome {
    if args.foreground {
        daemon::in_foreground(args)
    } else {
        daemon::in_background()
    }
}
