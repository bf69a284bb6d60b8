//! `omniprobe verify --bisect`: errors that are planted into one dispatch of many are found exactly.

use std::fs;
use std::path::{Path, PathBuf};

use logdur_capture::Reader;
use serde_json::Value;

use super::region::{A, Does, Story, text};
use super::verify::{json, on_file};
use crate::support::captures::CODE;
use crate::support::harness::{self, Outcome, Run, built};

fn tool(name: &str, file: &Path, options: &[&str]) -> Outcome {
    on_file(Run::new(built("omniprobe")), name, file, &harness::arch(), options)
}

fn bisect(file: &Path, options: &[&str]) -> Outcome {
    tool("verify", file, &[&["--region", "--backend", "emu", "--json"], options].concat())
}

/// What a step can do wrong: words of the program `planted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Once = 1,
    Overwritten,
    NotANumber,
    Infinite,
    Race,
    Fault,
}

/// A captured region of the program `planted`.
struct Planted {
    run: Run,
    file: PathBuf,
    code: Vec<u8>,
    /// The numbers of the dispatches of its kernels, in their order.
    dispatches: Vec<u64>,
}

impl Planted {
    fn new(count: u64) -> Planted {
        Planted::on(&harness::arch(), count)
    }

    fn on(arch: &str, count: u64) -> Planted {
        let program = Run::hip("planted").arch(arch).args([count.to_string()]);
        let run = Run::new(built("omniprobe"));
        let file = run.file("run.ldcap");
        let region = format!("kernel:^relax$@1..kernel:^(mix|relax|blend)$@{count}");
        let options = ["--capture", file.to_str().unwrap(), "--capture-region", &region, "-l", "/dev/null"];
        program.probed(&options).passed();
        let reader = Reader::open(&file).unwrap();
        let records = reader.records();
        let ours = |kernel: u64| {
            let kernel = records.kernels.iter().find(|known| known.id == kernel).unwrap();
            ["mix", "relax", "blend"].contains(&kernel.symbol.as_str()).then_some(kernel.code_object)
        };
        let dispatches: Vec<_> = records.steps.iter().filter_map(|step| step.dispatch.as_ref()).collect();
        let ids: Vec<u64> = dispatches.iter().filter(|d| ours(d.kernel).is_some()).map(|d| d.id).collect();
        assert_eq!(ids.len() as u64, count);
        let code = dispatches.iter().find_map(|d| ours(d.kernel)).unwrap();
        let code = reader.code_object(code).unwrap();
        Planted { run, file, code, dispatches: ids }
    }

    /// A code object that goes wrong at a step.
    fn wrong(&self, step: u32, way: Way) -> PathBuf {
        self.wrong_code(self.code.clone(), step, way)
    }

    /// The same of other code of the program.
    fn wrong_code(&self, mut code: Vec<u8>, step: u32, way: Way) -> PathBuf {
        for (literal, value) in [(0x5eed_0001u32, step), (0x5eed_0002, way as u32)] {
            let at: Vec<usize> = (0..code.len() - 3).filter(|at| code[*at..*at + 4] == literal.to_le_bytes()).collect();
            assert!(at.len() >= 3, "{at:?}");
            at.into_iter().for_each(|at| code[at..at + 4].copy_from_slice(&value.to_le_bytes()));
        }
        let path = self.run.file(&format!("{way:?}-{step}.hsaco"));
        fs::write(&path, code).unwrap();
        path
    }

    /// The dispatch of a step.
    fn dispatch(&self, step: u32) -> u64 {
        self.dispatches[step as usize - 1]
    }

