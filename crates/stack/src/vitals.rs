//! What of a volume in use is worth watching as time goes by, whatever its layers.

pub use forebay_dcd::Latency;

/// A volume's vital signs.
#[derive(Clone, PartialEq, Debug)]
pub struct Vitals {
    /// Where what was written waits.
    pub room: Room,
    /// What flows into, through and out of it.
    pub flows: Vec<Flow>,
}

/// A ring in which what was written waits until it is where it is to stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// What it is called.
    pub name: &'static str,
    /// Its length, in bytes.
    pub bytes: u64,
    /// The part in use, in bytes: that which lies before the head.
    pub used_bytes: u64,
    /// Where the head is, in bytes from the ring's beginning.
    pub head_bytes: u64,
}

impl Room {
    /// How much of each of so many equal parts of the ring is in use, 0 to 1, in order; and in which of
    /// them the head is.
    pub fn parts(&self, count: usize) -> (Vec<f64>, usize) {
        let (len, count_f) = (self.bytes.max(1) as f64, count.max(1) as f64);
        let head = self.head_bytes as f64 / len;
        let used = (self.used_bytes as f64 / len).min(1.0);
        // Before the head, and before the ring's beginning, which is its end.
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

/// Something that is counted since the volume was attached.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Flow {
    /// What it is called.
    pub name: &'static str,
    /// How often, if that says anything.
    pub count: Option<u64>,
    /// How much, if that says anything.
    pub bytes: Option<u64>,
    /// How long it took, if that is measured.
    pub latency: Option<Latency>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(used_bytes: u64, head_bytes: u64) -> (Vec<f64>, usize) {
        let (name, bytes) = ("log", 400);
        let room = Room {
            name,
            bytes,
            used_bytes,
            head_bytes,
        };
        room.parts(4)
    }

    #[test]
    fn a_ring_is_in_use_before_its_head_and_goes_on_at_its_end() {
        assert_eq!(parts(0, 0), (vec![0.0; 4], 0));
        assert_eq!(parts(150, 250), (vec![0.0, 1.0, 0.5, 0.0], 2));
        assert_eq!(parts(150, 50), (vec![0.5, 0.0, 0.0, 1.0], 0));
        assert_eq!(parts(400, 100), (vec![1.0; 4], 1));
        assert_eq!(Room::default().parts(0), (vec![], 0));
    }
}
