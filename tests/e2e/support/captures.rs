//! Captures that a test writes by hand: a kernel's code object, its memory before and after, as an application would have
//! had them. What the kernel computes is computed here, in Rust.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use logdur_capture::{
    Agent, Allocation, AllocationKind, CodeObject, Dispatch, Global, Id, Kernel, Loaded, Options, Packet, Scope,
    Session, Writer,
};
use object::LittleEndian;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader, Sym};

/// Where code objects are said to have been loaded: aligned as the driver's library aligns all that is larger.
pub(crate) const CODE: u64 = 0x7f20_1240_0000;

/// Where the packet says that the arguments are.
pub(crate) const ARGUMENTS: u64 = 0x7f66_0000_0000;

/// An allocation of the application's.
#[derive(Clone)]
pub(crate) struct Buffer {
    pub(crate) base: u64,
    pub(crate) kind: AllocationKind,
    pub(crate) before: Vec<u8>,
    pub(crate) after: Vec<u8>,
}

impl Buffer {
    /// Of words, in the GPU's memory.
    pub(crate) fn words(base: u64, before: &[u32], after: &[u32]) -> Buffer {
        let bytes = |words: &[u32]| words.iter().flat_map(|w| w.to_le_bytes()).collect();
        Buffer { base, kind: AllocationKind::DeviceCoarse, before: bytes(before), after: bytes(after) }
    }
}

/// A dispatch.
#[derive(Clone)]
pub(crate) struct Captured {
    pub(crate) kernel: &'static str,
    pub(crate) code: Vec<u8>,
    pub(crate) arch: String,
    /// The version of the runtime that the application had; empty if that is not known.
    pub(crate) runtime: &'static str,
    pub(crate) grid: u32,
    pub(crate) workgroup: u16,
    pub(crate) lds: u32,
    /// Bytes of scratch of a work-item.
    pub(crate) scratch: u32,
    pub(crate) kernarg: Vec<u8>,
    pub(crate) buffers: Vec<Buffer>,
    /// Allocations of which the capture has no bytes.
    pub(crate) uncaptured: Vec<Range<u64>>,
    /// Variables of the code object, with their bytes before and after.
    pub(crate) variables: Vec<(&'static str, Vec<u8>, Vec<u8>)>,
    pub(crate) scope: Scope,
    /// False for one without memory after the kernel.
    pub(crate) after: bool,
    /// What the capture lacks.
    pub(crate) without: Option<Demand>,
}

/// A part of what a dispatch demands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Demand {
    /// The kernel's number.
    Kernel,
    /// The kernel's code object.
    Code,
    /// The snapshot before the kernel.
    Before,
    /// What is in the buffers before the kernel.
    Buffers,
}

/// Where a symbol is, and where the last loaded byte is, before loading.
pub(crate) fn places(code: &[u8], symbol: &str) -> (u64, u64) {
    let header = FileHeader64::<LittleEndian>::parse(code).unwrap();
    let segments = header.program_headers(LittleEndian, code).unwrap();
    let loaded = segments.iter().filter(|s| s.p_type(LittleEndian) == object::elf::PT_LOAD);
    let end = loaded.map(|s| s.p_vaddr(LittleEndian) + s.p_memsz(LittleEndian)).max().unwrap();
    let sections = header.sections(LittleEndian, code).unwrap();
    let symbols = sections.symbols(LittleEndian, code, object::elf::SHT_DYNSYM).unwrap();
    let found = symbols.iter().find(|s| symbols.symbol_name(LittleEndian, s) == Ok(symbol.as_bytes()));
    (found.unwrap_or_else(|| panic!("no {symbol}")).st_value(LittleEndian), end)
}

/// Where in a code object's file a symbol's bytes are.
pub(crate) fn offset_of(code: &[u8], symbol: &str) -> usize {
    let address = places(code, symbol).0;
    let header = FileHeader64::<LittleEndian>::parse(code).unwrap();
    let mut segments = header.program_headers(LittleEndian, code).unwrap().iter();
    let found = segments.find_map(|s| {
        let within = address.checked_sub(s.p_vaddr(LittleEndian)).filter(|at| *at < s.p_filesz(LittleEndian))?;
        (s.p_type(LittleEndian) == object::elf::PT_LOAD).then_some(s.p_offset(LittleEndian) + within)
    });
    found.unwrap_or_else(|| panic!("{symbol} is in no segment")) as usize
}

impl Captured {
    /// A dispatch of a kernel of `kernels.hip` with one argument, an address.
    pub(crate) fn of(kernel: &'static str, arch: &str, address: u64, buffers: Vec<Buffer>) -> Captured {
        let code = fs::read(crate::support::harness::kernels(arch)).unwrap();
        Captured {
            kernel,
            code,
            arch: arch.to_owned(),
            runtime: "",
            grid: 256,
            workgroup: 64,
            lds: 0,
            scratch: 0,
            kernarg: address.to_le_bytes().to_vec(),
            buffers,
            uncaptured: Vec::new(),
            variables: Vec::new(),
            scope: Scope::All,
            after: true,
            without: None,
        }
    }

