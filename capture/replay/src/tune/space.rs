//! Which configurations there are.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::parameter::{CAPTURED, OUT, Parameter, Shape};
use super::{Sizes, Template};
use crate::error::{ReplayError, Result};
use crate::stats::Random;

/// The most configurations of a search.
const MOST: u64 = 1 << 20;

/// What becomes of the grid when only the workgroup changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The number of work-items stays; it is rounded up to whole workgroups when the kernel demands those.
    #[default]
    Items,
    /// The number of workgroups stays: for kernels whose work-items go on in a loop until all is done.
    Groups,
}

impl FromStr for Keep {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Keep, String> {
        match text {
            "items" => Ok(Keep::Items),
            "groups" => Ok(Keep::Groups),
            _ => Err(format!("expected items or groups, found {text:?}")),
        }
    }
}

impl fmt::Display for Keep {
    /// The rule, in words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Keep::Items => {
                "the number of work-items stays, rounded up to whole workgroups where the kernel demands them"
            }
            Keep::Groups => "the number of workgroups stays",
        })
    }
}

impl Keep {
    /// The grid for another workgroup. `uniform` is true for kernels that demand whole workgroups.
    pub(super) fn grid(
        self,
        captured: Sizes,
        workgroup: [u32; 3],
        uniform: bool,
    ) -> std::result::Result<[u32; 3], String> {
        let mut grid = captured.grid;
        for ((side, was), now) in grid.iter_mut().zip(captured.workgroup).zip(workgroup) {
            let groups = |items: u32, group: u32| u64::from(items).div_ceil(u64::from(group.max(1)));
            let items = match self {
                Keep::Items if uniform => groups(*side, now) * u64::from(now),
                Keep::Items => u64::from(*side),
                Keep::Groups => groups(*side, was) * u64::from(now),
            };
            *side = u32::try_from(items)
                .map_err(|_| format!("the grid: expected at most {} work-items, found {items}", u32::MAX))?;
        }
        Ok(grid)
    }
}

/// Where a configuration's code comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// What ran in the application.
    Captured,
    /// A file.
    File(PathBuf),
    /// The template.
    Compiled,
}

/// What may be chosen.
#[derive(Clone, Debug, Default)]
pub struct Space {
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Workgroups; the captured one when there are none.
    pub workgroups: Vec<Shape>,
    /// Grids; when there are none, [`Keep`] says which.
    pub grids: Vec<Shape>,
    /// What becomes of the grid.
    pub keep: Keep,
    /// Code that is there.
    pub files: Vec<PathBuf>,
    /// True when the captured code is not to be among the files.
    pub no_original: bool,
    /// Code that is made. The captured code then runs only as it was captured.
    pub compile: Option<Template>,
    /// How many configurations are drawn; `None` for all.
    pub random: Option<u64>,
    /// What they are drawn by.
    pub seed: u64,
}

/// What was chosen for a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice<'s> {
    /// Parameters and their values.
    pub values: Vec<(&'s str, &'s str)>,
    /// The workgroup; `None` for the captured one.
    pub workgroup: Option<&'s Shape>,
    /// The grid; `None` for what [`Keep`] says.
    pub grid: Option<&'s Shape>,
    /// The code.
    pub code: Origin,
}

