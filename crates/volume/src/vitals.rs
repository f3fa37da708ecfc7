//! Figures of a volume in use that are worth watching over time, for every kind of layer.

pub use forebay_device::{LATENCY_BOUNDS_US, LatencySummary};

/// A volume's vital signs.
#[derive(Clone, PartialEq, Debug)]
pub struct VolumeVitals {
    /// The ring that holds written data until it is destaged.
    pub room: RingUsage,
    /// Flows into, through and out of the ring.
    pub flows: Vec<FlowCounters>,
}

/// A ring that holds written data until the data reaches its final place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RingUsage {
    /// Name of the ring.
    pub name: &'static str,
    /// Length in bytes.
    pub bytes: u64,
    /// Bytes in use, directly before the head.
    pub used_bytes: u64,
    /// Position of the head, in bytes from the ring's beginning.
    pub head_bytes: u64,
}

impl RingUsage {
    /// Divides the ring into `count` equal parts. Returns the used share of each part, 0 to 1, in order, and the index
    /// of the part that contains the head.
    pub fn parts(&self, count: usize) -> (Vec<f64>, usize) {
        let (len, count_f) = (self.bytes.max(1) as f64, count.max(1) as f64);
        let head = self.head_bytes as f64 / len;
        let used = (self.used_bytes as f64 / len).min(1.0);
        // The used range before the head may wrap around the ring's beginning.
        let stretches = [(head - used, head), (head - used + 1.0, head + 1.0)];
        let part = |n: usize| {
            let (from, to) = (n as f64 / count_f, (n + 1) as f64 / count_f);
            let within = |(start, end): &(f64, f64)| (end.min(to) - start.max(from)).max(0.0);
            let used: f64 = stretches.iter().map(within).sum();
            (used * count_f).clamp(0.0, 1.0)
        };
        let at = (head * count_f) as usize;
        (
            (0..count).map(part).collect(),
            at.min(count.saturating_sub(1)),
        )
    }
}

/// Counters since the volume was attached.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct FlowCounters {
    /// Name of the counters.
    pub name: &'static str,
    /// Number of operations, where meaningful.
    pub count: Option<u64>,
    /// Number of bytes, where meaningful.
    pub bytes: Option<u64>,
    /// Latency, if it is measured.
    pub latency: Option<LatencySummary>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(used_bytes: u64, head_bytes: u64) -> (Vec<f64>, usize) {
        let (name, bytes) = ("log", 400);
        let room = RingUsage {
            name,
            bytes,
            used_bytes,
            head_bytes,
        };
        room.parts(4)
    }

    #[test]
    fn the_used_part_of_a_ring_ends_at_its_head_and_wraps_around() {
        assert_eq!(parts(0, 0), (vec![0.0; 4], 0));
        assert_eq!(parts(150, 250), (vec![0.0, 1.0, 0.5, 0.0], 2));
        assert_eq!(parts(150, 50), (vec![0.5, 0.0, 0.0, 1.0], 0));
        assert_eq!(parts(400, 100), (vec![1.0; 4], 1));
        assert_eq!(RingUsage::default().parts(0), (vec![], 0));
    }
}