    /// Writes it.
    pub(crate) fn write(&self, path: &Path) -> PathBuf {
        let mut writer = Writer::create(path, &Options::default()).unwrap();
        let (exe, runtime_version) = ("/a/program".to_owned(), self.runtime.to_owned());
        writer.session(&Session { pid: 1, exe, runtime_version, ..Session::default() }).unwrap();
        let isa = format!("amdgcn-amd-amdhsa--{}", self.arch);
        writer.agent(&Agent { id: 1, isa: isa.clone(), ..Agent::default() }).unwrap();
        let about = CodeObject { isa, size: self.code.len() as u64, ..CodeObject::default() };
        let code_object = writer.code_object(&about, &self.code).unwrap();
        assert_eq!(code_object, Id::of(&self.code));
        let (descriptor, size) = places(&self.code, &format!("{}.kd", self.kernel));
        let loaded = Loaded { executable: 1, code_object, agent: 1, base: CODE, size, delta: CODE, uri: String::new() };
        writer.loaded(&loaded).unwrap();
        let object = CODE + descriptor;
        let symbol = self.kernel.to_owned();
        let of_kernel = if self.without == Some(Demand::Code) { Id::default() } else { code_object };
        let kernel =
            Kernel { id: 1, symbol, code_object: of_kernel, executable: 1, agent: 1, object, ..Kernel::default() };
        writer.kernel(&kernel).unwrap();
        let captured = self.buffers.iter().map(|buffer| (buffer.base, buffer.before.len() as u64, buffer.kind));
        let of_device = |range: &Range<u64>| (range.start, range.end - range.start, AllocationKind::DeviceCoarse);
        for (base, size, kind) in captured.chain(self.uncaptured.iter().map(of_device)) {
            let access = vec![1];
            writer.allocation(&Allocation { base, size, kind, owner: 1, access, ..Allocation::default() }).unwrap();
        }
        let mut variables = Vec::new();
        for (symbol, before, after) in &self.variables {
            let (address, size) = (CODE + places(&self.code, symbol).0, before.len() as u64);
            let symbol = (*symbol).to_owned();
            writer.global(&Global { executable: 1, code_object, agent: 1, symbol, address, size }).unwrap();
            variables.push((address, before, after));
        }
        let mut snapshot = writer.snapshot(None);
        if self.without != Some(Demand::Buffers) {
            self.buffers.iter().for_each(|b| snapshot.bytes(b.base, &b.before).unwrap());
        }
        variables.iter().for_each(|(address, before, _)| snapshot.bytes(*address, before).unwrap());
        let before = snapshot.finish().unwrap();
        let after = self.after.then(|| {
            let mut snapshot = writer.snapshot(Some(before));
            self.buffers.iter().for_each(|b| snapshot.bytes(b.base, &b.after).unwrap());
            variables.iter().for_each(|(address, _, after)| snapshot.bytes(*address, after).unwrap());
            snapshot.finish().unwrap()
        });
        let mut packet = packet(object, self.grid, self.workgroup, self.lds);
        packet[24..28].copy_from_slice(&self.scratch.to_le_bytes());
        let dispatch = Dispatch {
            id: 7,
            queue: 1,
            packet: Packet(packet),
            kernarg: self.kernarg.clone(),
            kernel: if self.without == Some(Demand::Kernel) { 0 } else { 1 },
            code_object,
            before: Some(before).filter(|_| self.without != Some(Demand::Before)),
            after,
            occurrence: 1,
            scope: self.scope,
            ..Dispatch::default()
        };
        writer.dispatch(&dispatch).unwrap();
        writer.finish().unwrap();
        path.to_owned()
    }
}

/// HSA Platform System Architecture, 2.9.6: fences of the system's scope, one dimension.
pub(crate) fn packet(object: u64, grid: u32, workgroup: u16, lds: u32) -> [u8; 64] {
    let mut packet = [0; 64];
    let mut put = |at: usize, bytes: &[u8]| packet[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(2u16 | 2 << 9 | 2 << 11).to_le_bytes());
    put(2, &1u16.to_le_bytes());
    put(4, &workgroup.to_le_bytes());
    put(6, &[1, 0, 1, 0]);
    put(12, &grid.to_le_bytes());
    put(16, &[1, 0, 0, 0, 1, 0, 0, 0]);
    put(28, &lds.to_le_bytes());
    put(32, &object.to_le_bytes());
    put(40, &ARGUMENTS.to_le_bytes());
    packet
}
