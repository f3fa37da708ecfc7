//! The pages of the tables of a TPC-C database: their number and their places.
//!
//! Rows are from the standard (TPC Benchmark C, revision 5.11, clauses 1.2.1 and 4.2.2). Their lengths are the lengths
//! that the standard computes for its typical sizes. Indexes are omitted. Growing tables are rings: a new row replaces
//! the oldest row, so that the size of the database is constant.

use super::PAGE_BYTES;

/// Districts of a warehouse.
pub(super) const DISTRICTS: u64 = 10;
/// Lines of an order, on average.
pub(super) const LINES: u64 = 10;

/// Size of a database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TpcCSize {
    /// Warehouses.
    pub warehouses: u64,
    /// Customers of a district, and its initial orders: 3,000 in the standard.
    pub customers: u64,
    /// Items, of which each warehouse has a stock: 100,000 in the standard.
    pub items: u64,
}

/// The tables of the standard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TpcCTable {
    /// One row for each warehouse.
    Warehouse,
    /// Ten rows for each warehouse.
    District,
    /// One row for each customer of a district.
    Customer,
    /// One row for each item and warehouse.
    Stock,
    /// One row for each item.
    Item,
    /// A table that grows with each order.
    Orders,
    /// A table that grows with each order and shrinks with each delivery.
    NewOrder,
    /// A table that grows with each line of an order.
    OrderLine,
    /// A table that grows with each payment.
    History,
}

impl TpcCTable {
    /// All tables, in the order of their places.
    pub const ALL: [TpcCTable; 9] = [
        TpcCTable::Warehouse,
        TpcCTable::District,
        TpcCTable::Customer,
        TpcCTable::Stock,
        TpcCTable::Item,
        TpcCTable::Orders,
        TpcCTable::NewOrder,
        TpcCTable::OrderLine,
        TpcCTable::History,
    ];

    /// Returns the bytes of a row.
    fn row_bytes(self) -> u64 {
        match self {
            TpcCTable::Warehouse => 89,
            TpcCTable::District => 95,
            TpcCTable::Customer => 655,
            TpcCTable::Stock => 306,
            TpcCTable::Item => 82,
            TpcCTable::Orders => 24,
            TpcCTable::NewOrder => 8,
            TpcCTable::OrderLine => 54,
            TpcCTable::History => 46,
        }
    }

    /// Returns the number of rows in a page.
    pub fn rows_a_page(self) -> u64 {
        PAGE_BYTES / self.row_bytes()
    }

    fn rows(self, size: &TpcCSize) -> u64 {
        let districts = size.warehouses * DISTRICTS;
        match self {
            TpcCTable::Warehouse => size.warehouses,
            TpcCTable::District => districts,
            TpcCTable::Customer | TpcCTable::Orders | TpcCTable::History => {
                districts * size.customers
            }
            TpcCTable::Stock => size.warehouses * size.items,
            TpcCTable::Item => size.items,
            TpcCTable::NewOrder => districts * size.undelivered(),
            TpcCTable::OrderLine => districts * size.customers * LINES,
        }
    }

    fn pages(self, size: &TpcCSize) -> u64 {
        self.rows(size).div_ceil(self.rows_a_page())
    }
}

impl TpcCSize {
    /// Returns the initially undelivered orders of a district.
    pub fn undelivered(&self) -> u64 {
        self.customers * 3 / 10
    }

    fn pages(&self) -> u64 {
        TpcCTable::ALL.iter().map(|table| table.pages(self)).sum()
    }

    fn scaled(warehouses: u64, thousandths: u64) -> TpcCSize {
        TpcCSize {
            warehouses,
            customers: (3 * thousandths).max(10),
            items: (100 * thousandths).max(100),
        }
    }

    /// Returns the largest database of at most `pages` pages, or `None` below 40 pages. The number of warehouses is the
    /// number that comes nearest with the standard's rows. All tables are then scaled by one factor.
    pub fn for_pages(pages: u64) -> Option<TpcCSize> {
        let standard = |warehouses| TpcCSize::scaled(warehouses, 1000).pages();
        let each = standard(2) - standard(1);
        let warehouses = ((pages + each / 2) / each).max(1);
        let fits = |thousandths: &u64| TpcCSize::scaled(warehouses, *thousandths).pages() <= pages;
        let (mut low, mut high) = (0, 4000);
        while low + 1 < high {
            let middle = u64::midpoint(low, high);
            if fits(&middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        fits(&low).then(|| TpcCSize::scaled(warehouses, low))
    }
}

/// The places of the tables.
#[derive(Clone, Debug)]
pub(super) struct TableLayout {
    /// First page and number of pages of each table, in the order of [`TpcCTable::ALL`].
    tables: Vec<(u64, u64)>,
}

impl TableLayout {
    /// Places the tables one after the other. The order lines get the rest of `pages`.
    pub(super) fn new(size: &TpcCSize, pages: u64) -> TableLayout {
        let mut left = pages.saturating_sub(size.pages());
        let mut first = 0;
        let place = |table: &TpcCTable| {
            let mut pages = table.pages(size);
            if *table == TpcCTable::OrderLine {
                pages += std::mem::take(&mut left);
            }
            let placed = (first, pages);
            first += pages;
            placed
        };
        TableLayout {
            tables: TpcCTable::ALL.iter().map(place).collect(),
        }
    }

    /// Returns the page of a row. In a growing table, the rows wrap.
    pub(super) fn page(&self, table: TpcCTable, row: u64) -> u32 {
        let (first, pages) = self.tables[table as usize];
        (first + row / table.rows_a_page() % pages) as u32
    }

    /// Returns the number of rows that a table can hold.
    pub(super) fn room(&self, table: TpcCTable) -> u64 {
        self.tables[table as usize].1 * table.rows_a_page()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_standard_tpcc_warehouse_takes_75_to_82_megabytes() {
        let one = TpcCSize::scaled(1, 1000);
        let (stock, customers) = (
            TpcCTable::Stock.pages(&one),
            TpcCTable::Customer.pages(&one),
        );
        assert_eq!((stock, customers), (3847, 2500));
        assert_eq!(one.undelivered(), 900);
        let bytes = one.pages() * PAGE_BYTES;
        assert!((75_000_000..82_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_database_has_the_requested_size_within_1_percent_and_standard_proportions() {
        for pages in [5_000, 20_000, 100_000, 1_000_000] {
            let size = TpcCSize::for_pages(pages).unwrap();
            let taken = size.pages();
            assert!(
                taken <= pages && taken > pages * 99 / 100,
                "{taken} {size:?}"
            );
            if pages > 10_000 {
                assert!((80_000..125_000).contains(&size.items), "{size:?}");
            }
        }
        assert_eq!(TpcCSize::for_pages(10), None);
    }

    #[test]
    fn tables_are_adjacent_and_fill_the_database() {
        let pages = 20_000;
        let size = TpcCSize::for_pages(pages).unwrap();
        let places = TableLayout::new(&size, pages);
        let mut end = 0;
        for (first, count) in &places.tables {
            assert_eq!(*first, end);
            end += count;
        }
        assert_eq!(end, pages);
        let room = places.room(TpcCTable::Orders);
        assert_eq!(
            places.page(TpcCTable::Orders, 0),
            places.page(TpcCTable::Orders, room)
        );
        assert_ne!(
            places.page(TpcCTable::Orders, 0),
            places.page(TpcCTable::Orders, room - 1)
        );
    }
}
