//! How often lanes access each page of memory.

use logdur_analysis::forms::{Out, heatmap};
use logdur_handler::Open;
use logdur_handler::messages::Message;

use crate::each::{About, Analyzer};
use crate::memory::{Where, place};

/// Accesses of lanes to pages of global memory.
pub(crate) struct Heatmap(heatmap::Heatmap);

impl Analyzer for Heatmap {
    const NAME: &'static str = heatmap::NAME;
    const COLUMNS: &'static str = heatmap::COLUMNS;

    fn begin(open: &Open) -> Result<Heatmap, String> {
        Ok(Heatmap(heatmap::Heatmap::new(heatmap::page(open.option("page"))?)))
    }

    fn message(&mut self, _about: &About, message: &Message<'_>, _out: &mut Out) {
        let space = message.header.access().space;
        for address in message.addresses().filter(|address| place(space, *address) == Where::Memory) {
            self.0.add(address, 1);
        }
    }

    fn end(self, about: &About, _open: &Open, out: &mut Out) {
        self.0.write(&about.dispatch(), out);
    }
}
