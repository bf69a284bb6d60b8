//! Which of several kernels runs.

use std::process::Command;

use amdgpu_code_object::Target;
use logdur_kernel_cache::{Decision, Hash, Modules, Pick, Reason};

use crate::compiled::{Build, SCALE, run};
use crate::folders::Harness;

const FASTER: Build = SCALE.options("-O3 -DREGISTERS");
const LARGER: Build = SCALE.options("-O3 -DLDS=256");
const MORE: Build = SCALE.options("-O3 -DCOUNT");

/// What is decided about [`SCALE`]'s kernel on an agent.
fn decided(harness: &Harness, agent: Option<&str>, pick: Option<&str>) -> Decision {
    let agent = agent.map(|id| Target::parse(id).expect("a target ID"));
    let pick = pick.map(|text| text.parse::<Pick>().expect("a choice"));
    harness.open().decide(&SCALE.kernel("scale"), &SCALE.hash(), Modules::default(), agent.as_ref(), pick.as_ref())
}

fn swapped_to(decision: &Decision) -> Hash {
    match decision {
        Decision::Swap { choice, .. } => choice.hash,
        other => panic!("expected a swap, found {other:?}"),
    }
}

fn listed(decision: &Decision) -> (&'static str, Vec<Hash>) {
    match decision {
        Decision::Running(choices) => ("running", choices.iter().map(|c| c.hash).collect()),
        Decision::Several(choices) => ("several", choices.iter().map(|c| c.hash).collect()),
        other => panic!("expected a list, found {other:?}"),
    }
}

fn refused(decision: &Decision) -> Vec<(String, Vec<Reason>)> {
    let Decision::Refused(list) = decision else { panic!("expected refusals, found {decision:?}") };
    let name = |path: &std::path::Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    list.iter().map(|(c, refusals)| (name(&c.path), refusals.iter().map(|r| r.reason).collect())).collect()
}

#[test]
fn the_only_kernel_that_fits_takes_the_place_however_often_it_is_there() {
    let harness = Harness::new();
    assert_eq!(decided(&harness, None, None), Decision::Nothing);
    harness.put("faster.co", &FASTER.bytes(), 3600);
    harness.put("more.co", &MORE.bytes(), 3600);
    assert_eq!(swapped_to(&decided(&harness, None, None)), FASTER.hash());
    harness.put("copy/faster.co", &FASTER.bytes(), 1800);
    let decision = decided(&harness, Some("amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"), None);
    let Decision::Swap { choice, swap } = decision else { panic!("a swap") };
    assert!(choice.candidate.path.ends_with("copy/faster.co"), "the newest copy stands for both");
    assert_eq!(swap.accepted.iter().map(|a| a.name).collect::<Vec<_>>(), ["registers"]);
}

#[test]
fn several_that_differ_are_listed_until_the_user_chooses() {
    let harness = Harness::new();
    harness.put("a.co", &FASTER.bytes(), 1800);
    harness.put("b.co", &LARGER.bytes(), 3600);
    let (faster, larger) = (FASTER.hash(), LARGER.hash());
    assert_eq!(listed(&decided(&harness, None, None)), ("several", vec![faster, larger]));
    assert_eq!(swapped_to(&decided(&harness, None, Some("newest"))), faster);
    assert_eq!(swapped_to(&decided(&harness, None, Some(&larger.short()))), larger);
    assert_eq!(swapped_to(&decided(&harness, None, Some(&format!("0000,{larger}")))), larger);
    let both = format!("{},{}", larger.short(), faster.short());
    for no_choice in ["0000", &both] {
        assert_eq!(listed(&decided(&harness, None, Some(no_choice))), ("several", vec![faster, larger]));
    }
}

