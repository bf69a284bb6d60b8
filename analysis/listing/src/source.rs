//! Source lines of instructions, from the line tables of a code object.
//!
//! Source: the DWARF standard, versions 2 to 5, "Line Number Information"; `gimli` reads them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use amdgpu_code_object::{Image, Unreadable};
use gimli::{AttributeValue, ColumnType, DwarfSections, EndianSlice, LittleEndian, SectionId, Unit};

/// Larger files are not source.
const MAX_SOURCE: u64 = 64 << 20;

/// Where an instruction comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourcePlace<'l> {
    /// The source file, as the compiler knew it.
    pub file: &'l str,
    /// The line, from 1 on.
    pub line: u64,
    /// The column, from 1 on; 0 if it is not known.
    pub column: u64,
    /// Its text, where the file can be read here.
    pub text: Option<&'l str>,
}

/// Addresses that come from a line; line 0 is none.
struct Row {
    start: u64,
    end: u64,
    file: usize,
    line: u64,
    column: u64,
}

/// A source file, read when the first of its lines is asked for.
struct File {
    path: String,
    lines: OnceCell<Vec<String>>,
}

/// The lines of some code.
#[derive(Default)]
pub(super) struct Lines {
    files: Vec<File>,
    /// Sorted by address.
    rows: Vec<Row>,
}

/// Why lines cannot be read.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error(transparent)]
    Section(#[from] Unreadable),
    #[error("DWARF: {0}")]
    Dwarf(#[from] gimli::Error),
}

/// The source lines of all code of a code object.
pub struct Sources {
    lines: Lines,
}

impl Sources {
    /// Of a code object; `place` says in errors where its bytes are from. What cannot be read of the lines is left out.
    ///
    /// # Errors
    /// When the bytes are no code object.
    pub fn of(place: &str, bytes: &[u8]) -> crate::Result<Sources> {
        let image = Image::parse(bytes).map_err(crate::unreadable(place))?;
        Ok(Sources { lines: Lines::of(&image, |_| true).0 })
    }

    /// Where the instruction at an address comes from.
    pub fn at(&self, address: u64) -> Option<SourcePlace<'_>> {
        self.lines.at(address)
    }

    /// The paths of the source files.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.lines.files.iter().map(|file| file.path.as_str())
    }
}

type Slice<'d> = EndianSlice<'d, LittleEndian>;

impl Lines {
    /// The lines of the code at the addresses that are wanted, and what kept the rest from being read.
    pub(super) fn of(image: &Image<'_>, wanted: impl Fn(u64) -> bool) -> (Lines, Option<String>) {
        let mut lines = Lines::default();
        let read = lines.read(image, wanted);
        lines.rows.sort_by_key(|row| row.start);
        (lines, read.err().map(|error| error.to_string()))
    }

    /// Where the instruction at an address comes from.
    pub(super) fn at(&self, address: u64) -> Option<SourcePlace<'_>> {
        let before = self.rows.get(..self.rows.partition_point(|row| row.start <= address))?;
        let row = before.last().filter(|row| address < row.end && row.line != 0)?;
        let file = self.files.get(row.file)?;
        let lines = file.lines.get_or_init(|| source_lines(&file.path).unwrap_or_default());
        let text = usize::try_from(row.line - 1).ok().and_then(|at| lines.get(at)).map(String::as_str);
        Some(SourcePlace { file: &file.path, line: row.line, column: row.column, text })
    }

    fn read(&mut self, image: &Image<'_>, wanted: impl Fn(u64) -> bool) -> Result<(), Unknown> {
        let sections = DwarfSections::<Cow<'_, [u8]>>::load(|id: SectionId| image.section(id.name()))?;
        let dwarf = sections.borrow(|bytes| EndianSlice::new(bytes, LittleEndian));
        let (mut units, mut seen) = (dwarf.units(), HashSet::new());
        while let Some(header) = units.next()? {
            let unit = dwarf.unit(header)?;
            let Some(program) = unit.line_program.clone() else { continue };
            // Units may have the same table: what is in it counts once.
            if seen.insert(program.header().offset().0) {
                self.table(&dwarf, &unit, program, &wanted)?;
            }
        }
        Ok(())
    }

    fn table<'d>(
        &mut self,
        dwarf: &gimli::Dwarf<Slice<'d>>,
        unit: &Unit<Slice<'d>>,
        program: gimli::IncompleteLineProgram<Slice<'d>>,
        wanted: &impl Fn(u64) -> bool,
    ) -> Result<(), Unknown> {
        let mut files = HashMap::new();
        let mut rows = program.rows();
        let mut last: Option<Row> = None;
        while let Some((header, row)) = rows.next_row()? {
            if let Some(before) = last.take().filter(|before| before.start < row.address() && wanted(before.start)) {
                self.rows.push(Row { end: row.address(), ..before });
            }
            if row.end_sequence() {
                continue;
            }
            let file = match files.get(&row.file_index()) {
                Some(file) => *file,
                None => {
                    files.insert(row.file_index(), self.files.len());
                    self.add(path(dwarf, unit, header, row.file(header))?)
                }
            };
            let column = match row.column() {
                ColumnType::LeftEdge => 0,
                ColumnType::Column(column) => column.get(),
            };
            let line = row.line().map_or(0, u64::from);
            last = Some(Row { start: row.address(), end: 0, file, line, column });
        }
        // A file whose instructions were all optimised away has a name, too.
        let header = rows.header();
        let first = u64::from(header.version() < 5);
        for index in (first..).take(header.file_names().len()) {
            // No instruction needs it: where its name is damaged, the rest is read all the same.
            if !files.contains_key(&index)
                && let Ok(path) = path(dwarf, unit, header, header.file(index))
            {
                self.add(path);
            }
        }
        Ok(())
    }

    /// Enters a file; its number.
    fn add(&mut self, path: String) -> usize {
        self.files.push(File { path, lines: OnceCell::new() });
        self.files.len() - 1
    }
}

/// The path of a file of a line table, from the folder on that the compiler ran in.
fn path(
    dwarf: &gimli::Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    header: &gimli::LineProgramHeader<Slice<'_>>,
    file: Option<&gimli::FileEntry<Slice<'_>>>,
) -> Result<String, Unknown> {
    let text = |value: AttributeValue<Slice<'_>>| -> Result<String, Unknown> {
        Ok(dwarf.attr_string(unit, value)?.to_string_lossy().into_owned())
    };
    let mut path = unit.comp_dir.map(|folder| PathBuf::from(&*folder.to_string_lossy())).unwrap_or_default();
    if let Some(file) = file {
        if let Some(folder) = file.directory(header) {
            path.push(text(folder)?);
        }
        path.push(text(file.path_name())?);
    }
    Ok(path.display().to_string())
}

/// The lines of a source file.
pub fn source_lines(path: &str) -> Option<Vec<String>> {
    let path = Path::new(path);
    // Opening a pipe or a device could wait for ever.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(MAX_SOURCE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
}
