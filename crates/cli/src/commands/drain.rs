//! `forebay drain`: everything to the data device.

use forebay_control::Request;

use crate::args::DrainArgs;
use crate::client::Client;
use crate::dirs::Dirs;
use crate::failure::Outcome;
use crate::output::result_line;
use crate::progress::Progress;
use crate::report::Reply;

pub(crate) fn run(args: &DrainArgs) -> Outcome {
    let mut client = Client::connect(&Dirs::new()?, &args.name)?;
    let timeout_ms = args
        .timeout
        .map(|span| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX));
    drained(
        &mut client,
        &Request::Drain { timeout_ms },
        format!("draining {}", args.name),
    )?;
    result_line!("{} is drained", args.name);
    Ok(())
}

/// Asks for something that drains, and shows how it goes. Returns what is left, in bytes.
pub(crate) fn drained(client: &mut Client, request: &Request, what: String) -> Outcome<u64> {
    let mut dirty = Remaining::new(what);
    let reply = client.ask(request, |left| dirty.set(left));
    dirty.finish();
    Ok(match reply? {
        Reply::Done {
            dirty_bytes,
            warning,
        } => {
            if let Some(warning) = warning {
                eprintln!("forebay: WARNING: {warning}");
            }
            dirty_bytes
        }
        _ => 0,
    })
}

/// Progress told by what is left.
pub(crate) struct Remaining {
    progress: Progress,
    most: u64,
}

impl Remaining {
    pub(crate) fn new(what: String) -> Remaining {
        Remaining {
            progress: Progress::new(what),
            most: 0,
        }
    }

    pub(crate) fn set(&mut self, left: u64) {
        // More can come in while it is going on.
        self.most = self.most.max(left);
        self.progress.set(self.most - left, self.most);
    }

    pub(crate) fn finish(self) {
        self.progress.finish();
    }
}
