//! Destaging writes to a sector only data that a client wrote to that sector. Data with a wrong checksum and misplaced
//! data are not written.

use forebay_device::DeviceOp;

use forebay_sim::Violation;
use forebay_sim::disk::DiskRequest;
use forebay_sim::stamp::{SECTOR, SectorContent, read_sector};
use forebay_sim::writers::WriterHistories;

/// Checks a request to the data device.
pub(super) fn issued(writers: &WriterHistories, request: &DiskRequest) -> Result<(), Violation> {
    let Some(bytes) = request
        .bytes
        .as_ref()
        .filter(|_| request.op == DeviceOp::Write)
    else {
        return Ok(());
    };
    let first = request.range.start / SECTOR as u64;
    for (n, sector) in bytes.chunks_exact(SECTOR).enumerate() {
        let number = first + n as u64;
        let content = read_sector(sector);
        let known = match content {
            SectorContent::Stamp { id, sector } => {
                sector == number && writers.was_written(sector, id)
            }
            // The cache never writes zeroes as data.
            SectorContent::Zero | SectorContent::Other => false,
        };
        if !known {
            let text = format!("sector {number} at home is overwritten with {content:?}");
            return Err(Violation::new("home data", text));
        }
    }
    Ok(())
}
