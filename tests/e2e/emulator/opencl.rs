//! The same OpenCL C on the machine's processor and on the GPU: `tests/programs/opencl`. The reference is pocl's.

use std::path::PathBuf;

use crate::support::compare::{Near, Random, Type};
use crate::support::harness;
use crate::support::launch::{self, Arg, Launch};

/// One way to make code for the GPU.
#[derive(Clone, Debug)]
struct Build {
    arch: String,
    clang: u32,
    optimise: u32,
    abi: u32,
}

/// Those that differ in everything, or all.
fn builds() -> Vec<Build> {
    let mut builds = Vec::new();
    for (number, arch) in harness::archs().into_iter().enumerate() {
        for (clang, optimise, abi) in
            [(15, 0, 4), (15, 3, 5), (19, 0, 5), (19, 3, 4), (15, 0, 5), (15, 3, 4), (19, 0, 4), (19, 3, 5)]
        {
            builds.push(Build { arch: arch.clone(), clang, optimise, abi });
        }
        // The first processor has the first four, the second two of them.
        let few = if number == 0 { 4 } else { 2 };
        let before = builds.len() - 8;
        builds.truncate(before + harness::count(few, 8));
    }
    builds
}

fn source(name: &str) -> PathBuf {
    harness::root().join("tests/programs/opencl").join(name)
}

/// What a buffer holds.
#[derive(Clone, Copy)]
struct Holds {
    of: Type,
    near: Near,
    /// The reference's type, if it has a wider one.
    reference: Type,
}

const fn holds(of: Type, near: Near) -> Holds {
    Holds { of, near, reference: of }
}

/// A launch, and for each buffer what it holds.
struct Case {
    launch: Launch,
    reference: Launch,
    buffers: Vec<Holds>,
}

impl Case {
    /// What an element of the results was made from, where that is one element of each other buffer.
    fn inputs(&self, index: usize) -> String {
        let mut text = String::new();
        for (arg, holds) in self.launch.args.iter().zip(&self.buffers).take(self.buffers.len() - 1) {
            let Arg::Buffer(bytes) = arg else { continue };
            let at = index % (bytes.len() / holds.of.size());
            let bytes = &bytes[at * holds.of.size()..][..holds.of.size()];
            text += &format!(", of {:e} ({:#x})", holds.of.value(bytes), holds.of.bits(bytes));
        }
        text
    }
}

/// Room for as many results as any kernel has. What is not written stays NaN in every type.
const RESULTS: usize = 120;
const ITEMS: u32 = 1024;

/// A kernel that takes three arrays of elements, an array for results and a number.
fn of_three(kernel: &str, takes: Type, lanes: usize, gives: Holds) -> Case {
    let mut random = Random::of(kernel);
    let count = ITEMS as usize * lanes;
    let mut args: Vec<Arg> = (0..3).map(|_| Arg::Buffer(random.elements(takes, count))).collect();
    let room = |of: Type| Arg::Buffer(vec![0xFF; RESULTS * count * of.size()]);
    args.push(room(gives.of));
    args.push(Arg::Value(ITEMS.to_le_bytes().to_vec()));
    let launch = Launch { kernel: kernel.to_owned(), grid: vec![ITEMS], workgroup: vec![128], lds: 0, args };
    let mut reference = launch.clone();
    reference.args[3] = room(gives.reference);
    let takes = holds(takes, Near::Same);
    Case { launch, reference, buffers: vec![takes, takes, takes, gives] }
}

/// Runs kernels on the CPU, then as every build on the GPU, and compares every buffer.
fn compare(file: &str, defines: &str, reference_defines: &str, cases: &[Case]) {
    let source = source(file);
    let references: Vec<Launch> = cases.iter().map(|c| c.reference.clone()).collect();
    let options = format!("-cl-std=CL3.0 {reference_defines}");
    let expected = launch::on_cpu(&source, &options, &references);
    let launches: Vec<Launch> = cases.iter().map(|c| c.launch.clone()).collect();
    for build in builds() {
        let Build { arch, clang, optimise, abi } = &build;
        let object = harness::opencl_object(&source, arch, *clang, *optimise, *abi, defines);
        let (got, _) = launch::on_gpu(&object, arch, &launches, false);
        let mut wrong = Vec::new();
        for (case, (got, expected)) in cases.iter().zip(got.iter().zip(&expected)) {
            for (number, holds) in case.buffers.iter().enumerate() {
                let (got, expected) = (&got[number], &expected[number]);
                let differs = holds.near.differs(holds.of, got, expected, holds.reference);
                if let Some((index, what)) = differs {
                    let of = case.inputs(index);
                    wrong.push(format!("{}: buffer {number}[{index}] is {what}{of}", case.launch.kernel));
                }
            }
        }
        assert!(wrong.is_empty(), "{file} {build:?}\n{}", wrong.join("\n"));
    }
}

