//! Decoded instructions by address, shared by the workers of a GPU.
//!
//! A page is decoded instruction by instruction as waves reach them. The first time that a dispatch reaches a page, the
//! words that were decoded are compared with memory, so that new code at an old address is never missed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use amdgpu_isa::Decoder;
use amdgpu_isa::block::Block;
use amdgpu_isa::decode::DecodeError;
use amdgpu_isa::inst::Inst;

use crate::lock;
use crate::memory::View;

/// Bytes of a page of code.
pub(crate) const PAGE: u64 = 4096;
const WORDS: usize = PAGE as usize / 4;
/// Words of the following page that an instruction at the end may need.
const TAIL: usize = 3;

/// The instruction that begins at a word, once it is decoded: in one cache line of the host.
#[repr(align(64))]
struct Decoded(OnceLock<Result<Inst, DecodeError>>);

/// The code of one page as it was read, and its decoded instructions.
pub(crate) struct CodePage {
    base: u64,
    words: Box<[u32]>,
    insts: Box<[Decoded; WORDS]>,
    /// The block that begins at a word, once it was looked for.
    blocks: Box<[OnceLock<Block>; WORDS]>,
    /// The first and one past the last word that was decoded.
    used: [AtomicU32; 2],
}

impl CodePage {
    fn read(base: u64, view: &mut View) -> Option<CodePage> {
        let mut bytes = vec![0; 4 * (WORDS + TAIL)];
        // A page must begin mapped; what lies beyond the end of the mapping reads as zero, which is no program.
        view.translate(base, 4, false)?;
        for (n, chunk) in bytes.chunks_mut(4).enumerate() {
            if view.read(base + 4 * n as u64, chunk).is_err() {
                break;
            }
        }
        let words = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        let insts = Box::new([const { Decoded(OnceLock::new()) }; WORDS]);
        let blocks = Box::new([const { OnceLock::new() }; WORDS]);
        Some(CodePage { base, words, insts, blocks, used: [AtomicU32::new(WORDS as u32), AtomicU32::new(0)] })
    }

    /// True when the words that were decoded are still those in memory.
    fn is_current(&self, view: &mut View) -> bool {
        let [first, end] = [&self.used[0], &self.used[1]].map(|n| n.load(Ordering::Relaxed));
        (first..end).all(|n| {
            let at = self.base + 4 * u64::from(n);
            view.word32(at, false).is_ok_and(|word| word.load(Ordering::Relaxed) == self.words[n as usize])
        })
    }

    /// The instruction at byte `offset` of the page.
    #[inline(always)]
    pub(crate) fn inst(&self, offset: u64, decoder: &Decoder) -> &Result<Inst, DecodeError> {
        let n = offset as usize / 4 % WORDS;
        match self.insts[n].0.get() {
            Some(inst) => inst,
            None => self.decode(n, decoder),
        }
    }

    /// The instruction at word `n`, which nothing has reached yet. Apart: the loop over instructions has the call.
    #[cold]
    #[inline(never)]
    fn decode(&self, n: usize, decoder: &Decoder) -> &Result<Inst, DecodeError> {
        self.insts[n].0.get_or_init(|| {
            let decoded = decoder.decode(&self.words[n..]);
            let len = decoded.as_ref().map_or(1, |i| u32::from(i.size) / 4);
            self.used[0].fetch_min(n as u32, Ordering::Relaxed);
            self.used[1].fetch_max(n as u32 + len, Ordering::Relaxed);
            decoded
        })
    }

    /// The block of scalar operations that begins at byte `offset` of the page, if there is one.
    #[inline(always)]
    pub(crate) fn block(&self, offset: u64, decoder: &Decoder) -> Option<&Block> {
        let n = offset as usize / 4 % WORDS;
        let block = match self.blocks[n].get() {
            Some(block) => block,
            None => self.find_block(n, decoder),
        };
        (!block.is_empty()).then_some(block)
    }

    /// The block at word `n`, where nothing has looked for one. Apart, as [`CodePage::decode`].
    #[cold]
    #[inline(never)]
    fn find_block(&self, n: usize, decoder: &Decoder) -> &Block {
        self.blocks[n].get_or_init(|| {
            let mut next = n;
            Block::new(std::iter::from_fn(|| {
                let inst = (next < WORDS).then(|| self.inst(4 * next as u64, decoder))?.as_ref().ok()?;
                next += usize::from(inst.size) / 4;
                Some(inst)
            }))
        })
    }

    /// The words from byte `offset`, for diagnostics.
    pub(crate) fn words(&self, offset: u64) -> &[u32] {
        let n = offset as usize / 4 % WORDS;
        &self.words[n..(n + 2).min(self.words.len())]
    }
}

/// All decoded pages of a GPU.
pub(crate) struct CodeCache {
    decoder: Decoder,
    pages: Mutex<HashMap<u64, Arc<CodePage>>>,
}

impl CodeCache {
    /// An empty cache.
    pub(crate) fn new(decoder: Decoder) -> CodeCache {
        CodeCache { decoder, pages: Mutex::new(HashMap::new()) }
    }

    /// The decoder of the GPU's instructions.
    pub(crate) fn decoder(&self) -> &Decoder {
        &self.decoder
    }

    /// The page at `base`, read again if memory has other code; `None` if nothing is mapped there.
    fn page(&self, base: u64, view: &mut View) -> Option<Arc<CodePage>> {
        if let Some(page) = lock(&self.pages).get(&base)
            && page.is_current(view)
        {
            return Some(page.clone());
        }
        let page = Arc::new(CodePage::read(base, view)?);
        lock(&self.pages).insert(base, page.clone());
        Some(page)
    }
}

/// The pages that one worker uses for one dispatch.
pub(crate) struct Fetch {
    cache: Arc<CodeCache>,
    /// Direct-mapped by page number.
    pages: [Option<Arc<CodePage>>; 16],
}

impl Fetch {
    /// For a new dispatch.
    pub(crate) fn new(cache: Arc<CodeCache>) -> Fetch {
        Fetch { cache, pages: [const { None }; 16] }
    }

    /// Forgets the pages: the next dispatch compares them with memory again.
    pub(crate) fn restart(&mut self) {
        self.pages = [const { None }; 16];
    }

    /// The page that holds `pc`, and what decodes its instructions.
    #[inline]
    pub(crate) fn page(&mut self, pc: u64, view: &mut View) -> Option<(&CodePage, &Decoder)> {
        let base = pc & !(PAGE - 1);
        let slot = (base / PAGE) as usize % self.pages.len();
        if self.pages[slot].as_ref().is_none_or(|page| page.base != base) {
            self.pages[slot] = Some(self.cache.page(base, view)?);
        }
        Some((self.pages[slot].as_deref()?, self.cache.decoder()))
    }
}