#[test]
fn of_equally_old_files_the_last_by_path_is_the_newest() {
    let harness = Harness::new();
    let (a, b) = (harness.put("a.co", &FASTER.bytes(), 0), harness.put("b.co", &LARGER.bytes(), 0));
    let time = std::fs::metadata(&a).and_then(|d| d.modified()).expect("a time");
    std::fs::File::options().write(true).open(b).and_then(|f| f.set_modified(time)).expect("its time can be set");
    assert_eq!(swapped_to(&decided(&harness, None, Some("newest"))), LARGER.hash());
}

#[test]
fn what_runs_goes_on_running_when_it_is_in_the_cache_unless_another_is_chosen() {
    let harness = Harness::new();
    harness.put("application", &SCALE.bytes(), 1800);
    assert_eq!(listed(&decided(&harness, None, None)), ("running", vec![SCALE.hash()]));
    harness.put("faster.co", &FASTER.bytes(), 3600);
    let both = vec![SCALE.hash(), FASTER.hash()];
    assert_eq!(listed(&decided(&harness, None, None)), ("running", both.clone()));
    // The application's own is the newest.
    assert_eq!(listed(&decided(&harness, None, Some("newest"))), ("running", both));
    assert_eq!(swapped_to(&decided(&harness, None, Some(&FASTER.hash().short()))), FASTER.hash());
    harness.put("faster.co", &FASTER.bytes(), 900);
    assert_eq!(swapped_to(&decided(&harness, None, Some("newest"))), FASTER.hash());
}

#[test]
fn every_reason_of_every_candidate_is_told_and_other_processors_only_when_there_is_nothing_else() {
    let harness = Harness::new();
    harness.put("other.co", &SCALE.target("gfx906").bytes(), 3600);
    assert_eq!(refused(&decided(&harness, None, None)), [("other.co".to_owned(), vec![Reason::Processor])]);
    harness.put("more.co", &MORE.bytes(), 3600);
    harness.put("hidden.co", &SCALE.options("-O3 -DHIDDEN=80 -DFACTOR=double").bytes(), 3600);
    let expected = [
        ("hidden.co".to_owned(), vec![Reason::Argument, Reason::HiddenArgument]),
        ("more.co".to_owned(), vec![Reason::ArgumentCount]),
    ];
    assert_eq!(refused(&decided(&harness, None, None)), expected);
}

#[test]
fn the_agents_settings_decide_where_the_code_is_right_for_both() {
    let harness = Harness::new();
    harness.put("on.co", &SCALE.target("gfx90a:xnack+").bytes(), 3600);
    let on = SCALE.target("gfx90a:xnack+").hash();
    assert_eq!(swapped_to(&decided(&harness, None, None)), on);
    assert_eq!(swapped_to(&decided(&harness, Some("gfx90a:sramecc+:xnack+"), None)), on);
    let decision = decided(&harness, Some("gfx90a:sramecc+:xnack-"), None);
    assert_eq!(refused(&decision), [("on.co".to_owned(), vec![Reason::Xnack])]);
}

#[test]
fn of_one_bundle_the_code_that_is_made_most_closely_for_the_agent_is_taken() {
    let harness = Harness::new();
    let own = LARGER.target("gfx906").abi(19, 6);
    let family = FASTER.target("gfx9-generic").abi(19, 6);
    let mut command = Command::new("clang-offload-bundler-19");
    let ids = [own, family].map(|build| format!("hipv4-amdgcn-amd-amdhsa--{}", build.target)).join(",");
    command.args(["--type=o", "--input=/dev/null"]).arg(format!("--targets=host-x86_64-unknown-linux-gnu-,{ids}"));
    command.args([own, family].map(|build| format!("--input={}", build.path().display())));
    run(command.arg(format!("--output={}", harness.root.join("both.co").display())));
    let original = SCALE.target("gfx906").abi(19, 6);
    let decide = || harness.open().decide(&original.kernel("scale"), &original.hash(), Modules::default(), None, None);
    assert_eq!(swapped_to(&decide()), own.hash());
    // In files of their own they are two kernels like any.
    harness.put("family.co", &family.bytes(), 3600);
    assert_eq!(listed(&decide()).0, "several");
}
