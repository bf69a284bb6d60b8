//! Values by the address of an instruction.

/// Bytes of code that share a block of values.
const PAGE: u64 = 4096;
/// Bytes of the shortest instruction.
const WORD: u64 = 4;

/// A value for each instruction of executed code. A wave's next instruction is nearly always on the page of its last.
#[derive(Clone, Debug)]
pub(crate) struct ByPc<T> {
    pages: Vec<(u64, Vec<T>)>,
    last: usize,
}

impl<T> Default for ByPc<T> {
    fn default() -> ByPc<T> {
        ByPc { pages: Vec::new(), last: 0 }
    }
}

impl<T: Default + Clone> ByPc<T> {
    /// The value of the instruction at an address.
    #[inline]
    pub(crate) fn at(&mut self, pc: u64) -> &mut T {
        let (base, n) = (pc & !(PAGE - 1), (pc & (PAGE - 1)) / WORD);
        if self.pages.get(self.last).is_none_or(|(page, _)| *page != base) {
            self.last = self.find(base);
        }
        &mut self.pages[self.last].1[n as usize]
    }

    #[cold]
    fn find(&mut self, base: u64) -> usize {
        self.pages.iter().position(|(page, _)| *page == base).unwrap_or_else(|| {
            self.pages.push((base, vec![T::default(); (PAGE / WORD) as usize]));
            self.pages.len() - 1
        })
    }

    /// Every value with its address, those too that were never changed.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (u64, T)> {
        let of_page = |(base, values): (u64, Vec<T>)| (base..).step_by(WORD as usize).zip(values);
        self.pages.into_iter().flat_map(of_page)
    }
}