    /// Looks for what goes wrong at a step.
    fn found(&self, step: u32, way: Way) -> Value {
        let other = self.wrong(step, way);
        let wanted = match way {
            Way::Once | Way::Overwritten => "--bisect=difference",
            Way::NotANumber => "--bisect=nan",
            Way::Infinite => "--bisect=inf",
            Way::Race => "--bisect=race",
            Way::Fault => "--bisect=fault",
        };
        let options = [wanted, "--hsaco", other.to_str().unwrap(), "--tol", "arg0=f32", "--tol", "arg1=f32"];
        let outcome = bisect(&self.file, &options);
        let status = if way == Way::Fault { 5 } else { 6 };
        assert_eq!(outcome.status.code(), Some(status), "{way:?} at {step}: {}", text(&outcome));
        let said = json(&outcome);
        assert_eq!(said["first"]["dispatch"], self.dispatch(step), "{way:?} at {step}: {said:#}");
        said["first"].clone()
    }
}

/// Numbers that a seed gives: Knuth's multiplicative generator (TAOCP 3.3.4, MMIX).
fn drawn(seed: u64, below: u32) -> u32 {
    let state = seed.wrapping_add(1).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((state >> 33) % u64::from(below)) as u32
}

#[test]
fn an_error_that_is_planted_into_one_dispatch_is_found_exactly() {
    let count = harness::count(60, 1000) as u64;
    let planted = Planted::new(count);
    let ways = [Way::Once, Way::Overwritten, Way::NotANumber, Way::Infinite, Way::Race, Way::Fault];
    for seed in 0..harness::count(6, 20) as u64 {
        let (step, way) = (drawn(seed, count as u32) + 1, ways[seed as usize % ways.len()]);
        let first = planted.found(step, way);
        match way {
            Way::Once | Way::NotANumber | Way::Infinite => {
                assert_eq!((&first["argument"], &first["index"]), (&"arg0".into(), &7.into()), "{first:#}");
                assert!(first["stored_by"].as_str().unwrap().starts_with("global_store_dword"), "{first:#}");
            }
            Way::Overwritten => {
                assert_eq!((&first["argument"], &first["index"]), (&"arg2".into(), &7.into()), "{first:#}");
            }
            Way::Race => assert!(first["findings"][0].as_str().unwrap().starts_with("race:"), "{first:#}"),
            Way::Fault => assert!(first["fault"].as_str().unwrap().contains("GPU fault"), "{first:#}"),
        }
    }
    // Where nothing is wrong, nothing is found.
    let right = planted.wrong(count as u32 + 1, Way::Once);
    for wanted in ["--bisect=difference", "--bisect=nan", "--bisect=inf", "--bisect=fault", "--bisect=race"] {
        let outcome = bisect(
            &planted.file,
            &[wanted, "--hsaco", right.to_str().unwrap(), "--tol", "arg0=f32", "--tol", "arg1=f32"],
        );
        assert!(outcome.status.success(), "{wanted}: {}", text(&outcome));
        assert_eq!(json(&outcome)["first"], Value::Null);
    }
}

#[test]
fn a_dispatch_that_computes_something_else_on_another_processor_is_found_and_code_that_does_not_run_there_is_refused() {
    let archs = harness::archs();
    // On hardware there is one.
    let [first, second, ..] = archs.as_slice() else { return };
    let (here, there) = (Planted::on(first, 12), Planted::on(second, 12));
    let against = |processor: &str, options: &[&str]| {
        bisect(&here.file, &[&["--bisect", "--against-processor", processor], options].concat())
    };
    let with = |step: u32, way| against(second, &["--hsaco", there.wrong(step, way).to_str().unwrap()]);
    let outcome = with(13, Way::Once);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let said = json(&outcome);
    assert_eq!((&said["first"], &said["aligned"], &said["other"]), (&Value::Null, &12.into(), &Value::from(&**second)));
    for (step, way, argument) in [(5, Way::Once, "arg0"), (9, Way::Overwritten, "arg2")] {
        let outcome = with(step, way);
        assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
        let first = json(&outcome)["first"].clone();
        assert_eq!(first["dispatch"], here.dispatch(step), "{first:#}");
        assert_eq!((&first["argument"], &first["index"]), (&argument.into(), &7.into()), "{first:#}");
        assert!(
            first["commands"][1].as_str().unwrap().ends_with(&format!("--against-processor {second}")),
            "{first:#}"
        );
    }
    let outcome = against(second, &[]);
    let said =
        format!("expected code that runs on {second} (--hsaco gives it), found the application's own for {first}");
    assert!(!outcome.status.success() && outcome.stderr.contains(&said), "{}", text(&outcome));
    let outcome = against("gfx1030", &[]);
    assert!(
        outcome.status.code() == Some(1) && outcome.stderr.contains("expected one that is emulated"),
        "{}",
        text(&outcome)
    );
    let options = ["--region", "--bisect", "--against-processor", second];
    let outcome = tool("verify", &here.file, &options);
    let said = "--against-processor: expected --backend emu: both processors are emulated";
    assert!(outcome.status.code() == Some(1) && outcome.stderr.contains(said), "{}", text(&outcome));
}

