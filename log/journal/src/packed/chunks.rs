//! Finds chunks in what is read, and says what is none.

use std::io::{self, BufRead};

use memchr::memmem;

use super::{HEAD, Kind, MAGIC, MOST_BODY, checksum};

/// Bytes that have been read and are behind are let go when there are so many.
const BEHIND: usize = 1 << 20;

/// What was found.
#[derive(Debug)]
pub(super) enum Chunk {
    /// A chunk whose checksum is right. Its body is [`Chunks::body`].
    Whole { kind: u32, stream: u64 },
    /// No chunk.
    Damage(String),
}

/// The chunks of what is read from its beginning.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    bytes: Vec<u8>,
    /// What is found next begins here.
    at: usize,
    /// Where the body of the last chunk is.
    body: (usize, usize),
    /// Bytes before those that are kept.
    behind: u64,
    has_ended: bool,
}

/// Why bytes are no chunk.
struct Refused(String);

impl Chunks {
    /// How many bytes are behind the last chunk's end.
    pub(super) fn position(&self) -> u64 {
        self.behind + self.at as u64
    }

    /// How many bytes are before the last chunk.
    pub(super) fn start(&self) -> u64 {
        self.behind + self.body.0.saturating_sub(HEAD) as u64
    }

    /// The body of the last chunk.
    pub(super) fn body(&self) -> &[u8] {
        self.bytes.get(self.body.0..self.body.1).unwrap_or_default()
    }

    /// The next chunk; `None` at the end.
    pub(super) fn next(&mut self, input: &mut impl BufRead) -> io::Result<Option<Chunk>> {
        if self.at >= BEHIND {
            self.bytes.drain(..self.at);
            self.behind += self.at as u64;
            self.at = 0;
        }
        self.body = (self.at, self.at);
        if !self.has(input, 1)? {
            return Ok(None);
        }
        let refused = match self.whole(input)? {
            Ok(chunk) => return Ok(Some(chunk)),
            Err(Refused(refused)) => refused,
        };
        let start = self.position();
        while self.skip(input)? {
            let at = self.at;
            if let Ok(Chunk::Whole { kind, .. }) = self.whole(input)? {
                // It is read next.
                self.at = at;
                if Kind::of(kind) == Some(Kind::Mend) {
                    return self.next(input);
                }
                break;
            }
        }
        let bytes = self.position() - start;
        Ok(Some(Chunk::Damage(format!("at byte {start}: {refused}; {bytes} bytes are not read"))))
    }

    /// Goes on to where the next chunk may begin; false if that is the end.
    fn skip(&mut self, input: &mut impl BufRead) -> io::Result<bool> {
        self.at += 1;
        loop {
            let rest = self.bytes.get(self.at..).unwrap_or_default();
            if let Some(found) = memmem::find(rest, &MAGIC) {
                self.at += found;
                return Ok(true);
            }
            // The end may be the beginning of the number.
            self.at = self.at.max((self.bytes.len() + 1).saturating_sub(MAGIC.len()));
            let there = self.bytes.len() - self.at;
            if !self.has(input, there + 1)? {
                self.at = self.bytes.len();
                return Ok(false);
            }
        }
    }

    /// The chunk that begins here.
    fn whole(&mut self, input: &mut impl BufRead) -> io::Result<Result<Chunk, Refused>> {
        let has_head = self.has(input, HEAD)?;
        let there = self.bytes.get(self.at..).unwrap_or_default();
        let magic = there.get(..MAGIC.len()).unwrap_or(there);
        if !MAGIC.starts_with(magic) {
            return Ok(Err(Refused(format!("expected a chunk, found \"{}\"", magic.escape_ascii()))));
        }
        let number =
            |at: usize| there.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |n| u32::from_le_bytes(*n));
        let (kind, length) = (number(8), number(12) as usize);
        let stream = u64::from(number(16)) | u64::from(number(20)) << 32;
        if length > MOST_BODY {
            return Ok(Err(Refused(format!("expected a chunk of at most {MOST_BODY} bytes, found one of {length}"))));
        }
        if !has_head || !self.has(input, HEAD + length)? {
            let found = self.bytes.len() - self.at;
            let expected = if has_head { HEAD + length } else { HEAD };
            return Ok(Err(Refused(format!("expected a chunk of {expected} bytes, found {found} before the end"))));
        }
        let chunk = self.bytes.get(self.at..self.at + HEAD + length).unwrap_or_default();
        let (said, sum) = (chunk.get(24..28).and_then(|sum| sum.first_chunk()), checksum(chunk));
        if said != Some(&sum.to_le_bytes()) {
            return Ok(Err(Refused(format!("the checksum of a chunk of {} bytes is wrong", chunk.len()))));
        }
        self.body = (self.at + HEAD, self.at + HEAD + length);
        self.at += HEAD + length;
        Ok(Ok(Chunk::Whole { kind, stream }))
    }

    /// Reads until there are so many bytes from here on; false if there are not.
    fn has(&mut self, input: &mut impl BufRead, wanted: usize) -> io::Result<bool> {
        while self.bytes.len() - self.at < wanted && !self.has_ended {
            let available = match input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                available => available?,
            };
            let count = available.len();
            self.has_ended = count == 0;
            self.bytes.extend_from_slice(available);
            input.consume(count);
        }
        Ok(self.bytes.len() - self.at >= wanted)
    }
}
