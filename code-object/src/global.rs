//! What a code object has besides kernels: variables, and functions whose address is known outside of the code.

/// A variable of the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Global {
    /// Its symbol.
    pub name: String,
    /// Its address before the code object is loaded; 0 for one that is defined elsewhere.
    pub address: u64,
    /// In bytes.
    pub size: u64,
    /// What it is.
    pub kind: GlobalKind,
    /// True when the runtime can find it by its name.
    pub exported: bool,
}

/// What a symbol of an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobalKind {
    /// A variable that kernels may write.
    Variable,
    /// A variable in memory that kernels only read. The host may write `__constant__` ones.
    Constant,
    /// Has to be defined by whoever loads the code object.
    External,
    /// A kernel's descriptor.
    Descriptor,
    /// Clang's mark of a compilation unit, `__hip_cuid_…`: nobody reads it.
    CompilationUnitId,
}

/// A function whose address is stored in memory when the code object is loaded.
///
/// Addresses that code computes relative to itself leave no relocation and are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressTaken {
    /// Its symbol, if it has one.
    pub function: Option<String>,
    /// Where the address is stored, before the code object is loaded.
    pub at: u64,
    /// True in the global offset table, through which functions are called as well.
    pub in_got: bool,
}
