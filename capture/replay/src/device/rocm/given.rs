//! Memory and code that the runtime gives a replay, at the captured addresses or elsewhere.

use std::ops::Range;
use std::ptr::NonNull;

use amdgpu_code_object::Kernel;
use hsa::sys::raw::HSA_STATUS_ERROR_INVALID_CODE_OBJECT;
use hsa::{Executable, HsaError, MappedPart, Pool};
use logdur_capture::AllocationKind;
use logdur_captured::regions::{MemoryRequest, blocks};

use super::Rocm;
use crate::device::Load;
use crate::error::{ReplayError, Requested, Result};

impl Rocm {
    /// The pool for memory of a kind, and whether it is what the application had.
    ///
    /// # Errors
    /// When the device has no such pool.
    pub(super) fn pool(&self, kind: AllocationKind) -> Result<(Pool, bool)> {
        let global = |pool: &&Pool| pool.global_flags.is_some();
        let of_gpu = |fine: bool| {
            let mut pools = self.pools.iter().filter(global);
            pools.find(|p| p.is_gpu && p.agent == self.gpu && p.is_fine_grained() == fine).copied()
        };
        let of_host = |kernarg: bool| {
            let mut pools = self.pools.iter().filter(global);
            pools.find(|p| !p.is_gpu && p.is_for_kernargs() == kernarg && p.is_fine_grained()).copied()
        };
        let (same, instead) = match kind {
            AllocationKind::DeviceCoarse => (of_gpu(false), None),
            AllocationKind::DeviceFine | AllocationKind::DeviceExtended => (of_gpu(true), of_gpu(false)),
            // What is locked is of the fine-grained pool, unless another was asked for (`hsa_amd_memory_lock`).
            AllocationKind::HostPool | AllocationKind::LockedHost => (of_host(false), of_host(true)),
            AllocationKind::Kernarg => (of_host(true), of_host(false)),
            AllocationKind::Managed => (None, of_host(false).or(of_host(true))),
            _ => (None, of_gpu(false)),
        };
        let found = same.map(|pool| (pool, true)).or(instead.map(|pool| (pool, false)));
        found.ok_or_else(|| ReplayError::Environment {
            what: "the pools of memory",
            expected: format!("one for {kind}"),
            found: "none".to_owned(),
        })
    }

