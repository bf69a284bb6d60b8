//! A kernel and its arguments.

use crate::descriptor::Descriptor;
use crate::value::Value;
use crate::value_kind::ValueKind;
use crate::words::words;

/// A kernel, as the metadata and its descriptor tell of it. Sizes are bytes.
///
/// Source: AMDGPUUsage, "AMDHSA Code Object V3 Kernel Metadata Map" and its successors.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    /// Its name, mangled where the language does that.
    pub name: String,
    /// The symbol of its descriptor: `name.kd`, in version 2 `name@kd`.
    pub symbol: String,
    /// In the order of the list, hidden ones too.
    pub arguments: Vec<Argument>,
    /// Of the kernarg segment.
    pub kernarg_size: u32,
    /// Alignment of the kernarg segment.
    pub kernarg_align: u32,
    /// LDS of a workgroup that is known at compile time.
    pub group_size: u32,
    /// Scratch of a work-item that is known at compile time.
    pub private_size: u32,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// Scalar registers of a wave.
    pub sgprs: u32,
    /// Vector registers of a work-item.
    pub vgprs: u32,
    /// Accumulation registers of a work-item, where the processor has any.
    pub agprs: Option<u32>,
    /// Scalar registers that were spilled.
    pub sgpr_spills: Option<u32>,
    /// Vector registers that were spilled.
    pub vgpr_spills: Option<u32>,
    /// The most work-items that a workgroup may have.
    pub max_flat_workgroup_size: u32,
    /// The only shape of workgroups that is right.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// The shape of workgroups that it was made for.
    pub workgroup_size_hint: Option<[u32; 3]>,
    /// OpenCL's `vec_type_hint`.
    pub vec_type_hint: Option<String>,
    /// True when every workgroup has to be complete.
    pub uniform_workgroup_size: bool,
    /// True when scratch is needed whose size is not known at compile time.
    pub uses_dynamic_stack: bool,
    /// True when workgroups run in workgroup-processor mode (gfx10 and later).
    pub workgroup_processor_mode: Option<bool>,
    /// The shape of clusters of workgroups, where it is required.
    pub cluster_dims: Option<[u32; 3]>,
    /// What it is for.
    pub kind: KernelKind,
    /// The language it was written in.
    pub language: Option<String>,
    /// Its version.
    pub language_version: Vec<u32>,
    /// The symbol of the handle by which the device enqueues it.
    pub device_enqueue_symbol: Option<String>,
    /// What the packet processor reads. `None` when its symbol is not there.
    pub descriptor: Option<Descriptor>,
    /// Keys that are not known, with their values; those of version 2's inner maps as `CodeProps.Key`.
    pub unknown: Vec<(String, Value<'static>)>,
}

impl Kernel {
    /// What a descriptor says.
    pub(crate) fn of_descriptor(name: &str, symbol: String, descriptor: Descriptor) -> Kernel {
        let fields = descriptor.fields;
        Kernel {
            name: name.to_owned(),
            symbol,
            arguments: Vec::new(),
            kernarg_size: fields.kernarg_size,
            // AMDGPUUsage, "Kernel Dispatch": as AQL demands of every segment.
            kernarg_align: 16,
            group_size: fields.group_segment_fixed_size,
            private_size: fields.private_segment_fixed_size,
            wavefront_size: if descriptor.is_wave32() { 32 } else { 64 },
            sgprs: 0,
            vgprs: 0,
            agprs: None,
            sgpr_spills: None,
            vgpr_spills: None,
            // The most that any processor runs.
            max_flat_workgroup_size: 1024,
            required_workgroup_size: None,
            workgroup_size_hint: None,
            vec_type_hint: None,
            uniform_workgroup_size: false,
            uses_dynamic_stack: descriptor.uses_dynamic_stack(),
            workgroup_processor_mode: None,
            cluster_dims: None,
            kind: KernelKind::Normal,
            language: None,
            language_version: Vec::new(),
            device_enqueue_symbol: None,
            descriptor: Some(descriptor),
            unknown: Vec::new(),
        }
    }