const I8: Type = Type::Int(1);
const I16: Type = Type::Int(2);
const I32: Type = Type::Int(4);
const I64: Type = Type::Int(8);

const fn same(of: Type) -> Holds {
    holds(of, Near::Same)
}

#[test]
fn integers_of_every_width_come_out_of_the_gpu_as_out_of_the_cpu() {
    let types = [
        ("char", I8),
        ("uchar", I8),
        ("short", I16),
        ("ushort", I16),
        ("int", I32),
        ("uint", I32),
        ("long", I64),
        ("ulong", I64),
    ];
    let mut cases: Vec<Case> = types.map(|(name, of)| of_three(&format!("integer_{name}"), of, 1, same(of))).into();
    cases.push(of_three("integer_24", I32, 1, same(I32)));
    compare("integer.cl", "", "", &cases);
}

#[test]
fn vectors_come_out_of_the_gpu_as_out_of_the_cpu() {
    let (i8s, i16s, i32s, i64s) = (same(I8), same(I16), same(I32), same(I64));
    let integers = [
        ("char4", i8s, 4),
        ("uchar16", i8s, 16),
        ("short2", i16s, 2),
        ("ushort8", i16s, 8),
        ("int4", i32s, 4),
        ("uint2", i32s, 2),
        ("long2", i64s, 2),
        ("ulong4", i64s, 4),
        ("float4", same(Type::F32), 4),
        ("double2", same(Type::F64), 2),
    ];
    let cases = integers.map(|(name, holds, lanes)| of_three(&format!("vector_{name}"), holds.of, lanes, holds));
    compare("vectors.cl", "", "", &cases);
}

#[test]
fn conversions_come_out_of_the_gpu_as_out_of_the_cpu() {
    let (f16, f32, f64, long) = (same(Type::F16), same(Type::F32), same(Type::F64), same(I64));
    let cases = [
        ("from_float", f32, long),
        ("from_double", f64, long),
        ("to_float", long, f32),
        ("to_double", long, f64),
        ("narrow", f64, f32),
        ("widen", f32, f64),
        ("to_half", f32, f16),
        ("double_to_half", f64, f16),
        ("from_half", f16, f32),
        ("integers", long, long),
    ];
    let cases = cases.map(|(name, takes, gives)| of_three(name, takes.of, 1, gives));
    compare("convert.cl", "", "", &cases);
}

#[test]
fn exact_arithmetic_comes_out_of_the_gpu_as_out_of_the_cpu() {
    let cases = [
        ("real_float", Type::F32),
        ("real_double", Type::F64),
        ("roots_float", Type::F32),
        ("roots_double", Type::F64),
        ("real_half", Type::F16),
    ];
    let cases = cases.map(|(name, of)| of_three(name, of, 1, same(of)));
    compare("real.cl", "", "", &cases);
}

#[test]
fn functions_are_as_near_to_a_wider_types_as_opencl_c_demands() {
    let kernels = [("ulp_2", 2.0), ("ulp_3", 3.0), ("ulp_4", 4.0), ("ulp_5", 5.0), ("ulp_16", 16.0)];
    let cases = kernels.map(|(name, ulps)| {
        let gives = Holds { of: Type::F32, near: Near::Ulps(ulps), reference: Type::F64 };
        of_three(name, Type::F32, 1, gives)
    });
    compare("math.cl", "-DT=float", "-DT=float -DREAL=double", &cases);
    // The reference errs as much as the GPU may.
    let cases = kernels.map(|(name, ulps)| of_three(name, Type::F64, 1, holds(Type::F64, Near::Ulps(2.0 * ulps))));
    compare("math.cl", "-DT=double", "-DT=double", &cases);
}

/// A launch whose buffers are to be the same afterwards.
fn alike(kernel: &str, grid: &[u32], workgroup: &[u32], args: Vec<Arg>, of: &[Type]) -> Case {
    let launch = Launch { kernel: kernel.to_owned(), grid: grid.to_vec(), workgroup: workgroup.to_vec(), lds: 0, args };
    Case { reference: launch.clone(), launch, buffers: of.iter().map(|of| same(*of)).collect() }
}

