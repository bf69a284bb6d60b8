//! Names of compilers, and what llvm-cxxfilt 19 prints of them. `tests/names.rs` asks it itself.

use super::{LONGEST, demangle, parameters, parts};

/// Bytes of stack that are enough, in builds without optimization too.
const STACK: usize = 1 << 20;

#[test]
fn constrained_templates_are_spelled_as_llvm_spells_them() {
    for (symbol, name) in [
        ("_Z11constrainedITk6NumberdEvPT_", "void constrained<double>(double*)"),
        ("_Z4withITk4SameIiEiEvPT_", "void with<int>(int*)"),
        ("_Z5valueITnDkSt8integralLb1EdEvPT0_", "void value<true, double>(double*)"),
        ("_Z5valueITnDkSt8integralLm3EdEvPT0_", "void value<3ul, double>(double*)"),
        ("_Z5applyITnDaXadL_Z5twiceiEEiEvPT0_", "void apply<&twice(int), int>(int*)"),
        ("_Z4evenIN7rocprim4plusIiEELj256ELl8EEvPT_", "void even<rocprim::plus<int>, 256u, 8l>(rocprim::plus<int>*)"),
        ("_Z4evenISt6vectorIS0_IiEEEvT_", "void even<std::vector<std::vector<int>>>(std::vector<std::vector<int>>)"),
        (
            "_Z2n4I1AEvT_Qoo6NumberIS1_Eaant6NumberIS1_Esr3stdE10is_class_vIS1_E",
            "void n4<A>(A) requires Number<A> || !Number<A> && std::is_class_v<A>",
        ),
        ("_Z4eachIZ4mainEUlT_E_EvT_", "void each<main::'lambda'(auto)>(main::'lambda'(auto))"),
        ("_Z2asPU3AS3KfU6AMDGPUi", "as(float const AS3*, int AMDGPU)"),
    ] {
        assert_eq!(demangle(symbol).as_deref(), Some(name), "{symbol}");
    }
}

#[test]
fn a_pack_that_is_declared_with_its_type_is_expanded() {
    // llvm-cxxfilt 19 leaves the dots: `integer_sequence<int, 1, 2...>`.
    let name = "void f<int, 1, 2>(std::integer_sequence<int, 1, 2>)";
    assert_eq!(demangle("_Z1fIiTpTnT_JLi1ELi2EEEvSt16integer_sequenceIS0_JXspT0_EEE").as_deref(), Some(name));
}

#[test]
fn the_types_of_parameters_are_those_of_the_function_and_of_nothing_else() {
    let of = |symbol: &str| parameters(symbol).map(|all| all.join("; "));
    assert_eq!(of("_Z4scanPKfPfi").as_deref(), Some("float const*; float*; int"));
    assert_eq!(of("_ZN2ns6kernelILi4EfEEvPT0_i").as_deref(), Some("float*; int"));
    assert_eq!(of("_Z4scanPKfPfi.kd").as_deref(), Some("float const*; float*; int"));
    assert_eq!(of("_Z5emptyv").as_deref(), Some(""));
    assert_eq!((of("_ZN2ns4dataE"), of("plain"), of("_ZTV4Node")), (None, None, None));
}

#[test]
fn a_function_has_names_without_its_parts() {
    for (symbol, names) in [
        (
            "_ZN2ns6kernelILi4EfEEvPT0_i",
            ["void ns::kernel<4, float>(float*, int)", "ns::kernel<4, float>", "ns::kernel", "kernel"],
        ),
        (
            "_ZN2nsgtI1AIiEEEbT_PFviE",
            [
                "bool ns::operator><A<int>>(A<int>, void (*)(int))",
                "ns::operator><A<int>>",
                "ns::operator>",
                "operator>",
            ],
        ),
        ("_ZN1aIN1b1cEE1kE", ["a<b::c>::k", "a<b::c>::k", "a<b::c>::k", "k"]),
        ("_Z3addPf.part.1", ["add(float*) (.part.1)", "add", "add", "add"]),
        (
            "_ZN12_GLOBAL__N_11kEPFPivE",
            ["(anonymous namespace)::k(int* (*)())", "(anonymous namespace)::k", "(anonymous namespace)::k", "k"],
        ),
    ] {
        assert_eq!(parts(symbol), Some(names.map(str::to_owned)), "{symbol}");
    }
}

