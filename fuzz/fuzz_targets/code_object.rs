//! Bytes that may be a code object: they are read, or refused with a reason, and what another reader takes too says the
//! same of its header. A corpus of real ones helps: `code-object/tests` makes some.

#![no_main]

use amdgpu_code_object::{CodeObject, Image, Target};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let parsed = CodeObject::parse(data);
    let tree = CodeObject::metadata(data);
    let Ok(object) = parsed else { return };
    // The same notes were read.
    let tree = tree.expect("what is a code object has metadata or none");
    assert!(tree.is_some() || object.kernels.is_empty());
    for kernel in &object.kernels {
        assert_eq!(kernel.explicit().count() + kernel.hidden().count(), kernel.arguments.len());
    }
    // Functions have code, and sections are there or refused.
    let image = Image::parse(data).expect("what is a code object has headers");
    for function in image.functions(&object).unwrap_or_default() {
        assert!(image.code(function.address).is_some(), "{function:?}");
    }
    let _ = image.section(".debug_line");
    // A target is its text.
    let text = object.target.to_string();
    if let Ok(again) = Target::parse(&text) {
        assert_eq!(again.to_string(), text);
    }
});
