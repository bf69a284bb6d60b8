//! Finds the frames of a file: by its index, or one after the other.

use crate::error::CaptureError;
use crate::frame::{self, HEAD, Head, flag, kind};
use crate::header::{HEADER_BYTES, Header, array};
use crate::index::{self, Entry};
use crate::records::FramePosition;
use crate::source::Source;

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: bytes before it.
    pub offset: u64,
    /// What.
    pub text: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&CaptureError> for Finding {
    fn from(error: &CaptureError) -> Finding {
        let offset = match error {
            CaptureError::Damaged { offset, .. }
            | CaptureError::Newer { offset, .. }
            | CaptureError::NoChunk { offset, .. }
            | CaptureError::WrongChunk { offset, .. }
            | CaptureError::Read { offset, .. } => *offset,
            _ => 0,
        };
        let why = std::error::Error::source(error).map_or_else(String::new, |why| format!(": {why}"));
        Finding { offset, text: format!("{error}{why}") }
    }
}

/// How a file ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was finished.
    Finished,
    /// Its writer did not come to finish it. What was committed is read, the rest was cut off.
    Unfinished {
        /// Bytes up to the last commit.
        whole: u64,
        /// Bytes behind that.
        cut: u64,
        /// Why the frames end where they do, when that is not the end of the file.
        why: Option<Finding>,
    },
}

/// A file, frame by frame.
pub(crate) struct Frames {
    source: Box<dyn Source>,
    pub(crate) length: u64,
    pub(crate) header: Header,
    /// What is wrong with the header in the file, if something is.
    pub(crate) header_damage: Option<Finding>,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames").field("length", &self.length).field("header", &self.header).finish_non_exhaustive()
    }
}

/// The frames that there are, packs left out.
#[derive(Debug)]
pub(crate) struct FrameList {
    pub(crate) entries: Vec<Entry>,
    pub(crate) end: End,
}

impl Frames {
    pub(crate) fn new(source: Box<dyn Source>) -> Result<Frames, CaptureError> {
        let read = |source| CaptureError::Read { offset: 0, bytes: HEADER_BYTES as u64, source };
        let length = source.length().map_err(read)?;
        if length < HEADER_BYTES as u64 {
            return Err(CaptureError::damaged(
                0,
                format!("a capture file, of {HEADER_BYTES} bytes at least"),
                format!("{length} bytes"),
            ));
        }
        let mut bytes = [0; HEADER_BYTES];
        source.read_at(0, &mut bytes).map_err(read)?;
        let (header, header_damage) = match Header::parse(&bytes) {
            Ok(header) => (header, None),
            Err(error) => match recovered(&*source, &bytes, &error) {
                Some(header) => (header, Some(Finding::from(&error))),
                None => return Err(error),
            },
        };
        if u64::from(header.bytes) > length {
            return Err(CaptureError::damaged(
                12,
                format!("a header within the file's {length} bytes"),
                header.bytes.to_string(),
            ));
        }
        Ok(Frames { source, length, header, header_damage })
    }

    /// Where the first frame begins.
    pub(crate) fn first(&self) -> u64 {
        u64::from(self.header.bytes)
    }

