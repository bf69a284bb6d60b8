//! What compilers make of one difference in the source or in their options, and what the rules say of it.

use logdur_kernel_cache::{Interface, Kernarg, Module, Modules, What, fit, fit_code};

use crate::compiled::{Build, SCALE, SUM};

/// The original, the candidate, the kernel's name, and what is said: reasons, or whether the kernarg segment stays as it
/// is and what differs.
type Case = (Build, Build, &'static str, Result<(&'static str, &'static [&'static str]), &'static [&'static str]>);

const AS_IT_IS: &str = "as it is";
const RELAID: &str = "relaid";

#[rustfmt::skip]
const CASES: &[Case] = &[
    // The same, and what may differ.
    (SCALE, SCALE, "scale", Ok((AS_IT_IS, &[]))),
    (SUM, SUM, "sum", Ok((AS_IT_IS, &[]))),
    (SCALE, SCALE.options("-O3 -DLDS=256"), "scale", Ok((AS_IT_IS, &["LDS", "registers"]))),
    (SCALE, SCALE.options("-O3 -DSCRATCH=64"), "scale", Ok((AS_IT_IS, &["scratch", "registers"]))),
    (SCALE, SCALE.options("-O3 -DREGISTERS"), "scale", Ok((AS_IT_IS, &["registers"]))),
    (SCALE, SCALE.options("-O3 -DSPACE"), "scale", Ok((AS_IT_IS, &[]))),
    (SCALE, SCALE.options("-O3 -DFACTOR=int"), "scale", Ok((AS_IT_IS, &["registers"]))),
    (SCALE.options("-O3 -DDYNAMIC_LDS"), SCALE.options("-O3 -DDYNAMIC_LDS -DLDS=256"), "scale", Ok((RELAID, &["LDS", "registers"]))),
    (SUM, SUM.options("-O3 -DOWN_TABLE"), "sum", Ok((AS_IT_IS, &["registers"]))),
    // Targets.
    (SCALE.target("gfx90a:xnack-"), SCALE, "scale", Ok((AS_IT_IS, &[]))),
    (SCALE, SCALE.target("gfx90a:xnack+"), "scale", Ok((AS_IT_IS, &["registers"]))),
    (SCALE.target("gfx906").abi(19, 6), SCALE.target("gfx9-generic").abi(19, 6), "scale", Ok((AS_IT_IS, &[]))),
    (SCALE.target("gfx90a:xnack-"), SCALE.target("gfx90a:xnack+"), "scale", Err(&["xnack"])),
    (SCALE.target("gfx90a:sramecc-"), SCALE.target("gfx90a:sramecc+"), "scale", Err(&["sramecc"])),
    (SCALE, SCALE.target("gfx906"), "scale", Err(&["processor"])),
    (SCALE, SCALE.target("gfx9-generic").abi(19, 6), "scale", Err(&["processor"])),
    (SCALE.target("gfx1030"), SCALE.target("gfx1030").options("-O3 -mwavefrontsize64"), "scale", Err(&["wave size"])),
    // Arguments.
    (SCALE, SCALE.options("-O3 -DFACTOR=double"), "scale", Err(&["argument"])),
    (SCALE, SCALE.options("-O3 -DFACTOR=short"), "scale", Err(&["argument"])),
    (SCALE, SCALE.options("-O3 -DORDER"), "scale", Err(&["argument"])),
    (SCALE, SCALE.options("-O3 -DCOUNT"), "scale", Err(&["argument count"])),
    (SCALE, SCALE.options("-O3 -DDYNAMIC_LDS"), "scale", Err(&["argument count"])),
    (SCALE.options("-O3 -DCOUNT"), SCALE.options("-O3 -DDYNAMIC_LDS"), "scale", Err(&["argument"])),
    // Variables, functions, stacks.
    (SCALE, SCALE.options("-O3 -DTABLE"), "scale", Ok((AS_IT_IS, &[]))),
    (SCALE, SCALE.options("-O3 -DSTATE"), "scale", Ok((AS_IT_IS, &["variables"]))),
    (SCALE.options("-O3 -DSTATE"), SCALE.options("-O1 -DSTATE"), "scale", Ok((AS_IT_IS, &[]))),
    (SCALE, SCALE.options("-O3 -DELSEWHERE -Wl,--unresolved-symbols=ignore-all"), "scale", Err(&["variables"])),
    (SCALE, SCALE.options("-O3 -DUNUSED -Wl,--unresolved-symbols=ignore-all"), "scale", Ok((AS_IT_IS, &[]))),
    (SUM, SUM.options("-O3 -DVARIABLE"), "sum", Ok((AS_IT_IS, &["variables"]))),
    (SUM, SUM.options("-O3 -DCONSTANT"), "sum", Ok((AS_IT_IS, &["variables"]))),
    (SUM, SUM.options("-O3 -DOWN_VARIABLE"), "sum", Ok((AS_IT_IS, &["variables"]))),
    (SUM, SUM.options("-O3 -DPOINTERS"), "sum", Ok((AS_IT_IS, &[]))),
    (SUM.options("-O3 -DPOINTERS"), SUM.options("-O1 -DPOINTERS"), "make", Err(&["stored functions"])),
    (SUM, SUM.options("-O3 -DRECURSION"), "sum", Err(&["dynamic stack"])),
    // Without optimisation this compiler does not know how much stack the functions of the headers need.
    (SUM, SUM.options("-O0"), "sum", Err(&["dynamic stack"])),
    (SUM.options("-O0"), SUM, "sum", Ok((AS_IT_IS, &["scratch", "dynamic stack"]))),
    (SUM.options("-O3 -DVARIABLE"), SUM, "sum", Ok((AS_IT_IS, &["registers"]))),
    // The shape of workgroups.
    (SCALE, SCALE.options("-O3 -DATTRIBUTES=__attribute__((reqd_work_group_size(64,1,1)))"), "scale",
        Ok((AS_IT_IS, &["workgroup limit", "required workgroup"]))),
    (SCALE.options("-O3 -DATTRIBUTES=__attribute__((reqd_work_group_size(32,2,1)))"),
        SCALE.options("-O3 -DATTRIBUTES=__attribute__((reqd_work_group_size(64,1,1)))"), "scale", Err(&["required workgroup"])),
    (SCALE, SCALE.options("-O3 -cl-uniform-work-group-size"), "scale", Ok((AS_IT_IS, &["complete workgroups"]))),
    // Versions of the ABI. The compiler marks what is right for both settings of xnack as code for "on" in the old ones.
    (SCALE.target("gfx900").abi(15, 2), SCALE.target("gfx900"), "scale", Ok((AS_IT_IS, &["ABI version"]))),
    (SCALE.target("gfx900").abi(15, 3), SCALE.target("gfx900").abi(15, 2), "scale", Ok((AS_IT_IS, &["ABI version"]))),
    (SCALE.target("gfx900:xnack+").abi(15, 4), SCALE.target("gfx900").abi(15, 3), "scale", Ok((AS_IT_IS, &["ABI version"]))),
    (SCALE.target("gfx900:xnack-").abi(15, 4), SCALE.target("gfx900").abi(15, 3), "scale", Err(&["xnack"])),
    (SCALE.target("gfx900").abi(19, 6), SCALE.target("gfx900").abi(15, 4), "scale", Ok((AS_IT_IS, &["ABI version"]))),
    // Hidden arguments.
    (SCALE, SCALE.options("-O3 -DBLOCKS"), "scale", Ok((RELAID, &["kernarg segment", "registers"]))),
    (SCALE.options("-O3 -DBLOCKS"), SCALE, "scale", Ok((AS_IT_IS, &["kernarg segment", "registers"]))),
    // Offsets of version 5: calls of the host, several devices, malloc, queue and completion action of enqueueing.
    (SCALE, SCALE.options("-O3 -DHIDDEN=80"), "scale", Err(&["hidden argument"])),
    (SCALE, SCALE.options("-O3 -DHIDDEN=88"), "scale", Err(&["hidden argument"])),
    (SCALE, SCALE.options("-O3 -DHIDDEN=96"), "scale", Err(&["hidden argument"])),
    (SCALE, SCALE.options("-O3 -DHIDDEN=104"), "scale", Err(&["hidden argument"])),
    (SCALE, SCALE.options("-O3 -DHIDDEN=112"), "scale", Err(&["hidden argument"])),
    (SCALE, SCALE.options("-O3 -DHIDDEN=200"), "scale", Ok((RELAID, &["kernarg segment"]))),
    (SCALE.options("-O3 -DHIDDEN=80"), SCALE.options("-O3 -DHIDDEN=80 -DLDS=256"), "scale", Ok((AS_IT_IS, &["LDS"]))),
    // This compiler asks for the buffer whether the kernel prints or not, and so the runtime has filled it in.
    (SUM, SUM.options("-O3 -DPRINT"), "sum", Ok((AS_IT_IS, &["scratch"]))),
];

