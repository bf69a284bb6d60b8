//! Executables: code loaded for an agent, and the kernels in it.

use std::ffi::c_void;
use std::ptr;

use hsa_sys::raw::{
    self, hsa_agent_t, hsa_executable_symbol_info_t, hsa_executable_symbol_t, hsa_executable_t,
    hsa_loaded_code_object_t, hsa_status_t, hsa_ven_amd_loader_1_01_pfn_t,
    hsa_ven_amd_loader_loaded_code_object_info_e,
};

use crate::error::{call, check};
use crate::{Api, HsaError, Result};

/// An executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executable(pub u64);

/// A kernel of an executable, as the loader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelSymbol {
    /// Name of the symbol, for example `_Z3addPf.kd`.
    pub name: String,
    /// The agent that it was loaded for.
    pub agent: u64,
    /// Address of the kernel descriptor: `kernel_object` of packets.
    pub kernel_object: u64,
    /// Bytes of arguments; `None` when the loader does not know: where a descriptor has 0.
    pub kernarg_size: Option<u32>,
    /// Bytes of LDS that the code was compiled for.
    pub group_segment_size: u32,
    /// Bytes of scratch of a work-item that the code was compiled for.
    pub private_segment_size: u32,
}

/// A variable of an executable, as the loader knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSymbol {
    /// Name of the symbol.
    pub name: String,
    /// The agent that it was loaded for.
    pub agent: u64,
    /// Where it is.
    pub address: u64,
    /// Bytes.
    pub size: u32,
}

/// Where a code object was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedAt {
    /// The address of its first byte.
    pub base: u64,
    /// Bytes.
    pub size: u64,
    /// What is added to an address of its file.
    pub delta: u64,
}

/// The loader's extension, which is in no table and has to be asked for.
#[derive(Clone, Copy)]
pub struct Loader(hsa_ven_amd_loader_1_01_pfn_t);

/// What is known of a symbol, if it is of the kind that is looked for.
type ReadSymbol<T> = fn(&Api, hsa_executable_symbol_t, hsa_agent_t) -> Result<Option<T>>;

/// The symbols that a callback of the runtime reads; the last error, if any.
struct Symbols<'a, T> {
    api: &'a Api,
    read: ReadSymbol<T>,
    items: Vec<T>,
    error: Option<HsaError>,
}

impl Api {
    /// The loader's extension.
    ///
    /// # Errors
    /// When this runtime has none of version 1.
    pub fn loader(&self) -> Result<Loader> {
        let mut functions = hsa_ven_amd_loader_1_01_pfn_t::default();
        let extension = raw::HSA_EXTENSION_AMD_LOADER.0 as u16;
        let size = size_of_val(&functions);
        let to = ptr::from_mut(&mut functions).cast();
        // SAFETY: the runtime writes at most `size` bytes of a struct whose layout the major version fixes.
        unsafe { call!(self.core.hsa_system_get_major_extension_table_fn(extension, 1, size, to)) }?;
        Ok(Loader(functions))
    }

    /// True for an executable that is frozen: it gets no more code objects.
    ///
    /// # Errors
    /// When the executable is not valid.
    pub fn is_frozen(&self, executable: Executable) -> Result<bool> {
        let mut state = raw::HSA_EXECUTABLE_STATE_UNFROZEN;
        let (executable, to) = (hsa_executable_t { handle: executable.0 }, ptr::from_mut(&mut state).cast());
        // SAFETY: the attribute is a state, to which there is room.
        unsafe { call!(self.core.hsa_executable_get_info_fn(executable, raw::HSA_EXECUTABLE_INFO_STATE, to)) }?;
        Ok(state == raw::HSA_EXECUTABLE_STATE_FROZEN)
    }

    /// The kernels of a frozen executable that were loaded for an agent.
    ///
    /// # Errors
    /// When the executable or the agent is not valid.
    pub fn kernels(&self, executable: Executable, agent: u64) -> Result<Vec<KernelSymbol>> {
        self.symbols(executable, agent, Api::kernel)
    }

    /// The variables of a frozen executable that were loaded for an agent.
    ///
    /// # Errors
    /// When the executable or the agent is not valid.
    pub fn variables(&self, executable: Executable, agent: u64) -> Result<Vec<VariableSymbol>> {
        self.symbols(executable, agent, Api::variable)
    }