    /// Allocates memory of a pool at its addresses: all of it, or none.
    pub(super) fn allocate_at(&mut self, pool: &Pool, range: &Range<u64>) -> Result<()> {
        let free = |memory: NonNull<u8>| {
            // SAFETY: it was allocated just now, and no other code uses it. If it stays, it is only in the way.
            let _ = unsafe { self.api.free(memory) };
        };
        let mut had = Vec::new();
        for block in blocks(range) {
            let bytes = (block.end - block.start) as usize;
            let allocate = || {
                let memory = self.api.allocate(pool, bytes, &[self.gpu]);
                let memory = memory.requested(|| format!("allocating {bytes} bytes for {:#x}", block.start))?;
                Ok((memory.as_ptr().expose_provenance() as u64, memory))
            };
            match self.reserved.steer(&block, allocate, free) {
                Ok(memory) => had.push(memory),
                Err(error) => {
                    had.into_iter().for_each(free);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Maps memory at all addresses at which the application had it.
    pub(super) fn allocate_shared(&mut self, bytes: u64, parts: &[(&MemoryRequest, u64)]) -> Result<()> {
        let Some((first, _)) = parts.first() else { return Ok(()) };
        let (pool, _) = self.pool(first.kind)?;
        let part = |(region, offset): &(&MemoryRequest, u64)| {
            let Range { start, end } = region.range;
            MappedPart { address: start, bytes: (end - start) as usize, offset: *offset as usize }
        };
        parts.iter().for_each(|(region, _)| self.reserved.open(&region.range));
        let parts: Vec<MappedPart> = parts.iter().map(part).collect();
        let request = || format!("mapping {bytes} bytes at {} addresses", parts.len());
        match self.api.map_shared(&pool, bytes as usize, self.gpu, &parts).requested(request)? {
            None => Ok(()),
            // What is at two addresses cannot be elsewhere: kernels may rely on the distance.
            Some(elsewhere) => Err(ReplayError::Placement {
                address: first.range.start,
                length: bytes,
                why: format!("memory that is mapped at several addresses: the runtime gave {elsewhere:#x}"),
            }),
        }
    }

    /// Allocates as much memory as a range has wherever the runtime gives it.
    pub(super) fn allocate_anywhere(&self, pool: &Pool, range: &Range<u64>) -> Result<u64> {
        let bytes = (range.end - range.start) as usize;
        let memory = self.api.allocate(pool, bytes, &[self.gpu]);
        let memory = memory.requested(|| format!("allocating {bytes} bytes instead of {:#x}", range.start))?;
        Ok(memory.as_ptr().expose_provenance() as u64)
    }

    /// Loads code; the address of its anchor, and what it is part of.
    pub(super) fn load_code(&self, code: Load<'_>) -> Result<(u64, Executable)> {
        // The runtime wants the bytes for as long as the process lives.
        let bytes: &'static [u8] = Box::leak(code.bytes().to_vec().into_boxed_slice());
        let loaded = self.api.load_code(self.gpu, bytes, |_| ());
        let runtime = self.api.build_version();
        let executable = match loaded {
            Err(source @ HsaError::Status { status, .. })
                if status == HSA_STATUS_ERROR_INVALID_CODE_OBJECT.0 && is_other(&runtime, &self.captured_under) =>
            {
                let captured = self.captured_under.clone();
                return Err(ReplayError::OtherRuntime { id: code.id(), runtime, captured, source: source.into() });
            }
            loaded => loaded.requested(|| format!("loading code object {}", code.id()))?,
        };
        let anchor = match code {
            Load::Kernel(code) => self.kernel_object(executable, &code.kernel)?,
            Load::Called(_) => self.first_byte(executable)?,
        };
        Ok((anchor, executable))
    }

    /// The address for packets of a kernel that was loaded.
    fn kernel_object(&self, executable: Executable, kernel: &Kernel) -> Result<u64> {
        let symbols = self.api.kernels(executable, self.gpu).requested(|| "listing kernels".to_owned())?;
        // Of a name with colons the runtime knows only the last part.
        let loaded = || {
            let loader = self.api.loader().ok()?;
            let object = *loader.code_objects(executable).ok()?.first()?;
            loader.loaded_at(object).ok().filter(|at| at.base != 0)
        };
        let descriptor = kernel.descriptor.as_ref().map(|descriptor| descriptor.address);
        let address = descriptor.zip(loaded()).map(|(address, at)| address.wrapping_add(at.delta));
        let placed = symbols.iter().find(|symbol| Some(symbol.kernel_object) == address);
        let found = placed.or_else(|| symbols.iter().find(|symbol| symbol.name == kernel.symbol));
        let found = found.ok_or_else(|| ReplayError::Environment {
            what: "the kernels that the runtime loaded",
            expected: kernel.symbol.clone(),
            found: "none of this name".to_owned(),
        });
        Ok(found?.kernel_object)
    }

    /// Where the code object of an executable begins.
    fn first_byte(&self, executable: Executable) -> Result<u64> {
        let asked = self.api.loader().and_then(|loader| {
            let all = loader.code_objects(executable)?;
            all.first().map(|object| loader.loaded_at(*object)).transpose()
        });
        let found = asked.requested(|| "asking where a code object was loaded".to_owned())?;
        found.map(|at| at.base).ok_or_else(|| ReplayError::Environment {
            what: "the code objects that the runtime loaded",
            expected: "one".to_owned(),
            found: "none".to_owned(),
        })
    }
}

/// True for two versions that are known and differ.
fn is_other(runtime: &str, captured: &str) -> bool {
    !runtime.is_empty() && !captured.is_empty() && runtime != captured
}
