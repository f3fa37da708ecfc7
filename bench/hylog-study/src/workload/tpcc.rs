//! A synthetic workload similar to TPC-C. The workload is not the benchmark.
//!
//! It has the standard's tables, its mix of transactions, its distribution of keys (NURand, clause 2.1.6), and a buffer
//! pool. So its requests are similar to the disk requests of a database. Omitted are indexes, the database's log, the
//! terminals, and transactions that are rolled back. The rows of a transaction are from clauses 2.4 to 2.8.

use std::collections::VecDeque;

use forebay_rng::{Rng, mix};

use super::pool::{DatabasePool, PageUse, PoolOptions};
use super::tables::{DISTRICTS, LINES, TableLayout, TpcCSize, TpcCTable};
use super::{PageAccess, Workload};

/// The share of the database that the pool holds, in percent.
const POOL_PERCENT: u64 = 10;
/// Number of changes for each frame of the pool after which a dirty page is written.
const DIRTY_FOR: u64 = 4;
/// Disk requests for each frame of the pool until the pool is warm.
const WARM: u64 = 8;
/// Number of orders that a stock-level transaction reads.
const LOOKED_AT: usize = 20;

/// An order in its tables.
#[derive(Clone, Copy)]
struct TpcCOrder {
    row: u64,
    new_order: u64,
    first_line: u64,
    lines: u64,
    customer: u64,
}

/// State of a district.
#[derive(Default)]
struct TpcCDistrict {
    undelivered: VecDeque<TpcCOrder>,
    /// The last orders: the first line of each, and its items.
    latest: VecDeque<(u64, Vec<u64>)>,
}

/// Numbers of the tables' next rows.
struct TableRows {
    orders: u64,
    new_orders: u64,
    lines: u64,
    history: u64,
}

/// A workload similar to TPC-C. All users work on the whole database. The number of users is the number of concurrent
/// transactions, as in the replay of a trace.
pub struct TpcC {
    size: TpcCSize,
    pages: u32,
    places: TableLayout,
    pool: DatabasePool,
    rng: Rng,
    districts: Vec<TpcCDistrict>,
    rows: TableRows,
    /// Pending disk requests of each user's transaction.
    waiting: Vec<VecDeque<PageAccess>>,
    /// The constant of NURand, drawn once for a run.
    constant: u64,
}

impl TpcC {
    /// Creates a database of this number of pages, or returns `None` if they are too few.
    pub fn new(pages: u32, seed: u64) -> Option<TpcC> {
        let size = TpcCSize::for_pages(pages.into())?;
        let frames = u64::from(pages) * POOL_PERCENT / 100;
        let pool = PoolOptions {
            frames: frames as u32,
            dirty_for: DIRTY_FOR * frames,
        };
        let districts = size.warehouses * DISTRICTS;
        let orders = districts * size.customers;
        let mut tpcc = TpcC {
            size,
            pages,
            places: TableLayout::new(&size, pages.into()),
            pool: DatabasePool::new(pages, pool),
            rng: Rng::new(seed),
            districts: (0..districts)
                .map(|n| TpcCDistrict::full(&size, n))
                .collect(),
            rows: TableRows {
                orders,
                new_orders: districts * size.undelivered(),
                lines: orders * LINES,
                history: orders,
            },
            waiting: Vec::new(),
            constant: mix(seed, 1),
        };
        tpcc.fill_pool(WARM * frames);
        Some(tpcc)
    }

    /// Runs transactions until the pool is in its steady state. A pool that is not yet full writes almost nothing.
    fn fill_pool(&mut self, accesses: u64) {
        let mut made = 0;
        while made < accesses {
            made += self.transaction().len() as u64;
        }
    }

    /// Returns the size of the database.
    pub fn size(&self) -> TpcCSize {
        self.size
    }

    /// Returns NURand(A, 0, n − 1). The ratio of A to n is as in the standard.
    fn uneven(&self, n: u64, a: u64, of: u64) -> u64 {
        let a = (a * n / of).max(1).next_power_of_two() - 1;
        let c = self.constant % (a + 1);
        ((self.rng.below(a + 1) | self.rng.below(n)) + c) % n
    }

    fn any_customer(&self) -> u64 {
        self.uneven(self.size.customers, 1024, 3000)
    }

    fn any_item(&self) -> u64 {
        self.uneven(self.size.items, 8192, 100_000)
    }

