//! Queries of a decision support benchmark: sequential scans of orders and their lines.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use forebay_rng::Rng;

use super::{AppAmount, must};

/// Bytes of a line: its order, quantity, price in cents, discount in hundredths, day, flag, and a comment.
const LINE: usize = 128;
/// Bytes of an order: its number, its priority, and a comment.
const ORDER: usize = 64;
const LINES_OF_ORDER: u64 = 4;
const FLAGS: usize = 4;
const DAYS: u64 = 2_500;
const PRIORITIES: u64 = 5;
/// Bytes of one read.
const READ: usize = 256 << 10;

fn orders(amount: AppAmount) -> u64 {
    amount.of(500, 200 << 10, 1_200 << 10)
}

/// A line of an order.
struct OrderLine {
    order: u64,
    quantity: u64,
    price: u64,
    discount: u64,
    day: u64,
    flag: usize,
}

impl OrderLine {
    fn any(order: u64, numbers: &Rng) -> OrderLine {
        OrderLine {
            order,
            quantity: 1 + numbers.below(50),
            price: 100 + numbers.below(10_000_000),
            discount: numbers.below(11),
            day: numbers.below(DAYS),
            flag: numbers.below(FLAGS as u64) as usize,
        }
    }

    fn encode(&self) -> [u8; LINE] {
        let mut out = [b'.'; LINE];
        let all = [
            self.order,
            self.quantity,
            self.price,
            self.discount,
            self.day,
            self.flag as u64,
        ];
        for (to, number) in out.chunks_mut(8).zip(all) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> OrderLine {
        OrderLine {
            order: number(bytes, 0),
            quantity: number(bytes, 1),
            price: number(bytes, 2),
            discount: number(bytes, 3),
            day: number(bytes, 4),
            flag: number(bytes, 5) as usize % FLAGS,
        }
    }
}

fn number(bytes: &[u8], n: usize) -> u64 {
    let bytes = bytes.get(8 * n..8 * n + 8);
    let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
    u64::from_le_bytes(bytes.unwrap_or_default())
}

/// Answers to the queries: sums of quantities and of prices by flag; the value of certain discounts; lines of urgent
/// orders.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct QueryAnswers {
    sums: [(u64, u64); FLAGS],
    discounts: u64,
    urgent: u64,
}

impl QueryAnswers {
    fn sum(&mut self, line: &OrderLine) {
        let sums = &mut self.sums[line.flag];
        *sums = (sums.0 + line.quantity, sums.1 + line.price);
    }

    fn discount(&mut self, line: &OrderLine) {
        let is_asked = (365..730).contains(&line.day)
            && (5..=7).contains(&line.discount)
            && line.quantity < 24;
        if is_asked {
            self.discounts += line.price * line.discount;
        }
    }
}

fn is_urgent(order: u64) -> bool {
    order % PRIORITIES == 1
}

pub(super) fn prepare(dir: &Path, amount: AppAmount) -> io::Result<()> {
    let numbers = Rng::new(3);
    let new = |name: &str| -> io::Result<BufWriter<File>> {
        let file = File::create_new(dir.join(name))?;
        Ok(BufWriter::with_capacity(1 << 20, file))
    };
    let (mut lines, mut all) = (new("lines")?, new("orders")?);
    let mut answers = QueryAnswers::default();
    for order in 0..orders(amount) {
        for _ in 0..LINES_OF_ORDER {
            let line = OrderLine::any(order, &numbers);
            answers.sum(&line);
            answers.discount(&line);
            answers.urgent += u64::from(is_urgent(order));
            lines.write_all(&line.encode())?;
        }
        let mut one = [b' '; ORDER];
        one[..8].copy_from_slice(&order.to_le_bytes());
        one[8..16].copy_from_slice(&(order % PRIORITIES).to_le_bytes());
        all.write_all(&one)?;
    }
    lines.into_inner()?.sync_all()?;
    all.into_inner()?.sync_all()?;
    std::fs::write(dir.join("answers"), format!("{answers:?}"))
}

pub(super) fn run(dir: &Path, _amount: AppAmount) -> io::Result<()> {
    let mut answers = QueryAnswers::default();
    // Each query is one scan, as for queries that come one after the other on a table larger than memory.
    scan(dir, "lines", LINE, |line| {
        answers.sum(&OrderLine::decode(line));
    })?;
    scan(dir, "lines", LINE, |line| {
        answers.discount(&OrderLine::decode(line));
    })?;
    let mut urgent = BTreeSet::new();
    scan(dir, "orders", ORDER, |order| {
        if number(order, 1) == 1 {
            urgent.insert(number(order, 0));
        }
    })?;
    scan(dir, "lines", LINE, |line| {
        let is_urgent = urgent.contains(&OrderLine::decode(line).order);
        answers.urgent += u64::from(is_urgent);
    })?;
    let wanted = std::fs::read_to_string(dir.join("answers"))?;
    must(wanted == format!("{answers:?}"), "an answer")
}

/// Scans a table, without any of it in the page cache at the start.
fn scan(dir: &Path, name: &str, row: usize, mut each: impl FnMut(&[u8])) -> io::Result<()> {
    let mut file = File::open(dir.join(name))?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    let mut buffer = vec![0; READ];
    let mut have = 0;
    loop {
        let read = file.read(&mut buffer[have..])?;
        if read == 0 {
            return must(have == 0, "the end of a table");
        }
        have += read;
        let whole = have - have % row;
        buffer[..whole].chunks(row).for_each(&mut each);
        buffer.copy_within(whole..have, 0);
        have -= whole;
    }
}
