//! Variables of the device: whose they are after a swap, by the addresses that compilers' code makes.

use std::collections::BTreeMap;

use amdgpu_code_object::Image;
use logdur_kernel_cache::{Module, Modules, Patched, Reason, Swap, fit_code};

use crate::compiled::Build;

const PLAIN: Build = Build { source: "variables.hip", clang: 0, target: "gfx90a", abi: 5, options: "-O3" };
/// What a linker that is told to leaves behind.
const RELOCATIONS: &str = "-Xoffload-linker --emit-relocs -Wno-unused-command-line-argument";

/// The kernels, and the variables that they use.
const KERNELS: &[(&str, &[&str])] = &[
    ("none", &[]),
    ("constant", &[]),
    ("before", &["coef"]),
    ("behind", &["coef", "samples"]),
    ("structures", &["pairs"]),
    ("passed", &["coef", "samples"]),
    ("counted", &["_ZL6hidden", "counter"]),
    ("used", &["managed"]),
];

fn decided(original: Build, candidate: Build, kernel: &str) -> Result<Swap, Vec<String>> {
    let module = Module::of(&original.bytes()).expect("a compiler's code object");
    let modules = Modules { own: Some(&module), others: &[] };
    let decided = fit_code(&original.kernel(kernel), &candidate.kernel(kernel), &candidate.bytes(), modules);
    decided.map_err(|refusals| refusals.iter().map(ToString::to_string).collect())
}

fn with_relocations(options: &str) -> Build {
    // Builds are compared by their options, which live as long as the test.
    PLAIN.options(Box::leak(format!("{options} {RELOCATIONS}").into_boxed_str()))
}

/// The addresses of the original's variables that a swap puts into code, by where.
fn bound(swap: &Swap) -> BTreeMap<u64, u64> {
    let additions = swap.binding.patches.iter().filter_map(|patch| match patch.what {
        Patched::Additions([(at, _), _]) => Some((at, patch.address)),
        Patched::Stored(..) => None,
    });
    additions.collect()
}

#[test]
fn a_file_compiled_with_other_options_uses_the_originals_variables() {
    for options in ["-O3", "-O1", "-Os", "-O3 -mcode-object-version=4"] {
        for (kernel, uses) in KERNELS {
            let swap = decided(PLAIN, PLAIN.options(options), kernel);
            let swap = swap.unwrap_or_else(|refusals| panic!("{kernel}, {options}: {refusals:?}"));
            assert!(swap.binding.own.is_empty(), "{kernel}, {options}: {:?}", swap.binding.own);
            assert_eq!(swap.binding.shared.is_empty(), uses.is_empty(), "{kernel}, {options}");
            let named = uses.iter().all(|name| swap.binding.shared.iter().any(|shared| shared == name));
            assert!(named, "{kernel}, {options}: {:?}", swap.binding.shared);
        }
    }
}

#[test]
fn addresses_move_as_the_linkers_relocations_say_also_where_they_are_inside_of_another_variable() {
    for options in ["-O3", "-O1", "-Os"] {
        // Both are the same code: what the layout says is compared with what relocations say.
        let layout = decided(PLAIN, PLAIN.options(options), "before").expect("it fits");
        let candidate = with_relocations(options);
        let told = decided(PLAIN, candidate, "before").expect("it fits");
        assert_eq!(bound(&layout), bound(&told), "{options}");
        assert_eq!(told.binding.shared, ["coef"]);
        // And with the linker's own words.
        let (original, bytes) = (PLAIN.bytes(), candidate.bytes());
        let linked = Image::parse(&bytes).unwrap().linked_addresses().unwrap();
        let object = amdgpu_code_object::CodeObject::parse(&original).unwrap();
        let address = |name: &str| object.globals.iter().find(|g| g.name == name).map(|g| g.address);
        let mut checked = 0;
        for (at, to) in bound(&told) {
            let relocation = linked.iter().find(|l| l.at == at + 4).expect("every address has one");
            let Some(there) = relocation.symbol.as_deref().and_then(address) else { continue };
            // The addend counts from the literal, 4 bytes behind `s_getpc_b64`.
            assert_eq!(to, there.wrapping_add_signed(relocation.addend - 4), "{relocation:?}");
            checked += 1;
        }
        assert!(checked >= 8, "{checked} addresses");
    }
}