    pub(crate) fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), CaptureError> {
        let bytes = to.len() as u64;
        self.source.read_at(offset, to).map_err(|source| CaptureError::Read { offset, bytes, source })
    }

    /// The head of the frame at an offset. All of the frame is in the file.
    pub(crate) fn head(&self, offset: u64) -> Result<Head, CaptureError> {
        let left = self.length.saturating_sub(offset);
        if left < HEAD as u64 {
            return Err(CaptureError::damaged(
                offset,
                format!("a frame, of {HEAD} bytes at least"),
                format!("{left} bytes"),
            ));
        }
        let mut bytes = [0; HEAD];
        self.read(offset, &mut bytes)?;
        let head = Head::parse(&bytes, self.header.tag(), offset)?;
        if head.frame_bytes() > left {
            let expected = format!("a frame of {} bytes", head.frame_bytes());
            return Err(CaptureError::damaged(offset, expected, format!("{left} bytes: it is cut off")));
        }
        Ok(head)
    }

    /// The decoded body of the frame at an offset.
    pub(crate) fn body(&self, offset: u64, head: &Head) -> Result<Vec<u8>, CaptureError> {
        let mut bytes = vec![0; (head.stored + frame::padding(head.stored)) as usize];
        self.read(offset + HEAD as u64, &mut bytes)?;
        head.body(bytes, offset)
    }

    /// Compares the body of the frame at an offset with its checksum, a buffer's worth at a time.
    pub(crate) fn verify(&self, offset: u64, head: &Head, buffer: &mut Vec<u8>) -> Result<(), CaptureError> {
        const STEP: u64 = 64 << 10;
        let mut hasher = crc32fast::Hasher::new();
        let (mut at, end) = (offset + HEAD as u64, offset + head.frame_bytes());
        while at < end {
            buffer.resize(STEP.min(end - at) as usize, 0);
            self.read(at, buffer)?;
            hasher.update(buffer);
            at += buffer.len() as u64;
        }
        head.expect(hasher.finalize(), offset)
    }

    /// The decoded body of the frame at an offset, which has to be of a type.
    pub(crate) fn body_of(&self, offset: u64, kind: u16) -> Result<Vec<u8>, CaptureError> {
        let head = self.head(offset)?;
        if head.kind != kind {
            return Err(CaptureError::damaged(
                offset,
                format!("a frame of type {kind}"),
                format!("one of type {}", head.kind),
            ));
        }
        self.body(offset, &head)
    }

    /// Finds the frames. A file that needs a newer reader is refused.
    pub(crate) fn find(&self, problems: &mut Vec<Finding>) -> Result<FrameList, CaptureError> {
        problems.extend(self.header_damage.clone());
        match self.by_footer() {
            Ok(Some(entries)) => Ok(FrameList { entries, end: End::Finished }),
            Ok(None) => self.scan(problems, true),
            Err(error @ CaptureError::Newer { .. }) => Err(error),
            // The frames are there without their index.
            Err(error) => {
                problems.push(Finding::from(&error));
                self.scan(problems, false)
            }
        }
    }

    /// The entries of the index; `None` without a footer.
    fn by_footer(&self) -> Result<Option<Vec<Entry>>, CaptureError> {
        let Some(at) = self.length.checked_sub(index::TRAILER as u64).filter(|at| *at >= self.first()) else {
            return Ok(None);
        };
        let mut trailer = [0; index::TRAILER];
        self.read(at, &mut trailer)?;
        let Some((_, offset)) = index::trailer(&trailer) else { return Ok(None) };
        let head = self.head(offset)?;
        if head.kind != kind::FOOTER || offset + head.frame_bytes() != self.length {
            return Err(CaptureError::damaged(
                offset,
                "a footer that ends with the file",
                format!("a frame of type {}", head.kind),
            ));
        }
        let (_, mut previous, mut entries) = index::parse_footer(&self.body(offset, &head)?, offset)?;
        let mut parts = Vec::new();
        let mut before = offset;
        while previous != 0 {
            if previous >= before {
                return Err(CaptureError::damaged(before, format!("an index before {before}"), previous.to_string()));
            }
            parts.push(entries);
            before = previous;
            (previous, entries) = index::parse(&self.body_of(before, kind::INDEX)?, before)?;
        }
        parts.push(entries);
        let entries: Vec<Entry> = parts.into_iter().rev().flatten().collect();
        if !entries.is_sorted_by(|a, b| a.offset < b.offset) {
            return Err(CaptureError::damaged(offset, "an index in the order of the file", "another order"));
        }
        Ok(Some(entries))
    }

    /// Goes from head to head. Heads that are not whole are problems, and left out, if others follow; else the file ends there.
    /// `footer`: one that is there is a problem, too, since the index cannot be read by it.
    fn scan(&self, problems: &mut Vec<Finding>, footer: bool) -> Result<FrameList, CaptureError> {
        let (mut entries, mut committed, mut whole) = (Vec::new(), 0, self.first());
        let mut ended = None;
        let mut walk = Walk::new(self);
        let why = loop {
            match walk.next() {
                None => break None,
                Some(Ok((place, head))) => {
                    if !known(head.kind) && head.flags & flag::OPTIONAL == 0 {
                        return Err(unknown(place.offset, head.kind));
                    }
                    if kind::is_indexed(head.kind) {
                        entries.push(Entry { offset: place.offset, kind: head.kind });
                    }
                    ended = (head.kind == kind::FOOTER).then_some((place.offset, head));
                    if head.flags & flag::COMMIT != 0 {
                        (committed, whole) = (entries.len(), walk.offset);
                    }
                }
                Some(Err(error @ CaptureError::Newer { .. })) => return Err(error),
                Some(Err(error)) => match self.resume(walk.offset + HEAD as u64, walk.last()) {
                    Some((offset, _)) => {
                        problems.push(Finding::from(&error));
                        walk.jump(offset);
                    }
                    None => break Some(Finding::from(&error)),
                },
            }
        };
        if let Some((offset, head)) = ended.filter(|_| footer) {
            let body = self.body(offset, &head).and_then(|body| index::parse_footer(&body, offset));
            let left = self.length - walk.offset;
            let behind = || CaptureError::damaged(walk.offset, "the end of the file", format!("{left} bytes"));
            problems.push(Finding::from(&body.err().unwrap_or_else(behind)));
        }
        entries.truncate(committed);
        Ok(FrameList { entries, end: End::Unfinished { whole, cut: self.length - whole, why } })
    }

    /// The first head that is whole from an offset on, later in the sequence than a number.
    pub(crate) fn resume(&self, from: u64, after: Option<u64>) -> Option<(u64, Head)> {
        const BLOCK: u64 = 1 << 20;
        let mut block = Vec::new();
        let mut at = from.next_multiple_of(8);
        while at < self.length {
            block.resize(BLOCK.min(self.length - at) as usize, 0);
            self.read(at, &mut block).ok()?;
            for (i, word) in block.chunks_exact(8).enumerate() {
                let offset = at + 8 * i as u64;
                if word.starts_with(&frame::MAGIC)
                    && let Ok(head) = self.head(offset)
                    && after.is_none_or(|after| head.sequence > after)
                {
                    return Some((offset, head));
                }
            }
            at += BLOCK;
        }
        None
    }
}

