//! Named flash parts, by their data sheets.
//!
//! The times are *typical* values if the data sheet has typical values (program and erase), and otherwise maximum
//! values (page read). Chips of one type differ, and a chip changes with wear: Grupp et al., "Characterizing Flash
//! Memory: Anomalies, Observations, and Applications", MICRO 2009. So the values are good for comparisons of layouts,
//! not for predictions of a product.

use std::time::Duration;

/// Properties of a die.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlashPart {
    /// Name in this crate.
    pub name: &'static str,
    /// Full name, and the source of the figures.
    pub source: &'static str,
    /// Bytes in a page, without its spare area.
    pub page_bytes: u32,
    /// Spare bytes of a page, which are transferred with it.
    pub spare_bytes: u32,
    /// Pages in an erase block.
    pub pages_per_block: u32,
    /// Erase blocks in a plane.
    pub blocks_per_plane: u32,
    /// Planes in a die.
    pub planes_per_die: u32,
    /// Time to read a page from the array into the plane's register (tR).
    pub read: Duration,
    /// Time to program a page from the register into the array (tPROG).
    pub program: Duration,
    /// Time to erase a block (tBERS).
    pub erase: Duration,
    /// Time to transfer one byte over the channel.
    pub byte: Duration,
    /// Specified erases of a block. The model counts erases, but blocks do not fail.
    pub endurance: u32,
}

impl FlashPart {
    /// Returns the time to transfer a page with its spare area.
    pub fn transfer(&self) -> Duration {
        self.byte * (self.page_bytes + self.spare_bytes)
    }
}

const PARTS: [FlashPart; 4] = [
    FlashPart {
        name: "k9xxg08uxm",
        source: "Samsung K9XXG08UXM, SLC, as in Agrawal et al., \"Design Tradeoffs for SSD \
                 Performance\", USENIX ATC 2008, table 1 and section 2 (4 KiB cross the channel in \
                 100 us, spare area included)",
        page_bytes: 4096,
        spare_bytes: 0,
        pages_per_block: 64,
        blocks_per_plane: 2048,
        planes_per_die: 4,
        read: Duration::from_micros(25),
        program: Duration::from_micros(200),
        erase: Duration::from_micros(1500),
        byte: Duration::from_nanos(25),
        endurance: 100_000,
    },
    FlashPart {
        name: "mt29f16g08abaca",
        source: "Micron MT29F16G08ABACA, SLC, ONFI 2.2, data sheet's features: asynchronous \
                 interface (tRC 20 ns), tR maximal, tPROG and tBERS typical",
        page_bytes: 4096,
        spare_bytes: 224,
        pages_per_block: 128,
        blocks_per_plane: 2048,
        planes_per_die: 2,
        read: Duration::from_micros(35),
        program: Duration::from_micros(350),
        erase: Duration::from_micros(1500),
        byte: Duration::from_nanos(20),
        endurance: 60_000,
    },
    FlashPart {
        name: "mt29f8g08maa",
        source: "Micron MT29F8G08MAA, MLC, data sheet's features: tRC 25 ns, tR maximal, tPROG and \
                 tBERS typical",
        page_bytes: 2048,
        spare_bytes: 64,
        pages_per_block: 128,
        blocks_per_plane: 2048,
        planes_per_die: 2,
        read: Duration::from_micros(50),
        program: Duration::from_micros(650),
        erase: Duration::from_millis(2),
        byte: Duration::from_nanos(25),
        endurance: 10_000,
    },
    FlashPart {
        name: "qlc-16k",
        source: "no data sheet: QLC with pages of 16 KiB. tPROG by the 30 MB/s that four planes program in \"A 1Tb 4b/Cell \
                 96-Stacked-WL 3D NAND Flash Memory with 30MB/s Program Throughput\", ISSCC 2020, 13.2 (four planes and \
                 tR, tBERS and the channel's 1 GB/s are assumed); 1000 erases as Toshiba gave for its QLC in 2017; \
                 blocks are scaled down to 16 pages, for drives of a few GiB",
        page_bytes: 16384,
        spare_bytes: 0,
        pages_per_block: 16,
        blocks_per_plane: 8192,
        planes_per_die: 4,
        read: Duration::from_micros(100),
        program: Duration::from_micros(2184),
        erase: Duration::from_millis(10),
        byte: Duration::from_nanos(1),
        endurance: 1_000,
    },
];

/// Returns the part with this name.
pub fn named(name: &str) -> Option<FlashPart> {
    PARTS.into_iter().find(|part| part.name == name)
}

/// Returns all names, each with its source.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    PARTS.into_iter().map(|part| (part.name, part.source))
}
