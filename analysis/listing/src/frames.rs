//! Calls that a compiler has inlined: which function an instruction is of, and where it was inlined, from the debug information of a
//! code object.
//!
//! Source: the DWARF standard, versions 2 to 5, "Inlinable and Inlined Subroutines"; `addr2line` reads them.

use std::cell::OnceCell;
use std::sync::Arc;

use addr2line::Context;
use amdgpu_code_object::Image;
use gimli::{DwarfSections, EndianArcSlice, LittleEndian, SectionId};

/// A function that an instruction is in, and the place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function's name, mangled where the language does that.
    pub function: Option<String>,
    /// The source file, as the compiler knew it.
    pub file: String,
    /// The line, from 1 on.
    pub line: u64,
    /// The column, from 1 on; 0 if it is not known.
    pub column: u64,
}

type Slice = EndianArcSlice<LittleEndian>;

/// Functions and inlined calls of some code, read when the first instruction is asked for.
#[derive(Default)]
pub(super) struct Frames {
    sections: Option<DwarfSections<Arc<[u8]>>>,
    context: OnceCell<Option<Context<Slice>>>,
}

impl Frames {
    /// Of a code object. Without debug information, or with damaged sections, there are none.
    pub(super) fn of(image: &Image<'_>) -> Frames {
        let section = |id: SectionId| image.section(id.name()).map(|bytes| Arc::from(&*bytes));
        let has = image.section(SectionId::DebugInfo.name()).is_ok_and(|bytes| !bytes.is_empty());
        let sections = if has { DwarfSections::load(section).ok() } else { None };
        Frames { sections, context: OnceCell::new() }
    }

    /// The functions that an instruction is in, the innermost first: each was inlined into the next. Empty where nothing is known.
    pub(super) fn at(&self, address: u64) -> Vec<Frame> {
        let context = self.context.get_or_init(|| {
            let dwarf = self.sections.as_ref()?.borrow(|bytes| EndianArcSlice::new(bytes.clone(), LittleEndian));
            Context::from_dwarf(dwarf).ok()
        });
        context.as_ref().and_then(|context| read(context, address)).unwrap_or_default()
    }
}

/// `None` where something is damaged.
fn read(context: &Context<Slice>, address: u64) -> Option<Vec<Frame>> {
    let mut found = context.find_frames(address).skip_all_loads().ok()?;
    let mut frames = Vec::new();
    while let Some(frame) = found.next().ok()? {
        let function = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
        // What the compiler made has a function and no place.
        let (file, line, column) = frame.location.map_or((None, 0, 0), |at| {
            (at.file.map(str::to_owned), at.line.unwrap_or_default(), at.column.unwrap_or_default())
        });
        frames.push(Frame { function, file: file.unwrap_or_default(), line: line.into(), column: column.into() });
    }
    Some(frames)
}