    fn percent(&self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn another_warehouse(&self, home: u64) -> u64 {
        match self.size.warehouses {
            1 => home,
            all => (home + 1 + self.rng.below(all - 1)) % all,
        }
    }
}

impl TpcCDistrict {
    /// Creates a district with its initial orders. The youngest orders are not delivered.
    fn full(size: &TpcCSize, number: u64) -> TpcCDistrict {
        let mut district = TpcCDistrict::default();
        let undelivered = size.undelivered();
        for n in 0..size.customers {
            let row = number * size.customers + n;
            let nth = (n + undelivered).checked_sub(size.customers);
            let order = TpcCOrder {
                row,
                new_order: number * undelivered + nth.unwrap_or(0),
                first_line: row * LINES,
                lines: LINES,
                customer: n,
            };
            if nth.is_some() {
                district.undelivered.push_back(order);
            }
        }
        district
    }

    fn remember(&mut self, first_line: u64, items: Vec<u64>) {
        self.latest.push_back((first_line, items));
        if self.latest.len() > LOOKED_AT {
            self.latest.pop_front();
        }
    }
}

/// A transaction in progress. Its uses of pages go through the pool to the disk.
struct TpcCTransaction<'a> {
    of: &'a mut TpcC,
    disk: VecDeque<PageAccess>,
}

impl TpcCTransaction<'_> {
    fn touch(&mut self, table: TpcCTable, row: u64, how: PageUse) {
        let page = self.of.places.page(table, row);
        self.of.pool.touch(page, how, &mut self.disk);
    }

    /// Adds a row at a table's end. A new page has no old content to read.
    fn add(&mut self, table: TpcCTable, row: u64) {
        let how = match row % table.rows_a_page() {
            0 => PageUse::Fill,
            _ => PageUse::Update,
        };
        self.touch(table, row, how);
    }

    fn customer(&mut self, district: u64, customer: u64, how: PageUse) {
        let row = district * self.of.size.customers + customer;
        self.touch(TpcCTable::Customer, row, how);
    }

    /// Uses a customer, in two of five cases by number. Otherwise by name: on average, three customers have the name.
    /// All three are read, and the middle customer is chosen.
    fn chosen_customer(&mut self, district: u64, how: PageUse) {
        let customer = self.of.any_customer();
        if self.of.percent(60) {
            let (all, third) = (self.of.size.customers, self.of.size.customers / 3);
            self.customer(district, (customer + third) % all, PageUse::Read);
            self.customer(district, (customer + 2 * third) % all, PageUse::Read);
        }
        self.customer(district, customer, how);
    }

    fn new_order(&mut self, warehouse: u64) {
        let of = &mut *self.of;
        let district = warehouse * DISTRICTS + of.rng.below(DISTRICTS);
        let order = TpcCOrder {
            row: of.rows.orders,
            new_order: of.rows.new_orders,
            first_line: of.rows.lines,
            lines: 5 + of.rng.below(11),
            customer: of.any_customer(),
        };
        of.rows.orders += 1;
        of.rows.new_orders += 1;
        of.rows.lines += order.lines;
        let items: Vec<u64> = (0..order.lines).map(|_| of.any_item()).collect();
        let known = &mut of.districts[district as usize];
        known.undelivered.push_back(order);
        known.remember(order.first_line, items.clone());
        self.touch(TpcCTable::Warehouse, warehouse, PageUse::Read);
        self.touch(TpcCTable::District, district, PageUse::Update);
        self.customer(district, order.customer, PageUse::Read);
        self.add(TpcCTable::Orders, order.row);
        self.add(TpcCTable::NewOrder, order.new_order);
        for (line, item) in (order.first_line..).zip(items) {
            let supplier = if self.of.percent(1) {
                self.of.another_warehouse(warehouse)
            } else {
                warehouse
            };
            self.touch(TpcCTable::Item, item, PageUse::Read);
            let stock = supplier * self.of.size.items + item;
            self.touch(TpcCTable::Stock, stock, PageUse::Update);
            self.add(TpcCTable::OrderLine, line);
        }
    }

    fn payment(&mut self, warehouse: u64) {
        let district = warehouse * DISTRICTS + self.of.rng.below(DISTRICTS);
        self.touch(TpcCTable::Warehouse, warehouse, PageUse::Update);
        self.touch(TpcCTable::District, district, PageUse::Update);
        let paying = if self.of.percent(15) {
            let other = self.of.another_warehouse(warehouse);
            other * DISTRICTS + self.of.rng.below(DISTRICTS)
        } else {
            district
        };
        self.chosen_customer(paying, PageUse::Update);
        let row = self.of.rows.history;
        self.of.rows.history += 1;
        self.add(TpcCTable::History, row);
    }

    /// Reads a customer's last order. Any existing order stands for this order.
    fn order_status(&mut self, warehouse: u64) {
        let district = warehouse * DISTRICTS + self.of.rng.below(DISTRICTS);
        self.chosen_customer(district, PageUse::Read);
        let orders = self.of.places.room(TpcCTable::Orders);
        let row = self.of.rng.below(orders);
        self.touch(TpcCTable::Orders, row, PageUse::Read);
        let lines = self.of.places.room(TpcCTable::OrderLine);
        let first = row * lines / orders;
        for line in first..first + LINES {
            self.touch(TpcCTable::OrderLine, line, PageUse::Read);
        }
    }

    /// Delivers the oldest order of each district that has an undelivered order.
    fn delivery(&mut self, warehouse: u64) {
        for district in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
            let oldest = self.of.districts[district as usize].undelivered.pop_front();
            let Some(order) = oldest else {
                continue;
            };
            self.touch(TpcCTable::NewOrder, order.new_order, PageUse::Update);
            self.touch(TpcCTable::Orders, order.row, PageUse::Update);
            for line in order.first_line..order.first_line + order.lines {
                self.touch(TpcCTable::OrderLine, line, PageUse::Update);
            }
            self.customer(district, order.customer, PageUse::Update);
        }
    }

    fn stock_level(&mut self, warehouse: u64) {
        let district = warehouse * DISTRICTS + self.of.rng.below(DISTRICTS);
        self.touch(TpcCTable::District, district, PageUse::Read);
        let latest = self.of.districts[district as usize].latest.clone();
        for (first_line, items) in latest {
            for (line, item) in (first_line..).zip(items) {
                self.touch(TpcCTable::OrderLine, line, PageUse::Read);
                let stock = warehouse * self.of.size.items + item;
                self.touch(TpcCTable::Stock, stock, PageUse::Read);
            }
        }
    }
}

