//! Metadata and headers, against `llvm-readelf`: as they are written, and as fields.

use std::fs;
use std::path::Path;

use amdgpu_code_object::{Abi, Argument, CodeObject, GlobalKind, Kernel, Setting, Value};

use crate::compiled;
use crate::readelf;

fn parse(path: &Path) -> CodeObject {
    let bytes = fs::read(path).expect("it was compiled");
    CodeObject::parse(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Maps with their keys in the order of the alphabet: LLVM prints them so.
fn sorted<'a>(value: &Value<'a>) -> Value<'a> {
    match value {
        Value::List(list) => Value::List(list.iter().map(sorted).collect()),
        Value::Map(pairs) => {
            let mut pairs: Vec<_> = pairs.iter().map(|(k, v)| (k.clone(), sorted(v))).collect();
            pairs.sort_by_key(|(key, _)| key.as_text().map(str::to_owned));
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

/// The documents of several notes as one: the kernels of all, the rest of whichever has it.
fn together(documents: Vec<Value<'static>>) -> Value<'static> {
    let mut documents = documents.into_iter();
    let Some(Value::Map(mut all)) = documents.next() else { panic!("a note of metadata") };
    for document in documents {
        let Value::Map(pairs) = document else { panic!("a map") };
        for (key, value) in pairs {
            match all.iter_mut().find(|(k, _)| *k == key) {
                Some((_, Value::List(first))) if key.as_text() == Some("amdhsa.kernels") => {
                    first.extend(value.as_list().expect("kernels are a list").to_vec());
                }
                Some((_, first)) => assert_eq!(*first, value, "{key:?} of two notes"),
                None => all.push((key, value)),
            }
        }
    }
    Value::Map(all)
}

/// Compares the metadata of an object as it is written, and each kernel's fields, with what LLVM prints.
pub(crate) fn assert_as_printed(path: &Path) {
    let bytes = fs::read(path).expect("it is there");
    let printed = together(readelf::documents(path));
    let ours = CodeObject::metadata(&bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let ours = ours.unwrap_or_else(|| panic!("{} has metadata", path.display()));
    assert_eq!(sorted(&ours), sorted(&printed), "{}", path.display());
    let object = parse(path);
    assert_eq!(object.problems, [], "{}", path.display());
    let old = object.abi == Abi::V2;
    let printed = printed.get(if old { "Kernels" } else { "amdhsa.kernels" }).and_then(Value::as_list);
    let printed = printed.expect("kernels are a list");
    assert_eq!(object.kernels.len(), printed.len(), "{}", path.display());
    for (ours, theirs) in object.kernels.iter().zip(printed) {
        let (ours, theirs) = (sorted(&kernel(ours, old)), sorted(&plain(theirs, old)));
        assert_eq!(ours, theirs, "{}", path.display());
    }
}

#[test]
fn no_key_of_the_metadata_is_lost_as_it_is_written_and_as_fields() {
    for path in compiled::all() {
        assert_as_printed(&path);
    }
}

/// Pairs of a key and a value, written as LLVM would.
#[derive(Default)]
struct Tree(Vec<(Value<'static>, Value<'static>)>);

impl Tree {
    fn add(&mut self, key: &str, value: Option<Value<'static>>) {
        if let Some(value) = value.filter(|_| !key.is_empty()) {
            self.0.push((Value::Text(key.to_owned().into()), value));
        }
    }
}

fn text(text: &str) -> Option<Value<'static>> {
    Some(Value::Text(text.to_owned().into()))
}

fn number(number: u32) -> Option<Value<'static>> {
    Some(Value::Unsigned(number.into()))
}

fn numbers(numbers: &[u32]) -> Option<Value<'static>> {
    Some(Value::List(numbers.iter().map(|&n| Value::Unsigned(n.into())).collect()))
}

fn argument(a: &Argument, old: bool) -> Value<'static> {
    let key = |keys: [&'static str; 2]| keys[usize::from(old)];
    // The names of version 2 are those of later versions in another spelling.
    let word = |name: &str| {
        let name = if old { &name.replace("multigrid", "multi_grid") } else { name };
        let camel = |part: &str| part[..1].to_uppercase() + &part[1..];
        text(&if old { name.split('_').map(camel).collect::<String>() } else { name.to_owned() })
    };
    let flag = |flag: bool| flag.then_some(Value::Bool(true));
    let mut tree = Tree::default();
    tree.add(key([".name", "Name"]), a.name.as_deref().and_then(text));
    tree.add(key([".type_name", "TypeName"]), a.type_name.as_deref().and_then(text));
    tree.add(key([".offset", ""]), number(a.offset));
    tree.add(key(["", "Align"]), a.align.and_then(number));
    tree.add(key([".size", "Size"]), number(a.size));
    tree.add(key([".value_kind", "ValueKind"]), word(a.kind.name()));
    tree.add(key([".value_type", "ValueType"]), a.value_type.as_deref().and_then(text));
    tree.add(key([".pointee_align", "PointeeAlign"]), a.pointee_align.and_then(number));
    tree.add(key([".address_space", "AddrSpaceQual"]), a.address_space.as_ref().and_then(|s| word(s.name())));
    tree.add(key([".access", "AccQual"]), a.access.as_ref().and_then(|s| word(s.name())));
    tree.add(key([".actual_access", "ActualAccQual"]), a.actual_access.as_ref().and_then(|s| word(s.name())));
    tree.add(key([".is_const", "IsConst"]), flag(a.is_const));
    tree.add(key([".is_restrict", "IsRestrict"]), flag(a.is_restrict));
    tree.add(key([".is_volatile", "IsVolatile"]), flag(a.is_volatile));
    tree.add(key([".is_pipe", "IsPipe"]), flag(a.is_pipe));
    for (key, value) in &a.unknown {
        tree.add(key, Some(value.clone()));
    }
    Value::Map(tree.0)
}

/// A kernel's fields as metadata; in version 2 the inner maps are flat.
fn kernel(k: &Kernel, old: bool) -> Value<'static> {
    let key = |keys: [&'static str; 2]| keys[usize::from(old)];
    // What is zero is not written in version 2.
    let count = |n: u32| number(n).filter(|_| !old || n != 0);
    let flag = |flag: bool| flag.then_some(Value::Bool(true));
    let mut tree = Tree::default();
    tree.add(key([".name", "Name"]), text(&k.name));
    tree.add(key([".symbol", "SymbolName"]), text(&k.symbol));
    tree.add(key([".args", "Args"]), Some(Value::List(k.arguments.iter().map(|a| argument(a, old)).collect())));
    // These are written even when they are zero.
    for (keys, n) in [
        ([".kernarg_segment_size", "CodeProps.KernargSegmentSize"], k.kernarg_size),
        ([".kernarg_segment_align", "CodeProps.KernargSegmentAlign"], k.kernarg_align),
        ([".group_segment_fixed_size", "CodeProps.GroupSegmentFixedSize"], k.group_size),
        ([".private_segment_fixed_size", "CodeProps.PrivateSegmentFixedSize"], k.private_size),
        ([".wavefront_size", "CodeProps.WavefrontSize"], k.wavefront_size),
    ] {
        tree.add(key(keys), number(n));
    }
    tree.add(key([".sgpr_count", "CodeProps.NumSGPRs"]), count(k.sgprs));
    tree.add(key([".vgpr_count", "CodeProps.NumVGPRs"]), count(k.vgprs));
    tree.add(key([".agpr_count", ""]), k.agprs.and_then(number));
    tree.add(key([".sgpr_spill_count", "CodeProps.NumSpilledSGPRs"]), k.sgpr_spills.and_then(count));
    tree.add(key([".vgpr_spill_count", "CodeProps.NumSpilledVGPRs"]), k.vgpr_spills.and_then(count));
    tree.add(key([".max_flat_workgroup_size", "CodeProps.MaxFlatWorkGroupSize"]), count(k.max_flat_workgroup_size));
    tree.add(
        key([".reqd_workgroup_size", "Attrs.ReqdWorkGroupSize"]),
        k.required_workgroup_size.and_then(|s| numbers(&s)),
    );
    tree.add(key([".workgroup_size_hint", "Attrs.WorkGroupSizeHint"]), k.workgroup_size_hint.and_then(|s| numbers(&s)));
    tree.add(key([".vec_type_hint", "Attrs.VecTypeHint"]), k.vec_type_hint.as_deref().and_then(text));
    tree.add(key([".uniform_work_group_size", ""]), k.uniform_workgroup_size.then_some(Value::Unsigned(1)));
    tree.add(key([".uses_dynamic_stack", "CodeProps.IsDynamicCallStack"]), flag(k.uses_dynamic_stack));
    tree.add(key([".workgroup_processor_mode", ""]), k.workgroup_processor_mode.map(u32::from).and_then(number));
    tree.add(key([".cluster_dims", ""]), k.cluster_dims.and_then(|s| numbers(&s)));
    tree.add(key([".kind", ""]), text(k.kind.name()).filter(|_| k.kind.name() != "normal"));
    tree.add(key([".language", "Language"]), k.language.as_deref().and_then(text));
    tree.add(
        key([".language_version", "LanguageVersion"]),
        numbers(&k.language_version).filter(|_| !k.language_version.is_empty()),
    );
    tree.add(key([".device_enqueue_symbol", "Attrs.RuntimeHandle"]), k.device_enqueue_symbol.as_deref().and_then(text));
    for (key, value) in &k.unknown {
        tree.add(key, Some(value.clone()));
    }
    Value::Map(tree.0)
}

/// A kernel as LLVM prints it, without what only says that something is not there, and flat in version 2.
fn plain(value: &Value<'static>, old: bool) -> Value<'static> {
    let Value::Map(pairs) = value else { panic!("a kernel is a map") };
    let mut tree = Tree::default();
    for (key, value) in pairs {
        let key = key.as_text().expect("keys are text");
        match value {
            Value::Map(inner) if old => {
                for (name, value) in inner {
                    tree.add(&format!("{key}.{}", name.as_text().expect("keys are text")), Some(value.clone()));
                }
            }
            Value::Bool(false) => {}
            _ => tree.add(key, Some(value.clone())),
        }
    }
    if value.get(".args").or(value.get("Args")).is_none() {
        tree.add(if old { "Args" } else { ".args" }, Some(Value::List(Vec::new())));
    }
    Value::Map(tree.0)
}

/// What `llvm-objdump` says of a descriptor: its directives, and how this crate reads them.
fn directives(kernel: &Kernel) -> Vec<(&'static str, u32)> {
    let d = kernel.descriptor.expect("every kernel has a descriptor");
    let bit = |bit: u32| u32::from(d.fields.properties) >> bit & 1;
    let (preload_length, preload_offset) = d.kernarg_preload();
    vec![
        ("group_segment_fixed_size", d.fields.group_segment_fixed_size),
        ("private_segment_fixed_size", d.fields.private_segment_fixed_size),
        ("kernarg_size", d.fields.kernarg_size),
        ("accum_offset", d.fields.accum_offset()),
        ("user_sgpr_private_segment_buffer", bit(0)),
        ("user_sgpr_dispatch_ptr", bit(1)),
        ("user_sgpr_queue_ptr", bit(2)),
        ("user_sgpr_kernarg_segment_ptr", bit(3)),
        ("user_sgpr_dispatch_id", bit(4)),
        ("user_sgpr_flat_scratch_init", bit(5)),
        ("user_sgpr_private_segment_size", bit(6)),
        ("user_sgpr_kernarg_preload_length", preload_length),
        ("user_sgpr_kernarg_preload_offset", preload_offset),
        ("wavefront_size32", u32::from(d.is_wave32())),
        ("uses_dynamic_stack", u32::from(d.uses_dynamic_stack())),
        ("system_sgpr_private_segment_wavefront_offset", u32::from(d.fields.enable_private_segment())),
        ("system_vgpr_workitem_id", d.fields.enable_vgpr_workitem_id()),
    ]
}

#[test]
fn descriptors_have_the_fields_that_llvm_decodes_and_the_metadata_repeats() {
    let mut decoded = 0;
    for path in compiled::all() {
        let object = parse(&path);
        let symbols: Vec<&str> = object.kernels.iter().map(|k| &*k.symbol).collect();
        let mut command = std::process::Command::new("llvm-objdump-19");
        command.arg("-D").arg(format!("--disassemble-symbols={}", symbols.join(","))).arg(&path);
        let printed = compiled::run(&mut command);
        for kernel in &object.kernels {
            let fields = kernel.descriptor.expect("every kernel has a descriptor").fields;
            assert_eq!(fields.kernarg_size, kernel.kernarg_size, "{} of {}", kernel.name, path.display());
            assert_eq!(fields.group_segment_fixed_size, kernel.group_size, "{} of {}", kernel.name, path.display());
            assert_eq!(fields.private_segment_fixed_size, kernel.private_size, "{}", path.display());
            let wave32 = kernel.descriptor.is_some_and(|d| d.is_wave32());
            assert_eq!(wave32, kernel.wavefront_size == 32, "{} of {}", kernel.name, path.display());
            if object.abi == Abi::V2 {
                continue;
            }
            let start = format!(".amdhsa_kernel {}\n", kernel.name);
            let Some((_, text)) = printed.split_once(&start) else {
                // LLVM 19 knows none of before the ninth generation, and calls those damaged that its own compiler
                // makes for the tenth and later ones.
                assert!(
                    object.target.processor == "gfx803" || printed.contains("error decoding"),
                    "{}",
                    path.display()
                );
                continue;
            };
            let text = text.split(".end_amdhsa_kernel").next().unwrap_or_default();
            for (name, ours) in directives(kernel) {
                let theirs = text.lines().find_map(|line| {
                    line.trim().strip_prefix(".amdhsa_")?.strip_prefix(name)?.strip_prefix(' ')?.parse().ok()
                });
                if let Some(theirs) = theirs {
                    decoded += 1;
                    assert_eq!(ours, theirs, "{name} of {} of {}", kernel.name, path.display());
                }
            }
        }
    }
    assert!(decoded > 1000, "{decoded} directives were compared");
}

#[test]
fn version_processor_and_settings_are_what_llvm_says_of_the_header() {
    for path in compiled::all() {
        let object = parse(&path);
        let abi = match readelf::header(&path, "ABI Version").as_str() {
            "0" => Abi::V2,
            "1" => Abi::V3,
            "2" => Abi::V4,
            "3" => Abi::V5,
            "4" => Abi::V6,
            other => panic!("{}: ABI version {other}", path.display()),
        };
        assert_eq!(object.abi, abi, "{}", path.display());
        let flags = readelf::header(&path, "Flags");
        let target = &object.target;
        let mut said = vec![target.processor.clone()];
        for (name, setting) in [("xnack", target.xnack), ("sramecc", target.sramecc)] {
            // In the older versions the bit is there or not; "any" has no sign.
            let sign = match (setting, abi) {
                (Setting::Unsupported, _) | (Setting::Off, Abi::V2 | Abi::V3) => continue,
                (Setting::Any, _) | (Setting::On, Abi::V2 | Abi::V3) => "",
                (Setting::Off, _) => "-",
                (Setting::On, _) => "+",
            };
            said.push(format!("{name}{sign}"));
        }
        if target.generic_version != 0 {
            said.push(format!("generic_v{}", target.generic_version));
        }
        let theirs: Vec<&str> = flags.split(", ").skip(1).collect();
        assert_eq!(said, theirs, "{}", path.display());
        assert_eq!(target.is_generic(), target.generic_version != 0, "{}", path.display());
    }
}

#[test]
fn globals_and_stored_functions_of_a_hip_program_are_those_of_its_source() {
    let source = compiled::source("globals.hip");
    for arch in compiled::HIP_ARCHS {
        let arch = format!("--offload-arch={arch}");
        let options = [&*arch, "--cuda-device-only", "--no-gpu-bundle-output", "-c", "-O3"];
        let object = parse(&compiled::hip(&format!("globals{arch}-O3.co"), &source, &options));
        let find = |name: &str| {
            let found = object.globals.iter().find(|g| g.name == name).unwrap_or_else(|| panic!("a global {name}"));
            (found.kind, found.size, found.exported)
        };
        assert_eq!(find("counter"), (GlobalKind::Variable, 4, true));
        assert_eq!(find("zeroed"), (GlobalKind::Variable, 400, true));
        assert_eq!(find("factors"), (GlobalKind::Variable, 64, true));
        assert_eq!(find("_ZL14hidden_counter"), (GlobalKind::Variable, 4, false));
        assert_eq!(find("_ZTV6Square"), (GlobalKind::Constant, 24, false));
        assert_eq!(find("_Z9use_shapePK5ShapePf.kd"), (GlobalKind::Descriptor, 64, true));
        let mut taken: Vec<_> =
            object.address_taken.iter().filter(|t| !t.in_got).map(|t| t.function.as_deref()).collect();
        taken.sort();
        let functions = ["_Z5twicef", "_Z7half_off", "_ZNK5Shape4areaEf", "_ZNK6Square4areaEf"];
        assert_eq!(taken, functions.map(Some), "{arch}");
        let kernels = object.kernels.iter().map(|k| (&*k.name, k.uses_dynamic_stack));
        let dynamic: Vec<&str> = kernels.filter(|(_, dynamic)| *dynamic).map(|(name, _)| name).collect();
        assert!(!dynamic.contains(&"_Z11use_globalsPfi"), "{dynamic:?}");
        assert!(object.kernel("_Z5printi").is_some_and(|k| k.max_flat_workgroup_size == 64), "launch bounds are kept");
    }
}