/// What a damaged header was. A file of which neither a checksum nor a frame says that it is a capture is none.
fn recovered(source: &dyn Source, bytes: &[u8; HEADER_BYTES], error: &CaptureError) -> Option<Header> {
    let mut head = [0; HEAD];
    let first = source.read_at(HEADER_BYTES as u64, &mut head).ok();
    let tag = u32::from_le_bytes(array(&head, 36));
    let is_frame = first.is_some() && Head::parse(&head, tag, HEADER_BYTES as u64).is_ok();
    // A later version is damage only where the checksum says so.
    let is_newer = matches!(error, CaptureError::Newer { .. });
    Header::recovered(bytes, Some(tag).filter(|_| is_frame && !is_newer))
}

/// True for the types that this version knows.
pub(crate) fn known(kind: u16) -> bool {
    frame::STRUCTURAL.iter().any(|row| row.0 == kind) || crate::records::RECORDS.iter().any(|row| row.0 == kind)
}

pub(crate) fn unknown(offset: u64, kind: u16) -> CaptureError {
    CaptureError::Newer { offset, what: format!("a frame of type {kind}, which has to be known") }
}

/// Goes from frame to frame. After an error it stays where it is.
pub(crate) struct Walk<'f> {
    frames: &'f Frames,
    /// Where the next frame begins.
    pub(crate) offset: u64,
    /// The number of the frame before; whether it says nothing of the next one's.
    last: Option<(u64, bool)>,
}

impl<'f> Walk<'f> {
    pub(crate) fn new(frames: &'f Frames) -> Walk<'f> {
        Walk { frames, offset: frames.first(), last: None }
    }

    /// The number of the frame before.
    pub(crate) fn last(&self) -> Option<u64> {
        self.last.map(|last| last.0)
    }

    /// Continues at an offset, behind lost bytes.
    pub(crate) fn jump(&mut self, offset: u64) {
        self.offset = offset;
        self.last = self.last.map(|last| (last.0, true));
    }

    pub(crate) fn next(&mut self) -> Option<Result<(FramePosition, Head), CaptureError>> {
        if self.offset >= self.frames.length {
            return None;
        }
        Some(self.step())
    }

    fn step(&mut self) -> Result<(FramePosition, Head), CaptureError> {
        let offset = self.offset;
        let head = self.frames.head(offset)?;
        let follows = match self.last {
            None => head.sequence == 0 || head.kind == kind::PADDING || offset > self.frames.first(),
            Some((last, false)) => Some(head.sequence) == last.checked_add(1),
            Some((last, true)) => head.sequence > last,
        };
        if !follows {
            let expected = format!("the frame after number {:?}", self.last().unwrap_or_default());
            return Err(CaptureError::damaged(offset, expected, format!("number {}", head.sequence)));
        }
        self.last = Some((head.sequence, head.kind == kind::PADDING));
        self.offset = offset + head.frame_bytes();
        Ok((FramePosition { sequence: head.sequence, offset }, head))
    }
}