fn kernels(original: Build, candidate: Build, name: &str) -> (Interface, Interface) {
    (original.kernel(name), candidate.kernel(name))
}

fn kind(kernarg: &Kernarg) -> &'static str {
    match kernarg {
        Kernarg::AsItIs => AS_IT_IS,
        Kernarg::Relaid(_) => RELAID,
    }
}

#[test]
fn what_compilers_make_of_a_difference_is_told_as_it_is() {
    let mut wrong = Vec::new();
    for (original, candidate, name, expected) in CASES {
        let (o, c) = kernels(*original, *candidate, name);
        let module = Module::of(&original.bytes()).expect("a compiler's code object");
        let got = fit_code(&o, &c, &candidate.bytes(), Modules { own: Some(&module), others: &[] });
        let shown = got.as_ref().map(|swap| (kind(&swap.kernarg), swap.accepted.iter().map(|a| a.name).collect()));
        let shown = shown.map_err(|refusals| refusals.iter().map(|r| r.reason.name()).collect::<Vec<_>>());
        let expected = expected.map(|(kernarg, names)| (kernarg, names.to_vec())).map_err(|names| names.to_vec());
        // How many registers a compiler takes is its own affair.
        let without = |(kernarg, mut names): (&'static str, Vec<&'static str>)| {
            names.retain(|name| *name != "registers");
            (kernarg, names)
        };
        if shown.clone().map(without) != expected.clone().map(without) {
            wrong.push(format!("{original:?}, {candidate:?}: expected {expected:?}, got {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Builds of one source that an application and a user may have.
const BUILDS: [Build; 7] = [
    SCALE.abi(15, 4).options("-O0"),
    SCALE.abi(15, 4),
    SCALE.abi(15, 5).options("-O0"),
    SCALE.abi(15, 5),
    SCALE.abi(19, 4).options("-O3 -DBLOCKS"),
    SCALE.abi(19, 5).options("-O0 -DBLOCKS"),
    SCALE.abi(19, 6).options("-O3 -DBLOCKS"),
];

#[test]
fn builds_without_and_with_optimisation_and_of_different_versions_swap_unless_only_the_runtime_knows_an_argument() {
    let (mut relaid, mut refused) = (0, 0);
    for original in BUILDS {
        for candidate in BUILDS {
            let (o, c) = kernels(original, candidate, "scale");
            match fit(&o, &c) {
                Ok(swap) => {
                    let Kernarg::Relaid(layout) = swap.kernarg else { continue };
                    relaid += 1;
                    for hidden in c.hidden() {
                        let copied =
                            layout.copies.iter().any(|copy| (copy.to..copy.to + copy.len).contains(&hidden.offset));
                        let filled = layout.fills.iter().any(|fill| fill.to == hidden.offset);
                        assert!(copied != filled, "{}: {layout:?}", hidden.kind);
                        assert!(copied || What::of(&hidden.kind).is_some(), "{}", hidden.kind);
                    }
                }
                Err(refusals) => {
                    refused += 1;
                    let names: Vec<&str> = refusals.iter().map(|r| r.reason.name()).collect();
                    assert_eq!(names, ["hidden argument"], "{original:?}, {candidate:?}");
                    let theirs = |kernel: &Interface| {
                        kernel
                            .hidden()
                            .filter(|h| What::of(&h.kind).is_none())
                            .map(|h| h.kind.clone())
                            .collect::<Vec<_>>()
                    };
                    assert!(theirs(&c).iter().any(|kind| !theirs(&o).contains(kind)), "{original:?}, {candidate:?}");
                }
            }
        }
    }
    assert!(relaid > 0 && refused > 0, "{relaid} relaid, {refused} refused: the builds show nothing");
}

#[test]
fn a_kernel_that_needs_more_registers_is_kept_off_cooperative_queues() {
    let (o, c) = kernels(SUM, SUM.options("-O3 -DSINE"), "sum");
    let swap = fit(&o, &c).expect("they fit");
    assert!(swap.limits.may_run_fewer);
    let (o, c) = kernels(SUM.options("-O3 -DCOOPERATIVE"), SUM.options("-O3 -DCOOPERATIVE"), "sum");
    assert!(!fit(&o, &c).expect("they fit").limits.may_run_fewer);
}