impl Space {
    /// Every choice, or as many as are drawn: the last parameter changes first, then codes, then workgroups, then grids.
    ///
    /// # Errors
    /// When there is nothing to choose, a name is used and not given, or given and not used, or there are too many.
    pub fn choices(&self) -> Result<Vec<Choice<'_>>> {
        self.check_names()?;
        let codes = self.codes();
        let refuse =
            |what: &str, expected: String, found: String| ReplayError::Usage { what: what.to_owned(), expected, found };
        if codes.is_empty() {
            return Err(refuse("--no-original", "other code, by --hsaco-dir".to_owned(), "none".to_owned()));
        }
        if self.parameters.is_empty()
            && self.workgroups.is_empty()
            && self.grids.is_empty()
            && codes == [Origin::Captured]
        {
            let expected = "something to choose, by --workgroup, --grid, --param, --hsaco-dir or --compile";
            return Err(refuse("tune", expected.to_owned(), "nothing".to_owned()));
        }
        // One digit each of a number that counts choices.
        let mut sizes = vec![self.grids.len().max(1), self.workgroups.len().max(1), codes.len()];
        sizes.extend(self.parameters.iter().map(|p| p.values.len()));
        let total = sizes.iter().try_fold(1u64, |total, size| total.checked_mul(*size as u64));
        let wanted = self.random.or(total).filter(|wanted| *wanted <= MOST);
        let (Some(total), Some(wanted)) = (total, wanted) else {
            let found = self.random.or(total).map_or("more than can be counted".to_owned(), |n| n.to_string());
            return Err(refuse("configurations", format!("at most {MOST}, for example by --random"), found));
        };
        let numbers = if wanted < total { drawn(wanted, total, self.seed) } else { (0..total).collect() };
        Ok(numbers.into_iter().map(|number| self.choice(number, &sizes, &codes)).collect())
    }

    fn choice(&self, mut number: u64, sizes: &[usize], codes: &[Origin]) -> Choice<'_> {
        let mut digits = Vec::new();
        for size in sizes.iter().rev() {
            digits.push((number % *size as u64) as usize);
            number /= *size as u64;
        }
        let mut digits = digits.into_iter().rev();
        let mut digit = || digits.next().unwrap_or_default();
        let (grid, workgroup, code) = (digit(), digit(), digit());
        let values = self.parameters.iter().map(|p| (&*p.name, p.values.get(digit()).map_or("", |v| v)));
        Choice {
            values: values.collect(),
            workgroup: self.workgroups.get(workgroup),
            grid: self.grids.get(grid),
            code: codes.get(code).cloned().unwrap_or(Origin::Captured),
        }
    }

    fn codes(&self) -> Vec<Origin> {
        let original = (!self.no_original && self.compile.is_none()).then_some(Origin::Captured);
        let compiled = self.compile.as_ref().map(|_| Origin::Compiled);
        original.into_iter().chain(self.files.iter().cloned().map(Origin::File)).chain(compiled).collect()
    }

    fn check_names(&self) -> Result<()> {
        let shapes = self.workgroups.iter().chain(&self.grids).flat_map(Shape::names);
        let used: BTreeSet<&str> = shapes.chain(self.compile.iter().flat_map(Template::names)).collect();
        let given: Vec<&str> = self.parameters.iter().map(|p| &*p.name).collect();
        let is_known = |name: &&str| given.contains(name) || CAPTURED.contains(name) || *name == OUT;
        let refuse = |what: String, expected: String, found: &str| {
            Err(ReplayError::Usage { what, expected, found: found.to_owned() })
        };
        if let Some(unknown) = used.iter().find(|name| !is_known(name)) {
            return refuse(format!("{{{unknown}}}"), format!("a --param {unknown}=..."), "none");
        }
        if let Some(unused) = given.iter().find(|name| !used.contains(*name)) {
            let expected = format!("{{{unused}}} in --workgroup, --grid or --compile");
            return refuse(format!("--param {unused}"), expected, "it nowhere");
        }
        if let Some((_, twice)) = given.iter().enumerate().find(|(i, name)| given.iter().take(*i).any(|g| g == *name)) {
            return refuse(format!("--param {twice}"), "it once, with all values".to_owned(), "it twice");
        }
        Ok(())
    }
}

