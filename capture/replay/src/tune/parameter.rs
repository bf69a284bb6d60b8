//! What may be chosen: parameters with their values, and shapes of grids and workgroups.

use std::str::FromStr;

use super::expression::{Expression, is_name};

/// The most values of one parameter.
const MOST: usize = 1 << 16;

/// Names that expressions have without being given: the captured dispatch's sizes, in work-items.
pub(crate) const CAPTURED: [&str; 6] = ["grid_x", "grid_y", "grid_z", "workgroup_x", "workgroup_y", "workgroup_z"];
/// The name of a compiler's output.
pub(super) const OUT: &str = "out";

/// A parameter: a name, and the values that it may have.
///
/// As text, `NAME=V1,V2,...`. A value may be a range of whole numbers, inclusive: `lo..hi`, in steps `lo..hi:step`, or
/// multiplied `lo..hi:*factor`. Values may be any text, even none; a comma in one is written `\,`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Letters, digits and underscores.
    pub name: String,
    /// Different ones, in the order that they were given in.
    pub values: Vec<String>,
}

impl FromStr for Parameter {
    type Err = String;

    fn from_str(text: &str) -> Result<Parameter, String> {
        let refuse = |expected: &str| format!("expected {expected}, found {text:?}");
        let (name, list) = text.split_once('=').ok_or_else(|| refuse("NAME=V1,V2,..."))?;
        if !is_name(name) {
            return Err(refuse("a name of letters, digits and underscores before ="));
        }
        if CAPTURED.contains(&name) || name == OUT {
            return Err(refuse(&format!("a name other than {}, {OUT}", CAPTURED.join(", "))));
        }
        let mut values: Vec<String> = Vec::new();
        for item in items(list) {
            let found = match range(&item) {
                Some(range) => range.map_err(|expected| refuse(&expected))?,
                None => vec![item],
            };
            if found.len() + values.len() > MOST {
                return Err(refuse(&format!("at most {MOST} values")));
            }
            values.extend(found);
        }
        let mut seen = std::collections::BTreeSet::new();
        values.retain(|value| seen.insert(value.clone()));
        Ok(Parameter { name: name.to_owned(), values })
    }
}

/// What is between commas that have no backslash before them.
fn items(list: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    let mut letters = list.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '\\' if letters.peek() == Some(&',') => {
                letters.next();
                items.last_mut().into_iter().for_each(|item| item.push(','));
            }
            ',' => items.push(String::new()),
            c => items.last_mut().into_iter().for_each(|item| item.push(c)),
        }
    }
    items
}

/// The numbers of a range; `None` when the text is none.
fn range(text: &str) -> Option<Result<Vec<String>, String>> {
    let (low, rest) = text.split_once("..")?;
    let (high, step) = rest.split_once(':').map_or((rest, None), |(high, step)| (high, Some(step)));
    let low: i64 = low.trim().parse().ok()?;
    let Ok(high) = high.trim().parse::<i64>() else {
        return Some(Err("a range lo..hi, lo..hi:step or lo..hi:*factor".to_owned()));
    };
    let factor = step.and_then(|step| step.trim().strip_prefix('*'));
    let number = |text: &str| text.trim().parse::<i64>().ok();
    let next: Box<dyn Fn(i64) -> Option<i64>> = match (factor, step) {
        (Some(factor), _) => match number(factor).filter(|factor| *factor >= 2 && low >= 1) {
            Some(factor) => Box::new(move |n| n.checked_mul(factor)),
            None => return Some(Err("a range from 1 or more, multiplied by 2 or more".to_owned())),
        },
        (None, Some(step)) => match number(step).filter(|step| *step >= 1) {
            Some(step) => Box::new(move |n| n.checked_add(step)),
            None => return Some(Err("a range in steps of 1 or more".to_owned())),
        },
        (None, None) => Box::new(|n| n.checked_add(1)),
    };
    if low > high {
        return Some(Err("a range from the smaller number to the larger one".to_owned()));
    }
    let numbers = std::iter::successors(Some(low), |n| next(*n)).take_while(|n| *n <= high);
    // One more than there may be tells that there are too many.
    Some(Ok(numbers.take(MOST + 1).map(|n| n.to_string()).collect()))
}

/// A grid or a workgroup in work-items, computed from parameters: `X[,Y[,Z]]`; what is not given is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape(Vec<Expression>);

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let sides = text.split(',').map(str::parse).collect::<Result<Vec<Expression>, String>>()?;
        match sides.len() {
            1..=3 => Ok(Shape(sides)),
            n => Err(format!("expected one to three sizes, found {n} in {text:?}")),
        }
    }
}

impl Shape {
    /// Its size, with the values of names.
    ///
    /// # Errors
    /// When a side has no value, or one that is no number of work-items.
    pub fn size(&self, of: &dyn Fn(&str) -> Option<String>) -> Result<[u32; 3], String> {
        let mut size = [1; 3];
        for (to, side) in size.iter_mut().zip(&self.0) {
            let value = side.value(of)?;
            let fits = u32::try_from(value).ok().filter(|n| *n > 0);
            *to = fits.ok_or_else(|| format!("{side}: expected 1 to {} work-items, found {value}", u32::MAX))?;
        }
        Ok(size)
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(Expression::names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        text.parse::<Parameter>().unwrap().values
    }

    fn error(text: &str) -> String {
        text.parse::<Parameter>().unwrap_err()
    }

    #[test]
    fn values_are_a_list_a_range_or_both() {
        assert_eq!(values("tile=8,16,8"), ["8", "16"]);
        assert_eq!(values("tile=2..5"), ["2", "3", "4", "5"]);
        assert_eq!(values("tile=2..9:3"), ["2", "5", "8"]);
        assert_eq!(values("tile=16..64:*2,7"), ["16", "32", "64", "7"]);
        assert_eq!(values("flags=-O3 -DX=1,,-Wl\\,-x"), ["-O3 -DX=1", "", "-Wl,-x"]);
        assert_eq!(values("path=../a..b"), ["../a..b"]);
        assert_eq!(values("n=-2..1:2"), ["-2", "0"]);
    }

    #[test]
    fn what_is_no_parameter_says_what_was_expected() {
        assert_eq!(error("tile"), "expected NAME=V1,V2,..., found \"tile\"");
        assert!(error("a-b=1").starts_with("expected a name of letters"));
        assert!(error("out=1").starts_with("expected a name other than grid_x"));
        assert!(error("grid_x=1").starts_with("expected a name other than grid_x"));
        assert!(error("n=1..").starts_with("expected a range lo..hi, lo..hi:step"));
        assert!(error("n=5..1").starts_with("expected a range from the smaller number"));
        assert!(error("n=0..9:*2").starts_with("expected a range from 1 or more, multiplied"));
        assert!(error("n=1..9:0").starts_with("expected a range in steps"));
        assert!(error("n=1..999999999").starts_with("expected at most 65536 values"));
    }

    #[test]
    fn shapes_have_one_to_three_sides_of_at_least_one_work_item() {
        let of = |name: &str| (name == "tile").then(|| "16".to_owned());
        let size = |text: &str| text.parse::<Shape>().and_then(|shape| shape.size(&of));
        assert_eq!(size("{tile},{tile}*2"), Ok([16, 32, 1]));
        assert_eq!(size("64"), Ok([64, 1, 1]));
        assert_eq!(size("1,2,3,4").unwrap_err(), "expected one to three sizes, found 4 in \"1,2,3,4\"");
        assert_eq!(size("{tile}-16").unwrap_err(), "{tile}-16: expected 1 to 4294967295 work-items, found 0");
        assert!(size("").is_err());
    }
}