    /// The arguments that the application fills in.
    pub fn explicit(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|a| !a.kind.is_hidden())
    }

    /// Bytes of the kernarg segment: what metadata, descriptor and arguments say, the most of it. Tensile's descriptors say
    /// 0, as those of assembler sources do where no size is written.
    pub fn kernarg_bytes(&self) -> u32 {
        let descriptor = self.descriptor.as_ref().map_or(0, |descriptor| descriptor.fields.kernarg_size);
        let end = self.arguments.iter().map(|a| a.offset.saturating_add(a.size)).max().unwrap_or(0);
        self.kernarg_size.max(descriptor).max(end)
    }

    /// As [`Kernel::kernarg_bytes`], `None` where nothing tells it. GCC's metadata lists no arguments and has no more than
    /// 8 bytes of them, its descriptors none, and its kernels read further.
    pub fn told_kernarg_bytes(&self) -> Option<u32> {
        let is_untold =
            |of: &Descriptor| of.fields.kernarg_size == 0 && of.takes_kernarg() && self.arguments.is_empty();
        let is_told = !self.descriptor.as_ref().is_some_and(is_untold);
        is_told.then(|| self.kernarg_bytes())
    }

    /// The arguments that the runtime fills in.
    pub fn hidden(&self) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(|a| a.kind.is_hidden())
    }
}

/// An argument.
///
/// Source: AMDGPUUsage, "AMDHSA Code Object V3 Kernel Argument Metadata Map".
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name in the source, where the compiler was asked to keep it.
    pub name: Option<String>,
    /// Its type in the source.
    pub type_name: Option<String>,
    /// From the beginning of the kernarg segment.
    pub offset: u32,
    /// In the kernarg segment.
    pub size: u32,
    /// What it is.
    pub kind: ValueKind,
    /// Version 2 only: its alignment, from which the offset was computed.
    pub align: Option<u32>,
    /// Deprecated: the type of a value, like `i32`.
    pub value_type: Option<String>,
    /// Alignment of what a pointer to LDS points to.
    pub pointee_align: Option<u32>,
    /// The memory that a pointer points to.
    pub address_space: Option<AddressSpace>,
    /// What the source says that images and pipes are used for.
    pub access: Option<Access>,
    /// What the kernel really does with what a pointer points to.
    pub actual_access: Option<Access>,
    /// Declared `const`.
    pub is_const: bool,
    /// Declared `restrict`.
    pub is_restrict: bool,
    /// Declared `volatile`.
    pub is_volatile: bool,
    /// Declared `pipe`.
    pub is_pipe: bool,
    /// Keys that are not known, with their values.
    pub unknown: Vec<(String, Value<'static>)>,
}

words! {
    /// What a kernel is for: `.kind`.
    KernelKind;
    /// Dispatched by the application.
    Normal = "normal" "Normal";
    /// Run when the code object is loaded.
    Init = "init" "Init";
    /// Run when it is unloaded.
    Fini = "fini" "Fini";
}

words! {
    /// The memory that a pointer points to.
    AddressSpace;
    /// Scratch.
    Private = "private" "Private";
    /// Global.
    Global = "global" "Global";
    /// Global that is never written.
    Constant = "constant" "Constant";
    /// LDS.
    Local = "local" "Local";
    /// Any of them.
    Generic = "generic" "Generic";
    /// Global data share.
    Region = "region" "Region";
}

words! {
    /// What is done with memory.
    Access;
    /// It is only read.
    ReadOnly = "read_only" "ReadOnly";
    /// It is only written.
    WriteOnly = "write_only" "WriteOnly";
    /// Both.
    ReadWrite = "read_write" "ReadWrite";
    /// Version 2 only: nothing is said.
    Default = "default" "Default";
}