/// The processors that code for `gfx9-generic` runs on and that are emulated. Source: LLVM's `AMDGPUUsage`, "Generic Processors".
const FAMILY: [&str; 2] = ["gfx900", "gfx906"];

#[test]
fn code_for_a_family_of_processors_is_compared_on_those_of_it_and_refused_on_another() {
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    let run = Run::new(built("omniprobe"));
    let object = harness::opencl_object(&source, "gfx9-generic", 19, 3, 6, "-nogpulib");
    let on = |arch: &str, code: &[u8], options: &[&str]| {
        let mut story = Story::on(arch);
        story.checkpoints.clear();
        let path = run.file("family.hsaco");
        fs::write(&path, code).unwrap();
        let named = format!("increment={}", path.display());
        bisect(&story.write(&run.file("a.ldcap")), &[&["--bisect", "--hsaco", &named], options].concat())
    };
    let right = fs::read(&object).unwrap();
    let wrong = adds_two(right.clone());
    for arch in harness::archs() {
        if !FAMILY.contains(&&*arch) {
            let outcome = on(&arch, &right, &[]);
            assert!(!outcome.status.success() && outcome.stderr.contains("gfx9-generic"), "{arch}: {}", text(&outcome));
            continue;
        }
        let outcome = on(&arch, &right, &[]);
        assert!(outcome.status.success(), "{arch}: {}", text(&outcome));
        let outcome = on(&arch, &wrong, &[]);
        assert_eq!(outcome.status.code(), Some(6), "{arch}: {}", text(&outcome));
        assert_eq!(json(&outcome)["first"]["dispatch"], 11, "{arch}: {}", text(&outcome));
    }
}

/// Other code, of which `increment` adds 2.
pub(super) fn adds_two(mut code: Vec<u8>) -> Vec<u8> {
    let adds_one = |word: u32| word >> 25 == 52 && word & 0x1ff == 129;
    // Other kernels of the file do not run, or add in another way.
    let words = code.as_chunks_mut::<4>().0.iter_mut().filter(|word| adds_one(u32::from_le_bytes(**word)));
    words.for_each(|word| word[0] += 1);
    code
}