#[test]
fn other_layouts_need_relocations_and_are_refused_by_the_instruction_without() {
    for options in ["-O3 -DORDER", "-O3 -DMORE"] {
        for kernel in ["before", "behind", "structures", "passed", "counted"] {
            let refusals = decided(PLAIN, PLAIN.options(options), kernel).expect_err(options);
            let [refusal] = &refusals[..] else { panic!("{refusals:?}") };
            assert!(refusal.starts_with("variables: expected the original's layout"), "{refusal}");
            assert!(refusal.contains("--emit-relocs") && refusal.contains("s_getpc_b64 at 0x"), "{refusal}");
        }
        // What uses no variable has nothing to do with them.
        for kernel in ["none", "constant"] {
            assert!(decided(PLAIN, PLAIN.options(options), kernel).is_ok(), "{kernel}, {options}");
        }
        for kernel in ["before", "behind", "structures", "passed"] {
            let swap = decided(PLAIN, with_relocations(options), kernel).unwrap_or_else(|r| panic!("{kernel}: {r:?}"));
            let uses = KERNELS.iter().find(|(name, _)| *name == kernel).map_or(&[][..], |(_, uses)| *uses);
            assert_eq!(swap.binding.shared, uses, "{kernel}, {options}");
            assert!(swap.binding.own.is_empty(), "{kernel}, {options}: {:?}", swap.binding.own);
        }
    }
    let swap = decided(PLAIN, with_relocations("-O3 -DMORE"), "used").expect("it fits");
    assert_eq!(
        (&swap.binding.own[..], &swap.binding.shared[..]),
        (&["more".to_owned()][..], &["managed".to_owned()][..])
    );
    let told: Vec<String> = swap.accepted.iter().map(ToString::to_string).collect();
    assert!(told.contains(&"variables: none becomes more".to_owned()), "{told:?}");
}

#[test]
fn variables_that_are_not_the_same_are_refused_by_name() {
    let cases = [
        ("-O3 -DSIZE", "before", "variables: expected coef of 32 bytes, found coef of 64 bytes"),
        (
            "-O3 -DINITIAL",
            "counted",
            "variables: expected counter as it is initialised, found counter initialised otherwise",
        ),
        ("-O3 -DMANAGED", "used", "variables: expected managed that is not managed, found managed that is managed"),
    ];
    for (options, kernel, words) in cases {
        for build in [PLAIN.options(options), with_relocations(options)] {
            let refusals = decided(PLAIN, build, kernel).expect_err(options);
            assert!(refusals.len() == 1 && refusals[0].starts_with(words), "{refusals:?}");
        }
        assert!(decided(PLAIN, PLAIN.options(options), "none").is_ok(), "{options}");
    }
    // Managed on both sides is the same: the host writes the address into the application's.
    let managed = PLAIN.options("-O3 -DMANAGED");
    assert!(decided(managed, managed.options("-O1 -DMANAGED"), "used").is_ok());
}

#[test]
fn without_the_originals_code_object_nothing_is_known_of_its_variables() {
    let refusals = fit_code(&PLAIN.kernel("before"), &PLAIN.kernel("before"), &PLAIN.bytes(), Modules::default());
    let refusals = refusals.expect_err("its variables are not seen");
    assert_eq!(refusals.iter().map(|r| r.reason).collect::<Vec<_>>(), [Reason::Variables]);
    assert!(fit_code(&PLAIN.kernel("none"), &PLAIN.kernel("none"), &PLAIN.bytes(), Modules::default()).is_ok());
}

#[test]
fn variables_of_another_module_are_used_only_where_the_originals_module_refers_to_them() {
    // An original that has none of the name: files do not share variables, however much alike they are.
    let (without, with) = (PLAIN.options("-O3"), with_relocations("-O3 -DMORE"));
    let own = Module::of(&without.bytes()).expect("a compiler's code object");
    let other = Module::of(&with.bytes()).expect("a compiler's code object");
    let decided = |own: &Module, others: &[&Module]| {
        let modules = Modules { own: Some(own), others };
        fit_code(&without.kernel("used"), &with.kernel("used"), &with.bytes(), modules)
    };
    for others in [&[&other][..], &[&other, &other]] {
        let swap = decided(&own, others).expect("it has one of its own");
        let names = [&swap.binding.own, &swap.binding.shared].map(|names| names.join(" "));
        assert_eq!(names, ["more", "managed"]);
        assert!(swap.binding.patches.iter().all(|patch| patch.module == 0), "{:?}", swap.binding.patches);
    }
    // An original that refers to one of the application's.
    let refers = PLAIN.options("-O3 -DREFERS -Xoffload-linker --unresolved-symbols=ignore-all");
    let own = Module::of(&refers.bytes()).expect("a compiler's code object");
    let swap = decided(&own, &[&other]).expect("one has it");
    assert_eq!((swap.binding.own.len(), swap.binding.shared.join(" ")), (0, "managed more".to_owned()));
    assert!(swap.binding.patches.iter().any(|patch| patch.module == 1), "{:?}", swap.binding.patches);
    for (others, found) in [(&[][..], "none"), (&[&other, &other], "2 of the application's")] {
        let refusals = decided(&own, others).expect_err("which one is not known");
        let words = refusals[0].to_string();
        assert!(words.starts_with("variables: expected ") && words.contains(&format!("found {found}")), "{words}");
    }
    // A candidate that refers to one which the original does not know.
    let modules = Modules { own: Some(&Module::of(&without.bytes()).expect("a code object")), others: &[&other] };
    let refers =
        PLAIN.options("-O3 -DREFERS -Xoffload-linker --unresolved-symbols=ignore-all -Xoffload-linker --emit-relocs");
    let refusals = fit_code(&without.kernel("used"), &refers.kernel("used"), &refers.bytes(), modules);
    let words = refusals.expect_err("the original does not refer to it")[0].to_string();
    assert!(words.starts_with("variables: expected more of the original, found none"), "{words}");
}