/// A struct as C lays it out, of numbers that sums of it do not overflow with.
fn mixed(random: &mut Random) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
    put(0, &(random.below(2_000_000) as i32 - 1_000_000).to_le_bytes());
    put(4, &[random.below(256) as u8]);
    put(8, &(random.below(1_000_000) as f64 / 8.0 - 60_000.0).to_le_bytes());
    for word in 0..3 {
        put(16 + 2 * word, &(random.below(20_000) as i16 - 10_000).to_le_bytes());
    }
    put(24, &((random.next() >> 8) as i64).to_le_bytes());
    bytes.truncate(32);
    bytes
}

/// Launches of kernels that access memory of every kind.
fn memory_cases() -> Vec<Case> {
    let mut random = Random::of("memory");
    let mut numbers = |of: Type, count: usize| Arg::Buffer(random.elements(of, count));
    let empty = |bytes: usize| Arg::Buffer(vec![0; bytes]);
    let value = |bytes: &[u8]| Arg::Value(bytes.to_vec());
    let n = ITEMS as usize;
    let (line, groups) = (&[ITEMS][..], &[128][..]);
    let mut cases = vec![
        alike("constants", line, groups, vec![numbers(I16, 128), numbers(I32, n), empty(4 * n)], &[I16, I32, I32]),
        alike(
            "subwords",
            line,
            groups,
            vec![numbers(I8, 2 * n + 8), empty(n), empty(2 * n), empty(2 * n)],
            &[I8, I8, I16, I16],
        ),
        alike("private_array", line, groups, vec![numbers(I32, 2 * n), empty(4 * n)], &[I32, I32]),
        alike(
            "local_memory",
            line,
            &[256],
            vec![numbers(I32, n), empty(4 * n / 256), empty(4 * n), Arg::Local(4 * 256)],
            &[I32, I32, I32],
        ),
        alike(
            "transpose",
            &[64, 64],
            &[16, 16],
            vec![numbers(I16, 4096), empty(8192), value(&64u32.to_le_bytes())],
            &[I16, I16],
        ),
        alike(
            "group_copies",
            line,
            &[64],
            vec![
                numbers(Type::F32, n),
                empty(4 * n),
                Arg::Local(4 * 64),
                Arg::Local(8 * 64),
                numbers(Type::F64, 2 * n),
                empty(8 * n),
            ],
            &[Type::F32, Type::F32, Type::F64, Type::F64],
        ),
        alike(
            "global_atomics",
            line,
            groups,
            vec![numbers(I32, n), numbers(I32, 32), numbers(I32, 2), numbers(I64, 10)],
            &[I32, I32, I32, I64],
        ),
        alike(
            "local_atomics",
            line,
            groups,
            vec![numbers(I32, n), empty(4 * 32 * 8), empty(8 * 4 * 8)],
            &[I32, I32, I64],
        ),
        alike("identity", &[12, 6, 8], &[4, 3, 2], vec![empty(4 * 16 * 12 * 6 * 8)], &[I32]),
        alike("divergence", line, groups, vec![numbers(I32, n), empty(8 * n)], &[I32, I64]),
    ];
    let all: Vec<u8> = (0..16).flat_map(|_| mixed(&mut random)).collect();
    let arguments = vec![
        Arg::Value(mixed(&mut random)),
        Arg::Buffer(all),
        empty(8 * n),
        value(&[0x85]),
        value(&(-12_345i16).to_le_bytes()),
        value(&[1, 200, 3, 255]),
    ];
    cases.push(alike("struct_argument", line, groups, arguments, &[I8, I64]));
    cases
}

#[test]
fn memory_of_every_kind_holds_on_the_gpu_what_it_holds_on_the_cpu() {
    compare("memory.cl", "", "", &memory_cases());
}

/// Captures of these kernels: for each build its name, the file, and the run that it is of.
pub(crate) fn captured() -> Vec<(String, PathBuf, harness::Outcome)> {
    let launches: Vec<Launch> = memory_cases().into_iter().map(|case| case.launch).collect();
    let capture = |build: Build| {
        let Build { arch, clang, optimise, abi } = &build;
        let object = harness::opencl_object(&source("memory.cl"), arch, *clang, *optimise, *abi, "");
        let run = launch::launcher(arch);
        let file = run.file("run.ldcap");
        let run = run.env("LOGDUR_CAPTURE", &file);
        let launched = launch::launched_by(run, &object, &launches, true);
        let (_, outcome) = launched.unwrap_or_else(|run| panic!("{build:?}: {}{}", run.stdout, run.stderr));
        (format!("{build:?}"), file, outcome)
    };
    builds().into_iter().map(capture).collect()
}