#[test]
fn code_for_a_family_of_processors_is_compared_between_two_of_them_and_refused_on_one_of_another_family() {
    // On hardware there is one.
    if harness::on_hardware() {
        return;
    }
    let source = harness::root().join("tests/programs/opencl/bare.cl");
    let run = Run::new(built("omniprobe"));
    // LLVM's `AMDGPUUsage`, "Generic Processors"; clang 19 does not know the second family.
    for (family, clang, here, there) in
        [("gfx9-generic", 19, "gfx906", "gfx900"), ("gfx9-4-generic", 22, "gfx942", "gfx950")]
    {
        let code = fs::read(harness::opencl_object(&source, family, clang, 3, 6, "-nogpulib")).unwrap();
        let wrong = run.file("wrong.hsaco");
        fs::write(&wrong, adds_two(code.clone())).unwrap();
        let mut story = Story::of(here, code);
        story.checkpoints.clear();
        let file = story.write(&run.file("a.ldcap"));
        let against = |processor: &str, options: &[&str]| {
            let bisect = ["--region", "--bisect", "--backend", "emu", "--json", "--against-processor", processor];
            on_file(Run::new(built("omniprobe")), "verify", &file, here, &[&bisect, options].concat())
        };
        // What the application has loaded runs on both.
        let outcome = against(there, &[]);
        assert!(outcome.status.success(), "{family}: {}", text(&outcome));
        let said = json(&outcome);
        assert_eq!((&said["first"], &said["aligned"], &said["other"]), (&Value::Null, &4.into(), &there.into()));
        assert!(said["isa"].as_str().unwrap().contains(here), "{said:#}");
        let outcome = against(there, &["--hsaco", &format!("increment={}", wrong.display())]);
        assert_eq!(outcome.status.code(), Some(6), "{family}: {}", text(&outcome));
        let first = json(&outcome)["first"].clone();
        assert_eq!((&first["dispatch"], &first["index"]), (&11.into(), &0.into()), "{first:#}");
        assert_eq!((&first["expected"], &first["found"]), (&"2".into(), &"1".into()), "{first:#}");
        let outcome = against("gfx90a", &[]);
        let said =
            format!("expected code that runs on gfx90a (--hsaco gives it), found the application's own for {family}");
        assert!(!outcome.status.success() && outcome.stderr.contains(&said), "{family}: {}", text(&outcome));
        // Code for that processor, in the place of what has instructions that it lacks.
        let other = harness::opencl_object(&source, "gfx90a", 19, 3, 5, "-nogpulib");
        let outcome = against("gfx90a", &["--hsaco", other.to_str().unwrap()]);
        assert!(outcome.status.success(), "{family}: {}", text(&outcome));
        assert_eq!((&json(&outcome)["aligned"], &json(&outcome)["other"]), (&4.into(), &"gfx90a".into()));
    }
}

#[test]
fn a_dispatch_that_computes_something_else_than_in_another_capture_is_found_whatever_its_addresses_and_neighbours_are()
{
    let run = Run::new(built("omniprobe"));
    let mut good = Story::new();
    good.checkpoints.clear();
    let good_file = good.write(&run.file("good.ldcap"));
    // The same, but for one dispatch more.
    let mut same = good.clone();
    same.steps.insert(4, super::region::step(Does::Kernel("tally", CODE, super::region::C + 4), Vec::new()));
    same.steps[5].delta = Vec::new();
    same.steps[4].delta = good.steps[4].delta.clone();
    same.after = None;
    let same_file = same.write(&run.file("same.ldcap"));
    let against = |file: &Path, other: &Path| bisect(file, &["--bisect", "--against", other.to_str().unwrap()]);
    let outcome = against(&good_file, &good_file);
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert_eq!((&json(&outcome)["first"], &json(&outcome)["aligned"]), (&Value::Null, &4.into()));
    // Another kernel: it adds 2.
    let mut bad = good.clone();
    let adds_one = |w: u32| w >> 25 == 52 && w & 0x1ff == 129;
    let at = bad.code.as_chunks::<4>().0.iter().position(|w| adds_one(u32::from_le_bytes(*w))).unwrap();
    bad.code[4 * at] += 1;
    bad.after = None;
    let bad_file = bad.write(&run.file("bad.ldcap"));
    let outcome = against(&bad_file, &good_file);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = &json(&outcome)["first"];
    assert_eq!((&first["dispatch"], &first["argument"], &first["index"]), (&11.into(), &"arg0".into(), &0.into()));
    assert_eq!((&first["expected"], &first["found"]), (&"0x00000001".into(), &"0x00000002".into()), "{first:#}");
    assert_eq!(first["partner"]["dispatch"], 11);
    // What the host wrote otherwise is no kernel's error, and no dispatch is named.
    let mut host = good.clone();
    host.steps[3].delta = vec![(A + 403, vec![0xaa, 0xbb, 0xcd])];
    host.after = None;
    let host_file = host.write(&run.file("host.ldcap"));
    let outcome = against(&host_file, &good_file);
    assert_eq!(outcome.status.code(), Some(10), "{}", text(&outcome));
    let said = json(&outcome);
    assert_eq!(said["first"], Value::Null);
    assert!(said["unproven"].as_str().unwrap().contains("was "), "{said:#}");
    // A dispatch without a partner is passed over; what it changed is not the others'.
    let outcome = against(&same_file, &good_file);
    let said = json(&outcome);
    assert_eq!((&said["first"], &said["aligned"]), (&Value::Null, &4.into()), "{said:#}");
}

