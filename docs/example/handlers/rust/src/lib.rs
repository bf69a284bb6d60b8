//! A handler in Rust: which pages the accesses of each dispatch touch.

use std::collections::{BTreeMap, HashMap};

use logdur_handler::messages::AddressSpace;
use logdur_handler::{Batch, Dispatch, DispatchResult, Handler, Open};

/// Bytes of a page, unless the option `page` has another number.
const PAGE: u64 = 4096;

/// Counts the addresses in each page.
struct Pages {
    open: Open,
    page: u64,
    running: HashMap<u64, Counted>,
}

/// What is known of a dispatch.
#[derive(Default)]
struct Counted {
    kernel: String,
    pages: BTreeMap<u64, u64>,
}

impl Handler for Pages {
    const NAME: &'static str = "Pages";

    fn open(open: Open) -> Result<Pages, String> {
        let page = open.option("page").map_or(Ok(PAGE), str::parse).ok().filter(|page| *page > 0);
        let page = page.ok_or("expected a number of bytes for the option page")?;
        Ok(Pages { open, page, running: HashMap::new() })
    }

    fn dispatch_begin(&mut self, dispatch: &Dispatch<'_>) -> Result<(), String> {
        let counted = Counted { kernel: dispatch.kernel.to_owned(), ..Counted::default() };
        self.running.insert(dispatch.dispatch, counted);
        Ok(())
    }

    fn messages(&mut self, batch: &Batch<'_>) -> Result<(), String> {
        let counted = self.running.entry(batch.dispatch).or_default();
        for message in batch.messages().filter(|message| message.header.access().space == AddressSpace::Global) {
            for address in message.addresses() {
                *counted.pages.entry(address / self.page).or_default() += 1;
            }
        }
        Ok(())
    }

    fn dispatch_end(&mut self, result: &DispatchResult) -> Result<(), String> {
        let Counted { kernel, pages } = self.running.remove(&result.dispatch).unwrap_or_default();
        let mut report = format!("dispatch {} of {kernel}: {} pages\n", result.dispatch, pages.len());
        for (page, count) in pages {
            report += &format!("  {:#x}: {count}\n", page * self.page);
        }
        self.open.write(&report)
    }
}

logdur_handler::export!(Pages);
