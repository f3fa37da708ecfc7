//! Nothing is written home but what users wrote to that very place: not what fails its checksum, not
//! what belongs elsewhere.

use forebay_device::Op;

use forebay_sim::Violation;
use forebay_sim::disk::Request;
use forebay_sim::lanes::Lanes;
use forebay_sim::stamp::{Content, SECTOR, read_sector};

/// Looks at what is asked of the data device.
pub(super) fn issued(lanes: &Lanes, request: &Request) -> Result<(), Violation> {
    let Some(bytes) = request.bytes.as_ref().filter(|_| request.op == Op::Write) else {
        return Ok(());
    };
    let first = request.range.start / SECTOR as u64;
    for (n, sector) in bytes.chunks_exact(SECTOR).enumerate() {
        let number = first + n as u64;
        let content = read_sector(sector);
        let known = match content {
            Content::Stamp { id, sector } => sector == number && lanes.was_written(sector, id),
            // Zeroes are never written as data.
            Content::Zero | Content::Other => false,
        };
        if !known {
            let text = format!("sector {number} at home is overwritten with {content:?}");
            return Err(Violation::new("home data", text));
        }
    }
    Ok(())
}