/// So many different numbers below `total`, each choice of them as likely: R. Floyd's algorithm (J. Bentley, Communications of
/// the ACM 30, 1987).
fn drawn(wanted: u64, total: u64, seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let (mut numbers, mut seen) = (Vec::new(), BTreeSet::new());
    for last in total - wanted..total {
        let number = random.below(last + 1);
        let number = if seen.contains(&number) { last } else { number };
        seen.insert(number);
        numbers.push(number);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(parameters: &[&str], workgroups: &[&str]) -> Space {
        Space {
            parameters: parameters.iter().map(|p| p.parse().unwrap()).collect(),
            workgroups: workgroups.iter().map(|w| w.parse().unwrap()).collect(),
            ..Space::default()
        }
    }

    fn error(space: &Space) -> String {
        space.choices().unwrap_err().to_string()
    }

    #[test]
    fn all_choices_are_the_product_of_what_may_be_chosen() {
        let space = space(&["a=1,2,3", "b=x,y"], &["{a}", "64,{b}"]);
        let choices = space.choices().unwrap();
        assert_eq!(choices.len(), 12);
        assert_eq!(choices[1].values, [("a", "1"), ("b", "y")]);
        assert_eq!(choices[11].workgroup, Some(&space.workgroups[1]));
        let different: BTreeSet<String> = choices.iter().map(|c| format!("{c:?}")).collect();
        assert_eq!(different.len(), 12);
    }

    #[test]
    fn drawn_choices_are_different_and_the_same_for_a_seed() {
        let drawn = |random, seed| {
            let space = Space { random: Some(random), seed, ..space(&["a=1..100", "b=1..100"], &["{a},{b}"]) };
            space.choices().unwrap().iter().map(|c| format!("{:?}", c.values)).collect::<Vec<_>>()
        };
        let first = drawn(5000, 1);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 5000);
        assert_eq!(first, drawn(5000, 1));
        assert_ne!(first, drawn(5000, 2));
        assert_eq!(drawn(20_000, 1).len(), 10_000);
        // Each number is drawn about as often.
        let mut counts = [0; 10];
        (0..2000).for_each(|seed| super::drawn(3, 10, seed).iter().for_each(|n| counts[*n as usize] += 1));
        assert!(counts.iter().all(|n| (520..680).contains(n)), "{counts:?}");
    }

    #[test]
    fn names_that_do_not_meet_are_errors() {
        assert_eq!(error(&space(&[], &["{a}"])), "{a}: expected a --param a=..., found none");
        assert!(error(&space(&["a=1"], &["64"])).ends_with("found it nowhere"));
        assert!(error(&space(&["a=1", "a=2"], &["{a}"])).ends_with("found it twice"));
        assert!(space(&[], &["{workgroup_x}*2"]).choices().is_ok());
    }

    #[test]
    fn nothing_to_choose_and_too_much_are_errors() {
        assert!(error(&space(&[], &[])).starts_with("tune: expected something to choose"));
        let many = ["a=1..60000", "b=1..60000", "c=1..60000", "d=1..60000"];
        assert!(error(&space(&many, &["{a}*{b}*{c}*{d}"])).contains("more than can be counted") || many.len() == 4);
        assert!(error(&space(&many[..2], &["{a}*{b}"])).contains("found 3600000000"));
        let none = Space { no_original: true, ..space(&[], &["64"]) };
        assert!(error(&none).starts_with("--no-original: expected other code"));
    }

    #[test]
    fn what_is_compiled_takes_the_place_of_the_captured_code_and_files_stand_beside_it() {
        let mut space = Space { compile: Some("cc {a} {out}".parse().unwrap()), ..space(&["a=1"], &[]) };
        let codes = |space: &Space| space.choices().unwrap().into_iter().map(|c| c.code).collect::<Vec<_>>();
        assert_eq!(codes(&space), [Origin::Compiled]);
        space = Space { files: vec!["x".into()], ..Space::default() };
        assert_eq!(codes(&space), [Origin::Captured, Origin::File("x".into())]);
        space.no_original = true;
        assert_eq!(codes(&space), [Origin::File("x".into())]);
    }

    #[test]
    fn grids_follow_workgroups_by_the_rule_that_was_chosen() {
        let captured = Sizes { grid: [1000, 4, 1], workgroup: [256, 1, 1] };
        assert_eq!(Keep::Items.grid(captured, [64, 1, 1], false), Ok([1000, 4, 1]));
        assert_eq!(Keep::Items.grid(captured, [64, 3, 1], true), Ok([1024, 6, 1]));
        assert_eq!(Keep::Groups.grid(captured, [64, 1, 1], false), Ok([256, 4, 1]));
        let large = Sizes { grid: [u32::MAX, 1, 1], workgroup: [1, 1, 1] };
        assert!(Keep::Groups.grid(large, [2, 1, 1], false).unwrap_err().starts_with("the grid: expected at most"));
    }
}