#[test]
fn variables_that_only_a_host_runtime_sets_up_are_no_replacements_own() {
    let managed = with_relocations("-O3 -DOWN_MANAGED");
    for candidate in [PLAIN.options("-O3 -DOWN_MANAGED"), managed] {
        let words = decided(PLAIN, candidate, "used").expect_err("nothing sets its pointer")[0].clone();
        let named = "variables: expected mine of the application, found one of the candidate's own, a managed variable";
        assert!(words.starts_with(named), "{words}");
        assert!(decided(PLAIN, candidate, "none").is_ok());
    }
    // The application's is set up; other kernels of the file have nothing to do with it.
    assert!(decided(managed, managed.options("-O1 -DOWN_MANAGED"), "used").is_ok());
    assert!(decided(PLAIN, managed, "before").is_ok());
}

#[test]
fn kernels_that_use_what_an_initialiser_writes_are_refused_and_others_are_not() {
    for clang in [15, 19] {
        let original = Build { source: "initialised.cl", clang, target: "gfx90a", abi: 5, options: "-O2" };
        for (options, counted) in [("-O2 -DINIT", false), ("-O2 -DINIT -Wl,--emit-relocs", true)] {
            let candidate = original.options(options);
            let words = decided(original, candidate, "lookup").expect_err("it is not run")[0].clone();
            let expected = "initialiser: expected variables that no initialiser or finaliser uses, found ";
            assert!(words.starts_with(expected), "clang {clang}, {options}: {words}");
            for kernel in ["seeded", "plain"] {
                assert!(decided(original, candidate, kernel).is_ok(), "clang {clang}, {options}: {kernel}");
            }
            // Without the linker's words, an address may be of any variable.
            let found = decided(original, candidate, "counted");
            assert_eq!(found.is_ok(), counted, "clang {clang}, {options}: {found:?}");
        }
        // Without symbols, the memory is the same.
        let stripped = original.options("-O2 -DINIT -Wl,-s");
        assert!(decided(original, stripped, "lookup").is_err(), "clang {clang}");
        assert!(decided(original, stripped, "plain").is_ok(), "clang {clang}");
        assert!(decided(original, original.options("-O1"), "lookup").is_ok(), "clang {clang}");
    }
}

#[test]
fn addresses_that_the_loader_would_store_are_those_of_the_originals_variables() {
    let original = PLAIN.options("-O3 -DPOINTER");
    // The pointer itself is the original's; what is loaded has its own, which nothing uses.
    let swap = decided(original, PLAIN.options("-O1 -DPOINTER"), "used").expect("it fits");
    assert!(swap.binding.shared.iter().any(|name| name == "pointer"), "{:?}", swap.binding);
    // Where the original has none, the pointer is the candidate's own, and points to the original's variable.
    let candidate = with_relocations("-O3 -DPOINTER");
    let swap = decided(PLAIN, candidate, "used").expect("it fits");
    assert_eq!(swap.binding.own, ["pointer"]);
    let stored: Vec<u64> =
        swap.binding.patches.iter().filter(|p| matches!(p.what, Patched::Stored(..))).map(|p| p.address).collect();
    let bytes = PLAIN.bytes();
    let object = amdgpu_code_object::CodeObject::parse(&bytes).unwrap();
    let samples = object.globals.iter().find(|g| g.name == "samples").expect("it is there").address;
    assert_eq!(stored, [samples + 8]);
    let base = 0x7f00_0000_0000;
    let bound =
        swap.binding.apply(&candidate.bytes(), |module| (module == 0).then_some(base)).expect("it can be bound");
    let image = Image::parse(&bound).unwrap();
    assert!(image.stored_addresses().unwrap().is_empty(), "the loader stores nothing there any more");
    let address = (base + samples + 8).to_le_bytes();
    assert!(bound.windows(8).any(|bytes| bytes == address));
}
