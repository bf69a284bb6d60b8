//! The check of races against a model of its own: random dispatches, of which all races are known.

mod model;
mod program;
mod rig;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use amdgpu_emu::Arch;
use amdgpu_emu::isa::access::Space;
use logdur_observe::heat::Region;
use logdur_observe::{Check, Sample, Session, Wanted};

use model::{Dword, Model, Pair};
use program::{Action, Dispatch, Does, wave_of};
use rig::{DATA, Recorded, run};

/// Dispatches of a sample. `LOGDUR_TEST_RACES` is another number.
const DISPATCHES: u64 = 300;
const LDS: u32 = 64;

/// The races that the check finds: of each dword the pairs of instructions.
fn found(dispatch: &Dispatch, seed: u32) -> (BTreeMap<Dword, BTreeSet<Pair>>, Vec<rig::Event>) {
    let wanted = Wanted { analyses: Vec::new(), checks: vec![Check::Race], page: None };
    let region = Region { name: "data".to_owned(), range: DATA..DATA + 4096 };
    let events = Arc::new(Mutex::default());
    let session = Session::new(Arch::Gfx90a, wanted, Sample::All, vec![region], Vec::new());
    let recorded = Arc::new(Recorded { inner: session, events: events.clone() });
    run(&dispatch.code, dispatch.groups, dispatch.waves, LDS, seed, recorded.clone());
    let seen = recorded.inner.take();
    let mut all = BTreeMap::<Dword, BTreeSet<Pair>>::new();
    for (key, finding) in &seen.findings.all {
        let lds = finding
            .detail
            .strip_prefix("byte ")
            .and_then(|text| text.split(' ').next())
            .map(|n| n.parse::<u64>().unwrap());
        let place = match (finding.address, lds) {
            (Some(address), _) => (None, address - DATA),
            (None, Some(byte)) => (Some(finding.place.group), byte),
            (None, None) => panic!("{key:?} {finding:?}"),
        };
        let other = key.other.unwrap();
        all.entry((place.0, place.1 / 4 * 4)).or_default().insert((key.pc.min(other), key.pc.max(other)));
    }
    let events = std::mem::take(&mut *events.lock().unwrap());
    (all, events)
}

/// Compares what the check finds with what there is, of an order of execution. Returns the places of races.
fn compare(dispatch: &Dispatch, seed: u64) -> BTreeSet<Dword> {
    let (found, events) = found(dispatch, seed as u32);
    let expected = Model::new(dispatch).races(&events);
    let places = |all: &BTreeMap<Dword, BTreeSet<Pair>>| all.keys().copied().collect::<BTreeSet<_>>();
    let told = || {
        let of_wave = |(n, program): (usize, &program::Program)| format!("wave {n}: {program:x?}\n");
        let programs: String = dispatch.programs.iter().enumerate().map(of_wave).collect();
        format!("seed {seed}, {} waves each\n{programs}found {found:x?}\nexpected {expected:x?}", dispatch.waves)
    };
    assert_eq!(places(&found), places(&expected), "{}", told());
    // Of a wave's accesses, the first one may be told for a later one.
    let waves = |pairs: &BTreeSet<Pair>| pairs.iter().map(|(a, b)| (wave_of(*a), wave_of(*b))).collect::<BTreeSet<_>>();
    for (place, pairs) in &found {
        assert!(waves(pairs).is_subset(&waves(&expected[place])), "{place:x?}: {}", told());
    }
    places(&expected)
}

#[test]
fn the_check_finds_the_races_of_random_dispatches_and_no_others() {
    let dispatches = std::env::var("LOGDUR_TEST_RACES").ok().map_or(DISPATCHES, |count| count.parse().unwrap());
    let (mut racing, mut dwords) = (0, 0);
    for seed in 1..=dispatches {
        let races = compare(&Dispatch::random(seed), seed);
        racing += u64::from(!races.is_empty());
        dwords += races.len();
    }
    println!("{dispatches} dispatches, {racing} of them with races, {dwords} dwords");
    assert!(racing > dispatches / 4 && racing < dispatches - dispatches / 20, "{racing} of {dispatches}");
}

#[test]
fn a_read_of_what_the_wave_wrote_itself_is_no_race_with_the_same_value_and_one_before_that_is() {
    let access = |does, at, bytes, value| Action::Access { space: Space::Memory, does, at, bytes, value };
    let (reads, stores) = (access(Does::Reads, 12, 4, 0), access(Does::Stores, 12, 4, 7));
    let byte = [access(Does::Stores, 4, 4, 4), Action::Barrier, access(Does::Reads, 7, 1, 0)];
    let cases: [(u32, u32, [&[Action]; 2], bool); 4] = [
        (2, 1, [&[stores, reads, stores], &[stores]], false),
        (2, 1, [&[reads, stores, reads], &[stores]], true),
        (2, 1, [&[stores, reads], &[access(Does::Stores, 12, 4, 8)]], true),
        // Of dwords that differ, the byte that is read has the same value.
        (1, 2, [&[Action::Barrier, access(Does::Stores, 4, 4, 1)], &byte], false),
    ];
    for (groups, waves, programs, races) in cases {
        let dispatch = Dispatch::of(groups, waves, &programs.map(<[Action]>::to_vec));
        for seed in 1..=32 {
            assert_eq!(!compare(&dispatch, seed).is_empty(), races, "{programs:x?}");
        }
    }
}