impl TpcC {
    /// Executes a transaction. Returns its disk requests.
    fn transaction(&mut self) -> VecDeque<PageAccess> {
        let warehouse = self.rng.below(self.size.warehouses);
        let drawn = self.rng.below(100);
        let mut doing = TpcCTransaction {
            of: self,
            disk: VecDeque::new(),
        };
        match drawn {
            0..45 => doing.new_order(warehouse),
            45..88 => doing.payment(warehouse),
            88..92 => doing.order_status(warehouse),
            92..96 => doing.delivery(warehouse),
            _ => doing.stock_level(warehouse),
        }
        doing.disk
    }
}

impl Workload for TpcC {
    fn pages(&self) -> u32 {
        self.pages
    }

    fn next(&mut self, user: usize) -> PageAccess {
        if user >= self.waiting.len() {
            self.waiting.resize_with(user + 1, VecDeque::new);
        }
        loop {
            if let Some(access) = self.waiting[user].pop_front() {
                return access;
            }
            self.waiting[user] = self.transaction();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: u32 = 20_000;

    fn accesses(count: usize) -> Vec<PageAccess> {
        let mut tpcc = TpcC::new(PAGES, 5).unwrap();
        (0..count).map(|n| tpcc.next(n % 20)).collect()
    }

    #[test]
    fn hot_pages_get_most_of_the_writes_but_no_single_page_dominates() {
        let mut counts = vec![0u32; PAGES as usize];
        let accesses = accesses(200_000);
        for access in accesses.iter().filter(|access| access.write) {
            counts[access.page as usize] += 1;
        }
        let writes: u32 = counts.iter().sum();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let hottest: u32 = counts[..PAGES as usize * 2 / 5].iter().sum();
        let share = f64::from(hottest) / f64::from(writes);
        assert!((0.6..0.98).contains(&share), "{share}");
        // The pool holds the hottest pages, so even these are written rarely.
        assert!(counts[0] < writes / 100, "{} of {writes}", counts[0]);
    }

    #[test]
    fn reads_and_writes_reach_the_disk_and_one_seed_gives_one_sequence() {
        let first = accesses(50_000);
        let writes = first.iter().filter(|access| access.write).count();
        assert!((10_000..30_000).contains(&writes), "{writes}");
        assert_eq!(first, accesses(50_000));
    }

    #[test]
    fn nurand_has_the_skew_of_the_standard() {
        let tpcc = TpcC::new(PAGES, 5).unwrap();
        let mut counts = vec![0u32; tpcc.size().items as usize];
        for _ in 0..1_000_000 {
            counts[tpcc.any_item() as usize] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let fifth: u32 = counts[..counts.len() / 5].iter().sum();
        // Leutenegger and Dias (SIGMOD 1993): 84 % of the accesses of stock go to 20 % of its rows.
        assert!((780_000..880_000).contains(&fifth), "{fifth}");
    }
}
