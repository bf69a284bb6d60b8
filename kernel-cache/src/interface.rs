//! The properties of a kernel that a swap depends on.

use std::sync::Arc;

use amdgpu_code_object::{Abi, AddressSpace, CodeObject, Global, GlobalKind, Kernel, KernelKind, Target, ValueKind};

/// The properties of a kernel that a swap depends on, without its code object. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, mangled where the language does that, without `.kd`.
    pub name: String,
    /// Version of its code object's ABI.
    pub abi: Abi,
    /// What it was compiled for.
    pub target: Target,
    /// What it is for.
    pub kind: KernelKind,
    /// Explicit and hidden ones, in the order of the metadata.
    pub arguments: Vec<Parameter>,
    /// Of the kernarg segment: what the metadata and the descriptor say, and not less than the arguments need.
    pub kernarg_size: u32,
    /// Alignment of the kernarg segment.
    pub kernarg_align: u32,
    /// LDS of a workgroup that is known at compile time.
    pub group_size: u32,
    /// Scratch of a work-item that is known at compile time.
    pub private_size: u32,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// The most work-items that a workgroup may have.
    pub max_flat_workgroup_size: u32,
    /// The only shape of workgroups that is right.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// True when every workgroup has to be complete.
    pub uniform_workgroup_size: bool,
    /// True when scratch is needed whose size is not known at compile time.
    pub uses_dynamic_stack: bool,
    /// How many dwords of the kernarg segment are preloaded into registers, and from which dword on.
    pub preload: (u32, u32),
    /// The shape of clusters of workgroups, where it is required.
    pub cluster_dims: Option<[u32; 3]>,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Vector registers of a work-item.
    pub vgprs: u32,
    /// Accumulation registers of a work-item.
    pub agprs: u32,
    /// How floating-point numbers are rounded and whether denormals are kept: FLOAT_MODE, DX10_CLAMP and IEEE_MODE as
    /// the MODE register has them at the kernel's start. `None` without a descriptor.
    pub float_mode: Option<u32>,
    /// Variables of the code object that kernels or the host can write: each copy of it has its own. Symbols that it uses and
    /// does not define are among them.
    pub variables: Arc<[String]>,
    /// Functions of the code object whose address is stored in memory, where code of another one could call them.
    pub stored_functions: Arc<[String]>,
    /// Kernels of the code object that a host runtime runs when it loads or unloads it.
    pub initialisers: Arc<[String]>,
}

/// What the interfaces of a code object's kernels have in common: it is found once for all of them.
#[derive(Clone, Debug)]
pub struct Common {
    pub(crate) variables: Arc<[String]>,
    pub(crate) stored_functions: Arc<[String]>,
    pub(crate) initialisers: Arc<[String]>,
}

/// An argument, as far as who fills it in has to know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Parameter {
    /// From the beginning of the kernarg segment.
    pub offset: u32,
    /// In the kernarg segment.
    pub size: u32,
    /// What it is.
    pub kind: ValueKind,
    /// The memory that a pointer points to, where the metadata says it.
    pub address_space: Option<AddressSpace>,
    /// For a pointer to dynamic LDS: the alignment of the data that it points to, if the metadata has it.
    pub pointee_align: Option<u32>,
}

impl Parameter {
    /// Where it ends in the kernarg segment.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.size)
    }
}

impl Common {
    /// Of a code object.
    pub fn of(object: &CodeObject) -> Common {
        Common {
            variables: variables(object).into(),
            stored_functions: stored_functions(object).into(),
            initialisers: initialisers(object).into(),
        }
    }

    /// Of a kernel of the code object.
    pub fn interface(&self, object: &CodeObject, kernel: &Kernel) -> Interface {
        let arguments: Vec<Parameter> = kernel
            .arguments
            .iter()
            .map(|a| Parameter {
                offset: a.offset,
                size: a.size,
                kind: a.kind.clone(),
                address_space: a.address_space.clone(),
                pointee_align: a.pointee_align,
            })
            .collect();
        let descriptor = kernel.descriptor.as_ref();
        let fixed = descriptor.map(|d| d.fields);

        Interface {
            name: kernel.name.clone(),
            abi: object.abi,
            target: object.target.clone(),
            kind: kernel.kind.clone(),
            kernarg_size: kernel.kernarg_bytes(),
            kernarg_align: kernel.kernarg_align,
            group_size: kernel.group_size.max(fixed.map_or(0, |d| d.group_segment_fixed_size)),
            private_size: kernel.private_size.max(fixed.map_or(0, |d| d.private_segment_fixed_size)),
            wavefront_size: kernel.wavefront_size,
            max_flat_workgroup_size: kernel.max_flat_workgroup_size,
            required_workgroup_size: kernel.required_workgroup_size,
            uniform_workgroup_size: kernel.uniform_workgroup_size,
            uses_dynamic_stack: kernel.uses_dynamic_stack || descriptor.is_some_and(|d| d.uses_dynamic_stack()),
            preload: descriptor.map_or((0, 0), |d| d.kernarg_preload()),
            cluster_dims: kernel.cluster_dims,
            sgprs: kernel.sgprs,
            vgprs: kernel.vgprs,
            agprs: kernel.agprs.unwrap_or(0),
            float_mode: fixed.map(|d| d.initial_mode()),
            variables: self.variables.clone(),
            stored_functions: self.stored_functions.clone(),
            initialisers: self.initialisers.clone(),
            arguments,
        }
    }
}