    /// What `read` makes of the symbols of an executable; an error of one symbol does not hide the others.
    fn symbols<T>(&self, executable: Executable, agent: u64, read: ReadSymbol<T>) -> Result<Vec<T>> {
        unsafe extern "C" fn collect<T>(
            _: hsa_executable_t,
            agent: hsa_agent_t,
            symbol: hsa_executable_symbol_t,
            data: *mut c_void,
        ) -> hsa_status_t {
            // SAFETY: `data` is the `Symbols` that is passed below, which nothing else uses during the iteration.
            let to = unsafe { &mut *data.cast::<Symbols<'_, T>>() };
            match (to.read)(to.api, symbol, agent) {
                Ok(item) => to.items.extend(item),
                Err(error) => to.error = Some(error),
            }
            raw::HSA_STATUS_SUCCESS
        }
        let mut list = Symbols { api: self, read, items: Vec::new(), error: None };
        let (executable, agent) = (hsa_executable_t { handle: executable.0 }, hsa_agent_t { handle: agent });
        let to = ptr::from_mut(&mut list).cast();
        // SAFETY: the callback takes the list, of the same `T`, and does not keep it.
        unsafe { call!(self.core.hsa_executable_iterate_agent_symbols_fn(executable, agent, Some(collect::<T>), to)) }?;
        match list.error {
            Some(error) if list.items.is_empty() => Err(error),
            _ => Ok(list.items),
        }
    }

    /// What is known of a symbol if it is a variable.
    fn variable(&self, symbol: hsa_executable_symbol_t, agent: hsa_agent_t) -> Result<Option<VariableSymbol>> {
        if self.symbol_number::<u32>(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_TYPE)? != raw::HSA_SYMBOL_KIND_VARIABLE.0 {
            return Ok(None);
        }
        Ok(Some(VariableSymbol {
            name: self.symbol_name(symbol)?,
            agent: agent.handle,
            address: self.symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS)?,
            size: self.symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE)?,
        }))
    }

    /// What is known of a symbol if it is a kernel.
    fn kernel(&self, symbol: hsa_executable_symbol_t, agent: hsa_agent_t) -> Result<Option<KernelSymbol>> {
        if self.symbol_number::<u32>(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_TYPE)? != raw::HSA_SYMBOL_KIND_KERNEL.0 {
            return Ok(None);
        }
        Ok(Some(KernelSymbol {
            name: self.symbol_name(symbol)?,
            agent: agent.handle,
            kernel_object: self.symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT)?,
            kernarg_size: Some(
                self.symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_SIZE)?,
            )
            .filter(|size| *size != 0),
            group_segment_size: self
                .symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_GROUP_SEGMENT_SIZE)?,
            private_segment_size: self
                .symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_PRIVATE_SEGMENT_SIZE)?,
        }))
    }

    fn symbol_name(&self, symbol: hsa_executable_symbol_t) -> Result<String> {
        let length: u32 = self.symbol_number(symbol, raw::HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH)?;
        // One byte more than the name, in case a runtime ends it with a zero.
        let mut name = vec![0u8; length as usize + 1];
        // SAFETY: the runtime writes as many bytes as it said that the name has.
        unsafe {
            call!(self.core.hsa_executable_symbol_get_info_fn(
                symbol,
                raw::HSA_EXECUTABLE_SYMBOL_INFO_NAME,
                name.as_mut_ptr().cast()
            ))
        }?;
        name.truncate(length as usize);
        Ok(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned())
    }

    fn symbol_number<T: Default>(
        &self,
        symbol: hsa_executable_symbol_t,
        attribute: hsa_executable_symbol_info_t,
    ) -> Result<T> {
        let mut value = T::default();
        // SAFETY: every attribute that is asked for above is a plain number of the size of `T`.
        unsafe {
            call!(self.core.hsa_executable_symbol_get_info_fn(symbol, attribute, ptr::from_mut(&mut value).cast()))
        }?;
        Ok(value)
    }
}

impl Loader {
    /// The agents that code objects were loaded for, each once.
    ///
    /// # Errors
    /// When the loader does not know one.
    pub fn agents(&self, code_objects: &[u64]) -> Result<Vec<u64>> {
        let mut agents = Vec::new();
        for object in code_objects {
            let agent = self.agent(*object)?;
            if !agents.contains(&agent) {
                agents.push(agent);
            }
        }
        Ok(agents)
    }

    /// The handles of the code objects that are loaded into an executable.
    ///
    /// # Errors
    /// When the executable is not valid.
    pub fn code_objects(&self, executable: Executable) -> Result<Vec<u64>> {
        unsafe extern "C" fn collect(
            _: hsa_executable_t,
            object: hsa_loaded_code_object_t,
            data: *mut c_void,
        ) -> hsa_status_t {
            // SAFETY: `data` is the list that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<u64>>()).push(object.handle) };
            raw::HSA_STATUS_SUCCESS
        }
        let call = "hsa_ven_amd_loader_executable_iterate_loaded_code_objects";
        let iterate =
            self.0.hsa_ven_amd_loader_executable_iterate_loaded_code_objects.ok_or(HsaError::Missing { call })?;
        let mut list = Vec::<u64>::new();
        let (executable, to) = (hsa_executable_t { handle: executable.0 }, ptr::from_mut(&mut list).cast());
        // SAFETY: the callback takes the list and does not keep it.
        check(unsafe { iterate(executable, Some(collect), to) }, call)?;
        Ok(list)
    }

