//! Following control through code: the instructions that can run from an address on.
//!
//! Jumps that instructions give themselves are followed both ways. Where jumps by address lead, the caller says with
//! [`Walk::start`].

use std::collections::BTreeSet;

use crate::Decoder;
use crate::decode::{DecodeError, length};
use crate::inst::Inst;

/// Bytes of a word of code.
pub const WORD: usize = 4;
/// The most words that an instruction of these processors has.
const MOST: usize = 4;

/// The words of one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    words: [u32; MOST],
    count: usize,
}

impl Words {
    /// The words; none where there is no code.
    pub fn words(&self) -> &[u32] {
        &self.words[..self.count]
    }

    /// How many bytes they are, whole words.
    pub fn bytes(&self) -> u64 {
        (self.count * WORD) as u64
    }
}

/// The instruction or data at the beginning of some bytes, which are not none, and its words. Bytes at the end that are no
/// whole word are filled up with zeros.
pub fn first(decoder: &Decoder, bytes: &[u8]) -> (Words, Result<Inst, DecodeError>) {
    let dword = |bytes: &[u8]| bytes.iter().rev().fold(0, |all, &byte| all << 8 | u32::from(byte));
    let mut words = [0; MOST];
    let mut whole = 0;
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(WORD)) {
        *word = dword(bytes);
        whole += 1;
    }
    if whole == 0 {
        return (Words { words: [dword(bytes), 0, 0, 0], count: 1 }, Err(DecodeError::Truncated));
    }
    let decoded = decoder.decode(&words[..whole]);
    let count = decoded.as_ref().map_or_else(|_| length(words[0]), |inst| usize::from(inst.size) / WORD);
    (Words { words, count: count.min(whole) }, decoded)
}

/// An instruction that control can get to, or what is there instead.
pub struct Step {
    /// Its address.
    pub address: u64,
    /// Its words; none where control leads out of the code.
    pub words: Words,
    /// The instruction, or why there is none.
    pub inst: Result<Inst, DecodeError>,
}

impl Step {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.address.wrapping_add(self.words.bytes())
    }
}

/// All instructions that control can get to from some addresses, each once. Words that are no instruction are stepped over.
pub struct Walk<'d, C> {
    decoder: &'d Decoder,
    code: C,
    seen: BTreeSet<u64>,
    starts: Vec<u64>,
    /// Where the next instruction is, if control goes on to it.
    next: Option<u64>,
    /// Where instructions jump to.
    targets: BTreeSet<u64>,
}

impl<'d, 'c, C: Fn(u64) -> Option<&'c [u8]>> Walk<'d, C> {
    /// Of code that is found by its address: the bytes from there on, `None` where nothing can be executed.
    pub fn new(decoder: &'d Decoder, code: C) -> Walk<'d, C> {
        Walk { decoder, code, seen: BTreeSet::new(), starts: Vec::new(), next: None, targets: BTreeSet::new() }
    }

    /// Control can get to this address, too.
    pub fn start(&mut self, address: u64) {
        self.starts.push(address);
    }

    /// Where instructions that were met jump to.
    pub fn targets(&self) -> &BTreeSet<u64> {
        &self.targets
    }

    /// The addresses of the instructions of a range, if they lie one behind the other.
    pub fn all(&self, start: u64, size: u64) -> Vec<u64> {
        let code = (self.code)(start).unwrap_or_default();
        let size = usize::try_from(size).unwrap_or(usize::MAX).min(code.len());
        let (mut rest, mut at) = (&code[..size], start);
        let mut all = Vec::new();
        while !rest.is_empty() {
            all.push(at);
            let size = (first(self.decoder, rest).0.bytes() as usize).min(rest.len());
            rest = &rest[size..];
            at = at.wrapping_add(size as u64);
        }
        all
    }
}

impl<'c, C: Fn(u64) -> Option<&'c [u8]>> Iterator for Walk<'_, C> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        let address = loop {
            let address = self.next.take().or_else(|| self.starts.pop())?;
            if self.seen.insert(address) {
                break address;
            }
        };
        let Some(code) = (self.code)(address).filter(|code| !code.is_empty()) else {
            let words = Words { words: [0; MOST], count: 0 };
            return Some(Step { address, words, inst: Err(DecodeError::Truncated) });
        };
        let (words, inst) = first(self.decoder, code);
        let step = Step { address, words, inst };
        if let Some(target) = step.inst.as_ref().ok().and_then(|inst| inst.target(address)) {
            self.targets.insert(target);
            self.starts.push(target);
        }
        self.next = step.inst.as_ref().map_or(true, Inst::falls_through).then(|| step.end());
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;

    #[test]
    fn jumps_are_followed_both_ways_and_what_is_behind_an_end_is_not() {
        // s_nop 0; s_cbranch_scc1 +1; s_endpgm; s_endpgm; s_nop 1
        let words = [0xbf80_0000u32, 0xbf85_0001, 0xbf81_0000, 0xbf81_0000, 0xbf80_0001];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let decoder = Decoder::new(Arch::Gfx906);
        let mut walk = Walk::new(&decoder, |at| bytes.get(at as usize..));
        walk.start(0);
        let met: BTreeSet<u64> = walk.by_ref().map(|step| step.address).collect();
        assert_eq!(met, [0, 4, 8, 12].into());
        assert_eq!(walk.targets(), &[12].into());
        walk.start(100);
        let outside: Vec<Step> = walk.collect();
        assert_eq!((outside.len(), outside[0].words.words().len()), (1, 0));
    }
}