#[test]
fn what_is_not_mangled_has_no_name() {
    for symbol in
        ["", "gemm", "_Z", "_Znot a name", "_Z3ad", "_Z4add", "_Z3addPf junk", "_Z3addT_", "_Z3fooIiEvT0_", "_ZNE"]
    {
        assert_eq!(demangle(symbol), None, "{symbol}");
    }
}

/// Each parameter is the whole list before it twice.
fn doubling(times: usize) -> String {
    let digit = |n: usize| char::from_digit(n as u32, 36).expect("a digit").to_ascii_uppercase();
    let mut symbol = "_Z1f1AIiiE".to_owned();
    for n in 0..times {
        symbol += &format!("1AIS{0}_S{0}_E", digit(n));
    }
    symbol
}

#[test]
fn names_without_end_are_left_alone() {
    let deep = format!("_Z1f{}i", "P".repeat(100_000));
    let nested = format!("_Z1fI{}i{}EvT_", "1AI".repeat(5000), "E".repeat(5000));
    let expressions = format!("_Z1fIX{}Li1EEEvv", "ng".repeat(50_000));
    let unbounded = format!("_Z1f{}", (0..20).map(|n| format!("1BI{}E", "S_".repeat(n + 1))).collect::<String>());
    let closures = format!("_Z1f{}", "UlRA_DTX".repeat(20_000));
    let parameters = format!("_Z1fI{}", "TtTpTnDTX".repeat(20_000));
    // Each parameter points to the one before it.
    let number = |n: u32| char::from_digit(n, 36).expect("a digit").to_ascii_uppercase();
    let chain = (0..35).fold("_Z1fPiPS_".to_owned(), |all, n| format!("{all}PS{}_", number(n)));
    let symbols = [deep, nested, expressions, doubling(34), unbounded, closures, parameters, chain];
    // Applications have threads with little stack.
    let small = std::thread::Builder::new().stack_size(STACK).spawn(move || {
        for symbol in symbols {
            let name = demangle(&symbol);
            assert!(name.is_none_or(|name| name.len() <= LONGEST));
        }
        for depth in 1..300 {
            for (begin, more, end) in [("_Z1f", "P", "i"), ("_Z1f", "PF", "ivE"), ("_Z1fIX", "ng", "Li1EEEvv")] {
                demangle(&format!("{begin}{}{end}", more.repeat(depth)));
            }
            demangle(&format!("_Z1f{}i{}", "1AI".repeat(depth), "E".repeat(depth)));
            demangle(&format!("_Z1f{}{}", "Z1gIX".repeat(depth), "EE".repeat(depth)));
        }
    });
    small.expect("a thread").join().expect("the stack is enough");
    assert!(demangle(&doubling(5)).is_some());
}

#[test]
fn damaged_symbols_are_read_to_an_end() {
    let symbols = [
        "_ZN2ns6kernelILi4EfEEvPT0_i",
        "_Z4eachIZ4mainEUlTyTnT_TpTyS0_DpT0_E_EvS0_",
        "_ZNK1AcvT_I1BEEv",
        "_Z1fIJiiEEvDpRT_PFvDpT_E",
        "_Z2n3I1GEvT_QrQS0__Xplfp_fp_Tns0_4typeXcldtfp_1fENR6NumberE",
    ];
    let letters = b"_ZNKSTIELXDpJUQ0123456789adltnyvisrocmfgqA";
    for symbol in symbols {
        for at in 0..symbol.len() {
            demangle(&symbol[..at]);
            for &letter in letters {
                let mut damaged = symbol.as_bytes().to_vec();
                damaged[at] = letter;
                demangle(std::str::from_utf8(&damaged).expect("letters"));
                damaged.insert(at, letter);
                parts(std::str::from_utf8(&damaged).expect("letters"));
            }
        }
    }
}