impl Interface {
    /// Of a kernel that demands nothing: it has no arguments, no LDS and no scratch, and any workgroup of up to 1024 work-items is right.
    /// Add what a kernel needs to it.
    pub fn plain(name: &str, target: Target) -> Interface {
        let nothing = || Arc::<[String]>::default();
        Interface {
            name: name.to_owned(),
            abi: Abi::V5,
            target,
            kind: KernelKind::Normal,
            arguments: Vec::new(),
            kernarg_size: 0,
            kernarg_align: 8,
            group_size: 0,
            private_size: 0,
            wavefront_size: 64,
            max_flat_workgroup_size: 1024,
            required_workgroup_size: None,
            uniform_workgroup_size: false,
            uses_dynamic_stack: false,
            preload: (0, 0),
            cluster_dims: None,
            sgprs: 16,
            vgprs: 8,
            agprs: 0,
            float_mode: None,
            variables: nothing(),
            stored_functions: nothing(),
            initialisers: nothing(),
        }
    }

    /// Of a kernel in its code object. For many kernels of one, see [`Common`].
    pub fn of(object: &CodeObject, kernel: &Kernel) -> Interface {
        Common::of(object).interface(object, kernel)
    }

    /// The same with the target of its agent, where that is known: it says what the settings are that code is right for both ways.
    #[must_use]
    pub fn on(&self, agent: Option<&Target>) -> Interface {
        Interface { target: agent.unwrap_or(&self.target).clone(), ..self.clone() }
    }

    /// The same without its last explicit argument, and where that is; `None` if it is no pointer to global memory.
    pub(crate) fn without_last_pointer(&self) -> Option<(Interface, u32)> {
        let explicit = self.arguments.iter().enumerate().filter(|(_, argument)| !argument.kind.is_hidden());
        let (n, last) = explicit.max_by_key(|(_, argument)| argument.offset)?;
        // Without type information, as after a pass on LLVM's code, a pointer may be told as eight bytes.
        let is_pointer = last.size == 8 && matches!(last.kind, ValueKind::GlobalBuffer | ValueKind::ByValue);
        let offset = last.offset;
        let mut without = self.clone();
        without.arguments.remove(n);
        is_pointer.then_some((without, offset))
    }

    /// The arguments that the application fills in.
    pub fn explicit(&self) -> impl Iterator<Item = &Parameter> {
        self.arguments.iter().filter(|a| !a.kind.is_hidden())
    }

    /// The arguments that the runtime fills in; padding is not among them.
    pub fn hidden(&self) -> impl Iterator<Item = &Parameter> {
        self.arguments.iter().filter(|a| a.kind.is_hidden() && a.kind != ValueKind::HiddenNone)
    }
}

fn variables(object: &CodeObject) -> Vec<String> {
    // A variable without a name for others has a state as well, which kernels of the other code object would not see.
    let matters = |kind| matches!(kind, GlobalKind::Variable | GlobalKind::External);
    // Of what is defined elsewhere, only that matters which is used.
    let is_used = |g: &&Global| g.kind != GlobalKind::External || g.relocated;
    object.globals.iter().filter(|g| matters(g.kind)).filter(is_used).map(|g| g.name.clone()).collect()
}

fn stored_functions(object: &CodeObject) -> Vec<String> {
    // Through the global offset table functions are called as well.
    let stored = object.address_taken.iter().filter(|a| !a.in_got);
    stored.map(|a| a.function.clone().unwrap_or_else(|| format!("a function at {:#x}", a.at))).collect()
}

/// The kernels that are no application's: a host runtime runs them when it loads or unloads the code object.
pub(crate) fn initialisers(object: &CodeObject) -> Vec<String> {
    object.kernels.iter().filter(|kernel| kernel.kind != KernelKind::Normal).map(|kernel| kernel.name.clone()).collect()
}
