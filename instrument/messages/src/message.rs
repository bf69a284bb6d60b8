//! The messages of a sub-buffer.
//!
//! A message is a header, a [`Thread`] for each active lane if the header says so, and data. The data of a vector message have
//! the first dword of each active lane, then the second of each, and so on.

use crate::error::{Corrupt, Malformed};
use crate::header::{HEADER_BYTES, Header, Kind, LANE_HEADER_BYTES, Thread};

/// A message: its header and what is behind it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// What it begins with.
    pub header: Header,
    threads: &'a [[u8; LANE_HEADER_BYTES]],
    dwords: &'a [[u8; 4]],
}

/// The messages in the bytes of a sub-buffer, in their order. After the first error there are no more.
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The data of one lane, or of the wave, dword by dword.
#[derive(Clone, Debug)]
pub struct Item<'a> {
    dwords: std::iter::StepBy<std::slice::Iter<'a, [u8; 4]>>,
}

/// How much of a sub-buffer is messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Whole messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: usize,
    /// What is wrong behind them.
    pub corrupt: Option<Corrupt>,
}

/// Goes through the bytes of a sub-buffer: what it has, up to the first error.
pub fn check(bytes: &[u8]) -> Checked {
    let mut messages = Messages::new(bytes);
    let mut checked = Checked::default();
    loop {
        checked.bytes = messages.at;
        match messages.next() {
            Some(Ok(_)) => checked.messages += 1,
            Some(Err(corrupt)) => return Checked { corrupt: Some(corrupt), ..checked },
            None => return checked,
        }
    }
}

impl<'a> Messages<'a> {
    /// Of the used bytes of a sub-buffer.
    pub fn new(bytes: &'a [u8]) -> Messages<'a> {
        Messages { bytes, at: 0 }
    }

    /// Bytes that have not been read.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    #[inline]
    fn read(&self, rest: &'a [u8]) -> Result<Message<'a>, Malformed> {
        let (header, behind) =
            rest.split_first_chunk::<HEADER_BYTES>().ok_or(Malformed::Header { left: rest.len() })?;
        let header = Header::of(header);
        let (size, left) = (header.data_bytes, behind.len());
        let data = usize::try_from(size).ok().and_then(|size| behind.get(..size));
        let data = data.ok_or(Malformed::Size { left, size })?;
        let (dwords, []) = data.as_chunks::<4>() else { return Err(Malformed::Unaligned { size }) };
        let mask = header.exec.count_ones();
        if u32::from(header.lanes) != mask {
            return Err(Malformed::Lanes { mask, count: header.lanes.into() });
        }
        let parts = Malformed::Parts { lanes: mask, size };
        let threads = if header.has_lane_headers { mask as usize } else { 0 };
        let (threads, dwords) = dwords.split_at_checked(threads).ok_or(parts)?;
        let items = if header.is_vector { mask } else { 1 };
        if !dwords.len().checked_rem(items as usize).map_or(dwords.is_empty(), |rest| rest == 0) {
            return Err(parts);
        }
        if header.kind == Kind::Address && dwords.len() != 2 * items as usize {
            return Err(Malformed::Address {
                items,
                size: (4 * dwords.len() as u64).checked_div(items.into()).unwrap_or(0),
            });
        }
        Ok(Message { header, threads, dwords })
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Corrupt>;

    #[inline]
    fn next(&mut self) -> Option<Result<Message<'a>, Corrupt>> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        match self.read(rest) {
            Ok(message) => {
                self.at += HEADER_BYTES + message.header.data_bytes as usize;
                Some(Ok(message))
            }
            Err(found) => {
                let offset = std::mem::replace(&mut self.at, self.bytes.len());
                Some(Err(Corrupt { offset, bytes: self.bytes.len(), found }))
            }
        }
    }
}

impl<'a> Message<'a> {
    /// The numbers of the active lanes, in their order.
    #[inline]
    pub fn lanes(&self) -> impl Iterator<Item = u32> + use<> {
        let mut left = self.header.exec;
        std::iter::from_fn(move || {
            let lane = left.checked_ilog2().map(|_| left.trailing_zeros())?;
            left &= left - 1;
            Some(lane)
        })
    }

    /// The work-items of the active lanes, in the order of the lanes; none without lane headers.
    #[inline]
    pub fn threads(&self) -> impl ExactSizeIterator<Item = Thread> + use<'a> {
        self.threads.iter().map(|bytes| Thread::of(u32::from_le_bytes(*bytes)))
    }

    /// How many items of data there are: one for each active lane, or one for the wave.
    #[inline]
    pub fn items(&self) -> usize {
        if self.header.is_vector { self.header.lanes.into() } else { 1 }
    }

    /// Bytes of an item, a multiple of 4.
    #[inline]
    pub fn item_bytes(&self) -> usize {
        self.dwords.len().checked_div(self.items()).unwrap_or(0) * 4
    }

    /// The data of an item: of the n-th active lane, or of the wave. Empty for an item that is not there.
    #[inline]
    pub fn item(&self, n: usize) -> Item<'a> {
        let items = self.items();
        let from = if n < items { self.dwords.get(n..).unwrap_or(&[]) } else { &[] };
        Item { dwords: from.iter().step_by(items.max(1)) }
    }

    /// The addresses of an address message, in the order of the active lanes; none of other messages.
    #[inline]
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = u64> + use<'a> {
        let count = if self.header.kind == Kind::Address { self.items() } else { 0 };
        let (low, high) = self.dwords.split_at_checked(count).unwrap_or((&[], &[]));
        let word = |(low, high): (&[u8; 4], &[u8; 4])| {
            u64::from(u32::from_le_bytes(*high)) << 32 | u64::from(u32::from_le_bytes(*low))
        };
        low.iter().zip(high).map(word)
    }

    /// When an interval began and ended, in the ticks of the header's clock; `None` for other messages.
    pub fn interval(&self) -> Option<(u64, u64)> {
        let mut words = self.item(0).words();
        let both = (words.next()?, words.next()?);
        (self.header.kind == Kind::TimeInterval).then_some(both)
    }
}

impl<'a> Item<'a> {
    /// Two dwords at a time, the low one first; a single last one is left out.
    pub fn words(mut self) -> impl Iterator<Item = u64> + use<'a> {
        std::iter::from_fn(move || {
            let low = self.next()?;
            Some(u64::from(self.next()?) << 32 | u64::from(low))
        })
    }
}

impl Iterator for Item<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.dwords.next().map(|bytes| u32::from_le_bytes(*bytes))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.dwords.size_hint()
    }
}

impl ExactSizeIterator for Item<'_> {}
