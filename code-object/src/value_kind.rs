//! The kinds of arguments: one table of names.

use crate::words::words;

words! {
    /// What an argument is and who fills it in. Source: AMDGPUUsage, "AMDHSA Code Object Kernel Argument Metadata Map",
    /// `.value_kind`.
    ValueKind;
    /// The argument's own bytes.
    ByValue = "by_value" "ByValue";
    /// An address of global or constant memory.
    GlobalBuffer = "global_buffer" "GlobalBuffer";
    /// An offset in LDS that is allocated when the kernel is dispatched.
    DynamicSharedPointer = "dynamic_shared_pointer" "DynamicSharedPointer";
    /// Address of a sampler.
    Sampler = "sampler" "Sampler";
    /// Address of an image.
    Image = "image" "Image";
    /// Address of an OpenCL pipe.
    Pipe = "pipe" "Pipe";
    /// Address of an OpenCL device queue.
    Queue = "queue" "Queue";
    /// Workgroups in x, incomplete ones not counted.
    HiddenBlockCountX = "hidden_block_count_x";
    /// Workgroups in y.
    HiddenBlockCountY = "hidden_block_count_y";
    /// Workgroups in z.
    HiddenBlockCountZ = "hidden_block_count_z";
    /// Work-items of a complete workgroup in x.
    HiddenGroupSizeX = "hidden_group_size_x";
    /// In y.
    HiddenGroupSizeY = "hidden_group_size_y";
    /// In z.
    HiddenGroupSizeZ = "hidden_group_size_z";
    /// Work-items of the incomplete workgroup in x, or zero.
    HiddenRemainderX = "hidden_remainder_x";
    /// In y.
    HiddenRemainderY = "hidden_remainder_y";
    /// In z.
    HiddenRemainderZ = "hidden_remainder_z";
    /// OpenCL's global offset in x.
    HiddenGlobalOffsetX = "hidden_global_offset_x" "HiddenGlobalOffsetX";
    /// In y.
    HiddenGlobalOffsetY = "hidden_global_offset_y" "HiddenGlobalOffsetY";
    /// In z.
    HiddenGlobalOffsetZ = "hidden_global_offset_z" "HiddenGlobalOffsetZ";
    /// Dimensions of the grid.
    HiddenGridDims = "hidden_grid_dims";
    /// Nothing: only room.
    HiddenNone = "hidden_none" "HiddenNone";
    /// Address of the buffer for printf.
    HiddenPrintfBuffer = "hidden_printf_buffer" "HiddenPrintfBuffer";
    /// Address of the buffer for calls of the host.
    HiddenHostcallBuffer = "hidden_hostcall_buffer" "HiddenHostcallBuffer";
    /// Address of the heap of the device's malloc, version 1.
    HiddenHeapV1 = "hidden_heap_v1";
    /// Address of the default queue for enqueueing from the device.
    HiddenDefaultQueue = "hidden_default_queue" "HiddenDefaultQueue";
    /// Address of the completion action for enqueueing from the device.
    HiddenCompletionAction = "hidden_completion_action" "HiddenCompletionAction";
    /// Address of what grids that span several devices synchronise with.
    HiddenMultigridSyncArg = "hidden_multigrid_sync_arg" "HiddenMultiGridSyncArg";
    /// Bytes of LDS that were added when the kernel was dispatched.
    HiddenDynamicLdsSize = "hidden_dynamic_lds_size";
    /// The high half of the private aperture's address, where it is not in a register.
    HiddenPrivateBase = "hidden_private_base";
    /// The high half of the shared aperture's address, where it is not in a register.
    HiddenSharedBase = "hidden_shared_base";
    /// Address of the queue, where it is not in a register.
    HiddenQueuePtr = "hidden_queue_ptr";
}

impl ValueKind {
    /// True when the runtime fills it in, not the application: the names of all such kinds begin alike.
    pub fn is_hidden(&self) -> bool {
        ["hidden_", "Hidden"].iter().any(|prefix| self.name().starts_with(prefix))
    }
}
