//! The array with parity after power failures, with members that lose data that was not flushed.

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use common::{buf, read, run};
use forebay_device::{
    Device, DeviceError, DeviceGeometry, Durability, RamDevice, Result, Tap, TapHooks, TapRequest,
};
use forebay_raid::ParityArray;
use forebay_rng::Rng;
use forebay_rt::Rt;
use futures_util::future::{join, join_all};

const BYTES: u64 = 16 << 10;
const SECTOR: usize = 512;

/// A member's write cache, and its power.
struct MemberCache {
    rt: Rt,
    ram: Rc<RamDevice>,
    rng: Rng,
    /// Content that is certainly on the device.
    durable: RefCell<Vec<u8>>,
    /// Content when the last flush was issued.
    flushing: RefCell<Vec<u8>>,
    power: Rc<Cell<bool>>,
}

type CachedMember = Tap<Rc<RamDevice>, MemberCache>;

impl MemberCache {
    fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; BYTES as usize];
        self.ram.peek(0, &mut bytes);
        bytes
    }

    /// Simulates the power failure: each sector that was not flushed is randomly lost or kept.
    fn lose(&self) {
        let durable = self.durable.borrow();
        for (n, sector) in durable.chunks_exact(SECTOR).enumerate() {
            if self.rng.coin() {
                self.ram.poke((n * SECTOR) as u64, sector);
            }
        }
        drop(durable);
        self.durable.replace(self.content());
    }

    fn powered(&self, asked: &TapRequest) -> Result<()> {
        let error = || std::io::Error::other("no power");
        if self.power.get() {
            Ok(())
        } else {
            Err(DeviceError::io(asked.op(), asked.range(), error()))
        }
    }
}

impl TapHooks for MemberCache {
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        DeviceGeometry {
            volatile: true,
            ..below
        }
    }

    async fn before(&self, asked: &TapRequest) -> Result<()> {
        if let TapRequest::Flush = asked {
            self.flushing.replace(self.content());
        }
        let takes = Duration::from_micros(self.rng.below(1000));
        self.rt.sleep(takes).await;
        self.powered(asked)
    }

    async fn after(&self, asked: &TapRequest) -> Result<()> {
        match asked {
            TapRequest::Flush => {
                let flushed = self.flushing.borrow();
                self.durable.replace(flushed.clone());
            }
            TapRequest::Write(at, data, Durability::Fua) => {
                let at = *at as usize;
                self.durable.borrow_mut()[at..at + data.len()].copy_from_slice(data);
            }
            _ => {}
        }
        Ok(())
    }
}

fn members(rt: &Rt, rng: &Rng, power: &Rc<Cell<bool>>) -> Vec<Rc<CachedMember>> {
    let member = |_| {
        let ram = Rc::new(RamDevice::new(BYTES, 512));
        let cache = MemberCache {
            rt: rt.clone(),
            ram: Rc::clone(&ram),
            rng: Rng::new(rng.next()),
            durable: RefCell::new(vec![0; BYTES as usize]),
            flushing: RefCell::default(),
            power: Rc::clone(power),
        };
        Rc::new(Tap::new(ram, cache))
    };
    (0..3 + rng.below(3)).map(member).collect()
}

/// The possible contents of a sector after a power failure: the durable content, and all later writes.
#[derive(Clone)]
struct CrashSector(Vec<u64>);

struct CrashClients {
    rng: Rng,
    /// The power of the machine: acknowledgements without power reach no client.
    power: Rc<Cell<bool>>,
    sectors: Vec<CrashSector>,
    writes: u64,
}

impl CrashClients {
    /// Writes disjoint ranges concurrently. After a durable write, only its content is possible.
    async fn write(&mut self, array: &ParityArray) {
        let len = self.sectors.len() as u64;
        let mut ends: Vec<u64> = (0..8).map(|_| self.rng.below(len + 1)).collect();
        ends.sort_unstable();
        let mut jobs = Vec::new();
        for range in ends.chunks_exact(2).map(|ends| ends[0]..ends[1]) {
            if range.is_empty() {
                continue;
            }
            self.writes += 1;
            for sector in range.clone() {
                self.sectors[sector as usize].0.push(self.writes);
            }
            jobs.push((range, self.writes, self.rng.one_in(3)));
        }
        let writes = jobs.iter().map(async |(range, word, fua)| {
            let sectors = (range.end - range.start) as usize;
            let data = buf(&word.to_le_bytes().repeat(sectors * SECTOR / 8));
            let durability = if *fua {
                Durability::Fua
            } else {
                Durability::Flush
            };
            array.write(range.start * 512, data, durability).await
        });
        for ((range, word, fua), done) in jobs.iter().zip(join_all(writes).await) {
            if done.is_ok() && *fua && self.power.get() {
                let sectors = &mut self.sectors[range.start as usize..range.end as usize];
                sectors.fill(CrashSector(vec![*word]));
            }
        }
        if self.rng.one_in(3) && array.flush().await.is_ok() && self.power.get() {
            for sector in &mut self.sectors {
                sector.0.drain(..sector.0.len() - 1);
            }
        }
    }

    /// Reads everything. From then on, only the content found is possible.
    async fn look(&mut self, array: &ParityArray, what: &str) {
        for (n, sector) in self.sectors.iter_mut().enumerate() {
            let found = read(array, n as u64 * 512, SECTOR).await.unwrap();
            let words = found.as_chunks::<8>().0;
            let word = u64::from_le_bytes(words[0]);
            assert!(words.iter().all(|w| *w == words[0]), "{what}: sector {n}");
            assert!(sector.0.contains(&word), "{what}: sector {n} holds {word}");
            sector.0 = vec![word];
        }
    }
}

async fn live_through(rt: Rt, seed: u64) -> u64 {
    let rng = Rng::new(seed);
    let power = Rc::new(Cell::new(true));
    let members = members(&rt, &rng, &power);
    let put_together = |missing: Option<usize>| {
        let device = |(n, member): (usize, &Rc<CachedMember>)| {
            let device = Rc::clone(member) as Rc<dyn Device>;
            (Some(n) != missing).then_some(device)
        };
        let devices = members.iter().enumerate().map(device).collect();
        ParityArray::new(&rt, devices, 1024).unwrap()
    };
    let len = put_together(None).geometry().len;
    let mut users = CrashClients {
        rng: Rng::new(seed + 1),
        power: Rc::clone(&power),
        sectors: vec![CrashSector(vec![0]); len as usize / SECTOR],
        writes: 0,
    };
    let mut torn = 0;
    for life in 0..5 {
        let array = put_together(None);
        let cut = async {
            rt.sleep(Duration::from_micros(rng.below(30_000))).await;
            power.set(false);
        };
        let working = async {
            while power.get() {
                users.write(&array).await;
            }
        };
        join(cut, working).await;
        drop(array);
        for member in &members {
            member.lose();
        }
        power.set(true);
        let what = format!("seed {seed}, life {life}");
        let array = put_together(None);
        torn += array.resync(0..len).await.unwrap().parity;
        users.look(&array, &what).await;
        array.flush().await.unwrap();
        // The content reconstructed from the others is the same for each missing member.
        for missing in 0..members.len() {
            users.look(&put_together(Some(missing)), &what).await;
        }
    }
    torn
}

#[test]
fn after_a_power_cut_and_a_resync_durable_data_survives_the_loss_of_any_member() {
    let torn = (0..40).map(|seed| run(move |rt| live_through(rt, seed)));
    // Some rows had wrong parity.
    assert!(torn.sum::<u64>() > 0);
}