/// A region of the program `ranged`, from its first kernel to its last.
fn ranged(launches: &[&str], options: &[&str]) -> (Run, PathBuf) {
    let keep = Run::new(built("omniprobe"));
    let file = keep.file("run.ldcap");
    let all: u32 = launches.iter().map(|count| count.parse::<u32>().unwrap()).sum();
    let region = format!("kernel:^layer_of$@1..kernel:^layer_of$@{all}");
    let capture = ["--capture", file.to_str().unwrap(), "--capture-region", &region, "-l", "/dev/null"];
    Run::hip("ranged").args(launches).probed(&[&capture[..], options].concat()).passed();
    (keep, file)
}

/// The ranges of the dispatches of the program `ranged`, and their numbers.
fn ranges(file: &Path) -> (Vec<String>, Vec<u64>) {
    let reader = Reader::open(file).unwrap();
    let records = reader.records();
    let is_ours = |kernel: u64| records.kernels.iter().any(|known| known.id == kernel && known.symbol == "layer_of");
    let steps = records.steps.iter().filter(|step| step.dispatch.as_ref().is_some_and(|d| is_ours(d.kernel)));
    steps.map(|step| (step.ranges.join("/"), step.dispatch.as_ref().unwrap().id)).unzip()
}

#[test]
fn dispatches_of_two_builds_are_aligned_by_the_ranges_that_they_were_launched_in() {
    let (keep, ours) = ranged(&["2", "1", "1"], &["--markers"]);
    let (_keep, theirs) = ranged(&["1", "1", "1"], &["--markers"]);
    let of = |layers: &[u32]| layers.iter().map(|layer| format!("step/layer {layer}")).collect::<Vec<_>>();
    let ((our_ranges, ids), (their_ranges, their_ids)) = (ranges(&ours), ranges(&theirs));
    assert_eq!((our_ranges, their_ranges), (of(&[0, 0, 1, 2]), of(&[0, 1, 2])));
    let against = |ours: &Path, theirs: &Path, options: &[&str]| {
        bisect(ours, &[&["--bisect", "--against", theirs.to_str().unwrap()], options].concat())
    };
    let outcome = against(&ours, &theirs, &[]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    let said = json(&outcome);
    assert_eq!((&said["aligned"], &said["by_ranges"], &said["first"]), (&3.into(), &true.into(), &Value::Null));
    // Wrong in the layer 1, of which the two have other dispatches.
    let reader = Reader::open(&ours).unwrap();
    let literal = 0x5eed_0003u32.to_le_bytes();
    let code = reader.records().code_objects.iter().map(|code| reader.code_object(code.id).unwrap());
    let places = |code: &[u8]| (0..code.len() - 3).filter(|at| code[*at..*at + 4] == literal).collect::<Vec<_>>();
    let mut code = code.into_iter().find(|code| !places(code).is_empty()).unwrap();
    places(&code).into_iter().for_each(|at| code[at..at + 4].copy_from_slice(&1u32.to_le_bytes()));
    let wrong = keep.file("wrong.hsaco");
    fs::write(&wrong, code).unwrap();
    let outcome = against(&ours, &theirs, &["--hsaco", &format!("layer_of={}", wrong.display())]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    let first = json(&outcome)["first"].clone();
    assert_eq!((&first["dispatch"], &first["index"]), (&ids[2].into(), &9.into()), "{first:#}");
    assert_eq!(first["partner"]["dispatch"], their_ids[1], "{first:#}");
    // Without ranges, the names of kernels say too little.
    let (_keep, bare) = ranged(&["1", "1", "1"], &[]);
    assert_eq!(ranges(&bare).0, [""; 3]);
    let outcome = against(&ours, &bare, &[]);
    let said = json(&outcome);
    assert_eq!((outcome.status.code(), &said["by_ranges"]), (Some(10), &false.into()), "{said:#}");
}

#[test]
fn what_a_kernel_declares_says_where_floats_are_in_memory_that_held_other_types_before() {
    let program = Run::hip("reused");
    let run = Run::new(built("omniprobe"));
    let file = run.file("run.ldcap");
    let region = "kernel:^pack@1..kernel:^sum@1";
    let options = ["--capture", file.to_str().unwrap(), "--capture-region", region, "-l", "/dev/null"];
    program.probed(&options).passed();
    let reader = Reader::open(&file).unwrap();
    let dispatches = reader.records().steps.iter().filter_map(|step| step.dispatch.as_ref());
    let ids: Vec<u64> = dispatches.map(|dispatch| dispatch.id).collect();
    assert_eq!(ids.len(), 4);
    // Right as it was captured: the bytes that the shared memory holds first are no floats.
    let outcome = bisect(&file, &["--bisect=nan"]);
    assert!(outcome.status.success(), "{}", text(&outcome));
    assert!(json(&outcome)["qualified"].to_string().contains("1 dispatches do not declare"), "{}", text(&outcome));
    // A file that has two of the four kernels.
    let wrong = harness::hip_object("reused", &harness::arch(), "-O3 -DWRONG");
    let hsaco = wrong.to_str().unwrap();
    for (wanted, expected) in [("--bisect=nan", None), ("--bisect", Some("2.5"))] {
        let outcome = bisect(&file, &[wanted, "--hsaco", hsaco]);
        assert_eq!(outcome.status.code(), Some(6), "{wanted}: {}", text(&outcome));
        let first = json(&outcome)["first"].clone();
        assert_eq!((&first["dispatch"], &first["argument"]), (&ids[2].into(), &"arg0".into()), "{first:#}");
        assert_eq!((&first["index"], &first["found"]), (&5.into(), &"NaN".into()), "{first:#}");
        if let Some(expected) = expected {
            assert_eq!(first["expected"], expected, "{first:#}");
        }
    }
    let outcome = tool("verify", &file, &["--region", "--backend", "emu", "--hsaco", hsaco]);
    assert_eq!(outcome.status.code(), Some(6), "{}", text(&outcome));
    assert_eq!(outcome.stdout.matches(" replaced by ").count(), 2, "{}", text(&outcome));
    // One that has none of them.
    let other = harness::hip_object("mutants", &harness::arch(), "-O3");
    let outcome = bisect(&file, &["--bisect", "--hsaco", other.to_str().unwrap()]);
    assert_eq!(outcome.status.code(), Some(7), "{}", text(&outcome));
    assert!(outcome.stderr.contains("is not replaced: ") && outcome.stderr.contains("no kernel of this name"));
}

#[test]
fn a_word_that_is_no_check_is_refused_with_those_that_are() {
    let run = Run::new(built("omniprobe"));
    let file = Story::new().write(&run.file("a.ldcap"));
    let outcome = tool("verify", &file, &["--region", "--backend", "emu", "--bisect=nana"]);
    let said = "expected one of difference, nan, inf, fault, memory, init, race, wait, hazard, barrier";
    assert!(outcome.status.code() == Some(1) && outcome.stderr.contains(said), "{}", text(&outcome));
    let outcome = tool("verify", &file, &["--backend", "emu", "--bisect=nan"]);
    assert!(!outcome.status.success() && outcome.stderr.contains("--region"), "{}", text(&outcome));
}
