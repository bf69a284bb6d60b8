//! Code objects: loaded for an agent, and which ones it can run.

use std::ffi::c_void;
use std::ptr;

use hsa_sys::raw::{
    self, hsa_agent_t, hsa_code_object_reader_t, hsa_executable_t, hsa_isa_info_t, hsa_isa_t, hsa_status_t,
};

use crate::error::call;
use crate::{Api, Executable, Result};

impl Api {
    /// Loads a code object for an agent, into a new executable, and freezes it. Calls `made` with the executable while it is
    /// empty: from then on the loader lists it to other threads.
    ///
    /// # Errors
    /// What the runtime says of the code object; nothing of it stays loaded then, and `made` may have been called.
    pub fn load_code(&self, agent: u64, code: &'static [u8], made: impl FnOnce(Executable)) -> Result<Executable> {
        let mut reader = hsa_code_object_reader_t::default();
        // SAFETY: the bytes live as long as the process; the runtime writes one handle.
        unsafe {
            call!(self.core.hsa_code_object_reader_create_from_memory_fn(code.as_ptr().cast(), code.len(), &mut reader))
        }?;
        let loaded = self.load_with(agent, reader, made);
        // SAFETY: the reader was made above, and no other code knows it. What was loaded does not need it.
        let destroyed = unsafe { call!(self.core.hsa_code_object_reader_destroy_fn(reader)) };
        let executable = loaded?;
        destroyed.map(|()| executable)
    }

    fn load_with(
        &self,
        agent: u64,
        reader: hsa_code_object_reader_t,
        made: impl FnOnce(Executable),
    ) -> Result<Executable> {
        let mut executable = hsa_executable_t::default();
        let (profile, rounding) = (raw::HSA_PROFILE_FULL, raw::HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT);
        // SAFETY: no options; the runtime writes one handle.
        unsafe { call!(self.core.hsa_executable_create_alt_fn(profile, rounding, ptr::null(), &mut executable)) }?;
        made(Executable(executable.handle));
        let agent = hsa_agent_t { handle: agent };
        // SAFETY: the executable was made above, the reader by the caller; no options, no result wanted.
        let loaded = unsafe {
            call!(self.core.hsa_executable_load_agent_code_object_fn(
                executable,
                agent,
                reader,
                ptr::null(),
                ptr::null_mut()
            ))
        };
        // SAFETY: as above.
        let frozen =
            loaded.and_then(|()| unsafe { call!(self.core.hsa_executable_freeze_fn(executable, ptr::null())) });
        if frozen.is_err() {
            // SAFETY: the executable was made above, and no other code knows it. If it stays, no code uses it.
            let _ = unsafe { call!(self.core.hsa_executable_destroy_fn(executable)) };
        }
        frozen.map(|()| Executable(executable.handle))
    }

    /// Unloads what [`Api::load_code`] has loaded.
    ///
    /// # Errors
    /// When the runtime does not know it.
    pub fn unload_code(&self, executable: Executable) -> Result<()> {
        let executable = hsa_executable_t { handle: executable.0 };
        // SAFETY: the runtime checks the handle. Kernels of it that run are the caller's concern, as with every call that
        // takes memory away from a GPU: they fault there, nothing happens here.
        unsafe { call!(self.core.hsa_executable_destroy_fn(executable)) }
    }

    /// The names of the instruction sets that an agent runs, best first, like `amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-`.
    ///
    /// # Errors
    /// When the agent is not valid.
    pub fn isa_names(&self, agent: u64) -> Result<Vec<String>> {
        unsafe extern "C" fn collect(isa: hsa_isa_t, data: *mut c_void) -> hsa_status_t {
            // SAFETY: `data` is the list that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<hsa_isa_t>>()).push(isa) };
            raw::HSA_STATUS_SUCCESS
        }
        let (mut isas, agent) = (Vec::new(), hsa_agent_t { handle: agent });
        // SAFETY: the callback takes the list and does not keep it.
        unsafe { call!(self.core.hsa_agent_iterate_isas_fn(agent, Some(collect), ptr::from_mut(&mut isas).cast())) }?;
        isas.into_iter().map(|isa| self.isa_name(isa)).collect()
    }

    fn isa_name(&self, isa: hsa_isa_t) -> Result<String> {
        let mut length = 0u32;
        self.isa_info(isa, raw::HSA_ISA_INFO_NAME_LENGTH, ptr::from_mut(&mut length).cast())?;
        // One byte more than the name, in case a runtime ends it with a zero.
        let mut name = vec![0u8; length as usize + 1];
        self.isa_info(isa, raw::HSA_ISA_INFO_NAME, name.as_mut_ptr().cast())?;
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }

    fn isa_info(&self, isa: hsa_isa_t, attribute: hsa_isa_info_t, to: *mut c_void) -> Result<()> {
        // SAFETY: the callers give room for what they ask for: a number of 32 bits, or as many bytes as that number says.
        unsafe { call!(self.core.hsa_isa_get_info_alt_fn(isa, attribute, to)) }
    }
}
