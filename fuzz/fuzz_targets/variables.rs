//! Bytes that may be a code object with variables: each of its kernels is bound to the variables of the same code object, or
//! refused, and what is bound is still a code object. A corpus of real ones helps: `kernel-cache/tests` makes some.

#![no_main]

use amdgpu_code_object::CodeObject;
use libfuzzer_sys::fuzz_target;
use logdur_kernel_cache::{Interface, Module, Modules, fit_code};

fuzz_target!(|data: &[u8]| {
    let Ok(object) = CodeObject::parse(data) else { return };
    let Ok(module) = Module::of(data) else { return };
    let modules = Modules { own: Some(&module), others: &[] };
    for kernel in object.kernels.iter().take(8) {
        let interface = Interface::of(&object, kernel);
        let Ok(swap) = fit_code(&interface, &interface, data, modules) else { continue };
        let Ok(bound) = swap.binding.apply(data, |_| Some(0x7f00_0000_0000)) else { continue };
        assert_eq!(bound.len(), data.len());
        assert!(CodeObject::parse(&bound).is_ok(), "{:?}", swap.binding);
    }
});
