//! The targets: a name and a function for each, as both engines call them.

pub mod atomic;
pub mod control;
pub mod files;
pub mod files_image;
pub mod image;
pub mod log;
pub mod protocols;
pub mod server;
pub mod sleds;
pub mod space;
pub mod text;

/// A decoder of untrusted bytes.
#[derive(Clone, Copy)]
pub struct FuzzTarget {
    /// Name of the target, of its directory in the corpus and of its program in `testing/fuzz-guided/`.
    pub name: &'static str,
    /// Function that takes the bytes. Panics if a guarantee does not hold.
    pub run: fn(&[u8]),
    /// Initial inputs, each with a name: the output of the encoders.
    pub seeds: fn() -> Vec<(&'static str, Vec<u8>)>,
    /// Work for an input, relative to decoding a block, for the distribution of time among targets.
    pub cost: u32,
}

/// All targets.
pub const TARGETS: [FuzzTarget; 23] = [
    FuzzTarget {
        name: "superblock",
        run: log::superblock,
        seeds: log::superblock_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "record",
        run: log::record,
        seeds: log::record_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "summary",
        run: log::summary,
        seeds: log::summary_seeds,
        cost: 4,
    },
    FuzzTarget {
        name: "payload",
        run: log::payload,
        seeds: log::payload_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "image",
        run: image::image,
        seeds: image::seeds,
        cost: 400,
    },
    FuzzTarget {
        name: "fuse",
        run: protocols::fuse,
        seeds: protocols::fuse_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "nbd_format",
        run: protocols::nbd_format,
        seeds: protocols::nbd_format_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "nbd_server",
        run: server::nbd_server,
        seeds: server::seeds,
        cost: 100,
    },
    FuzzTarget {
        name: "description",
        run: text::description,
        seeds: text::description_seeds,
        cost: 20,
    },
    FuzzTarget {
        name: "spec",
        run: text::spec,
        seeds: text::spec_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "options",
        run: text::options,
        seeds: text::options_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "sizes",
        run: text::sizes,
        seeds: text::sizes_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "atomic_parts",
        run: atomic::parts,
        seeds: atomic::seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "control",
        run: control::control,
        seeds: control::seeds,
        cost: 2,
    },
    FuzzTarget {
        name: "vsl_superblock",
        run: space::superblock,
        seeds: space::superblock_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "vsl_record",
        run: space::record,
        seeds: space::record_seeds,
        cost: 4,
    },
    FuzzTarget {
        name: "vsl_checkpoint",
        run: space::checkpoint,
        seeds: space::checkpoint_seeds,
        cost: 4,
    },
    FuzzTarget {
        name: "vsl_node",
        run: space::node,
        seeds: space::node_seeds,
        cost: 4,
    },
    FuzzTarget {
        name: "dfs_structures",
        run: files::structures,
        seeds: files::structures_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "dfs_attributes",
        run: files::attributes,
        seeds: files::attributes_seeds,
        cost: 1,
    },
    FuzzTarget {
        name: "dfs_image",
        run: files_image::image,
        seeds: files_image::seeds,
        cost: 400,
    },
    FuzzTarget {
        name: "sleds_ioctls",
        run: sleds::ioctls,
        seeds: sleds::ioctls_seeds,
        cost: 4,
    },
    FuzzTarget {
        name: "sleds_reply",
        run: sleds::reply,
        seeds: sleds::reply_seeds,
        cost: 8,
    },
];

/// Returns the target of this name.
pub fn find(name: &str) -> Option<&'static FuzzTarget> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Gives bytes to the target of this name.
///
/// # Panics
/// If the target is unknown, or a guarantee does not hold.
pub fn give(name: &str, bytes: &[u8]) {
    (find(name).expect("a target").run)(bytes);
}

/// Returns the memory that decoding `bytes` may take: a base amount, and a multiple of the input's length.
fn fair(bytes: &[u8]) -> usize {
    (16 << 10) + 16 * bytes.len()
}