    /// The agent that a code object was loaded for. One that was loaded for none, by `hsa_executable_load_program_code_object`,
    /// must not be asked for: builds of ROCr with assertions end the process.
    ///
    /// # Errors
    /// When the loader does not know it.
    pub fn agent(&self, code_object: u64) -> Result<u64> {
        let object = hsa_loaded_code_object_t { handle: code_object };
        self.code_object_number(object, raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_AGENT)
    }

    /// Where the bytes are that a code object was loaded from, and how many. They are there for as long as the reader is
    /// that it was loaded with.
    ///
    /// # Errors
    /// When this loader cannot say.
    pub fn code_object_bytes(&self, object: u64) -> Result<(u64, u64)> {
        let object = hsa_loaded_code_object_t { handle: object };
        let base = raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_BASE;
        let size = raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_CODE_OBJECT_STORAGE_MEMORY_SIZE;
        Ok((self.code_object_number(object, base)?, self.code_object_number(object, size)?))
    }

    /// Where a code object was loaded.
    ///
    /// # Errors
    /// When this loader cannot say.
    pub fn loaded_at(&self, object: u64) -> Result<LoadedAt> {
        let object = hsa_loaded_code_object_t { handle: object };
        Ok(LoadedAt {
            base: self.code_object_number(object, raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_BASE)?,
            size: self.code_object_number(object, raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_SIZE)?,
            delta: self.code_object_number(object, raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_LOAD_DELTA)?,
        })
    }

    /// Where a code object came from, as a URI: `file://...`, or `memory://...` for one that was in memory.
    ///
    /// # Errors
    /// When this loader cannot say.
    pub fn uri(&self, object: u64) -> Result<String> {
        let object = hsa_loaded_code_object_t { handle: object };
        // The length is 32 bits of the 64 that are cleared before.
        let length = self.code_object_number(object, raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI_LENGTH)?;
        let call = "hsa_ven_amd_loader_loaded_code_object_get_info";
        let get_info = self.0.hsa_ven_amd_loader_loaded_code_object_get_info.ok_or(HsaError::Missing { call })?;
        // With room for a byte 0, which some versions write.
        let mut text = vec![0u8; length as u32 as usize + 1];
        let (attribute, to) = (raw::HSA_VEN_AMD_LOADER_LOADED_CODE_OBJECT_INFO_URI, text.as_mut_ptr().cast());
        // SAFETY: the runtime writes as many bytes as it said, and a 0 at most.
        check(unsafe { get_info(object, attribute, to) }, call)?;
        text.truncate(length as u32 as usize);
        Ok(String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned())
    }

    fn code_object_number(
        &self,
        object: hsa_loaded_code_object_t,
        attribute: hsa_ven_amd_loader_loaded_code_object_info_e,
    ) -> Result<u64> {
        let call = "hsa_ven_amd_loader_loaded_code_object_get_info";
        let get_info = self.0.hsa_ven_amd_loader_loaded_code_object_get_info.ok_or(HsaError::Missing { call })?;
        let mut value = 0u64;
        // SAFETY: every attribute that is asked for above is a number or a handle of 64 bits.
        check(unsafe { get_info(object, attribute, ptr::from_mut(&mut value).cast()) }, call)?;
        Ok(value)
    }

    /// The executables that are loaded now.
    ///
    /// # Errors
    /// When this loader cannot say.
    pub fn executables(&self, api: &Api) -> Result<Vec<Executable>> {
        unsafe extern "C" fn collect(executable: hsa_executable_t, data: *mut c_void) -> hsa_status_t {
            // SAFETY: `data` is the list that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<Executable>>()).push(Executable(executable.handle)) };
            raw::HSA_STATUS_SUCCESS
        }
        let call = "hsa_ven_amd_loader_iterate_executables";
        let mut list = Vec::<Executable>::new();
        let to = ptr::from_mut(&mut list).cast();
        // `hsa_ven_amd_loader_iterate_executables` came after 1.01: it is looked for through the table of 1.03.
        let mut newer = raw::hsa_ven_amd_loader_1_03_pfn_t::default();
        let extension = raw::HSA_EXTENSION_AMD_LOADER.0 as u16;
        let (size, into) = (size_of_val(&newer), ptr::from_mut(&mut newer).cast());
        // SAFETY: the runtime writes at most `size` bytes of a struct whose layout the major version fixes.
        unsafe { call!(api.core.hsa_system_get_major_extension_table_fn(extension, 1, size, into)) }?;
        let iterate = newer.hsa_ven_amd_loader_iterate_executables.ok_or(HsaError::Missing { call })?;
        // SAFETY: the callback takes the list and does not keep it.
        check(unsafe { iterate(Some(collect), to) }, call)?;
        Ok(list)
    }
}
