//! How often lanes access each page of memory: omniprobe's `Heatmap`.

use std::collections::BTreeMap;

use serde_json::json;

use super::{About, Form, Out};

/// Its name.
pub const NAME: &str = "Heatmap";
/// The header line of its comma-separated values.
pub const COLUMNS: &str = "kernel,dispatch_id,start_address,end_address,accesses";
/// Bytes of a page, unless the user says otherwise.
pub const PAGE: u64 = 1 << 20;

/// Bytes of a page, from the option `page`.
///
/// # Errors
/// When it is no power of two.
pub fn page(option: Option<&str>) -> Result<u64, String> {
    let page = option.map_or(Ok(PAGE), str::parse).ok().filter(|page: &u64| page.is_power_of_two());
    page.ok_or_else(|| "option page: expected a power of two of bytes".to_owned())
}

/// Accesses of lanes to pages of global memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heatmap {
    /// Bytes of a page: a power of two.
    pub page: u64,
    /// Lanes by the address of the page.
    pub pages: BTreeMap<u64, u64>,
}

impl Heatmap {
    /// An empty one.
    pub fn new(page: u64) -> Heatmap {
        Heatmap { page, pages: BTreeMap::new() }
    }

    /// So many lanes access the page of an address.
    pub fn add(&mut self, address: u64, lanes: u64) {
        *self.pages.entry(address & !(self.page - 1)).or_default() += lanes;
    }

    /// Writes it.
    pub fn write(&self, about: &About<'_>, out: &mut Out) {
        let last = |start: u64| start + (self.page - 1);
        match out.form {
            Form::Json => {
                let page = |(start, count): (&u64, &u64)| json!({"start_address": start, "end_address": last(*start), "accesses": count});
                let pages: Vec<_> = self.pages.iter().map(page).collect();
                out.object(&json!({"kernel": about.kernel, "dispatch_id": about.id, "pages": pages}));
            }
            Form::Csv => {
                for (start, count) in &self.pages {
                    let (start, last) = (format!("{start:#x}"), format!("{:#x}", last(*start)));
                    out.row(&[&about.kernel, &about.id, &start, &last, count]);
                }
            }
            Form::Text => {
                out.line(&format!("memory heatmap report({}[{}])", about.kernel, about.id));
                out.line(&format!("\tpage size = {}", self.page));
                for (start, count) in &self.pages {
                    out.line(&format!("\tpage[{start:#x}:{:#x}] {count} accesses", last(*start)));
                }
            }
        }
    }
}
