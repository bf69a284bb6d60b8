//! How often lanes access each page of memory.

use std::collections::BTreeMap;

use logdur_handler::messages::Message;
use logdur_handler::{Format, Open};
use serde_json::json;

use crate::each::{About, Analyzer, Out};
use crate::memory::{Where, place};

/// Bytes of a page, unless the option `page` has another number.
const PAGE: u64 = 1 << 20;

/// Accesses of lanes to pages of global memory.
pub(crate) struct Heatmap {
    page: u64,
    pages: BTreeMap<u64, u64>,
}

impl Analyzer for Heatmap {
    const NAME: &'static str = "Heatmap";
    const COLUMNS: &'static str = "kernel,dispatch_id,start_address,end_address,accesses";

    fn begin(open: &Open) -> Result<Heatmap, String> {
        let page = open.option("page").map_or(Ok(PAGE), str::parse).ok().filter(|page: &u64| page.is_power_of_two());
        let page = page.ok_or("option page: expected a power of two of bytes")?;
        Ok(Heatmap { page, pages: BTreeMap::new() })
    }

    fn message(&mut self, _about: &About, message: &Message<'_>, _out: &mut Out) {
        let space = message.header.access().space;
        for address in message.addresses().filter(|address| place(space, *address) == Where::Memory) {
            *self.pages.entry(address & !(self.page - 1)).or_default() += 1;
        }
    }

    fn end(self, about: &About, _open: &Open, out: &mut Out) {
        let last = |start: u64| start + (self.page - 1);
        match out.format {
            Format::Json => {
                let pages = self.pages.iter().map(
                    |(start, count)| json!({"start_address": start, "end_address": last(*start), "accesses": count}),
                );
                let pages: Vec<_> = pages.collect();
                out.object(&json!({"kernel": about.kernel, "dispatch_id": about.id, "pages": pages}));
            }
            Format::Csv => {
                for (start, count) in &self.pages {
                    let (start, last) = (format!("{start:#x}"), format!("{:#x}", last(*start)));
                    out.row(&[&about.kernel, &about.id, &start, &last, count]);
                }
            }
            Format::Text => {
                out.line(&format!("memory heatmap report({}[{}])", about.kernel, about.id));
                out.line(&format!("\tpage size = {}", self.page));
                for (start, count) in &self.pages {
                    out.line(&format!("\tpage[{start:#x}:{:#x}] {count} accesses", last(*start)));
                }
            }
        }
    }
}
