//! Elements of buffers: what their bytes mean, and how far two of them are apart.

use std::fmt;
use std::str::FromStr;

use half::{bf16, f16};

/// The type of a buffer's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Bytes whose meaning is not known, in words of so many: they are equal or not.
    Bits(u8),
    /// A signed integer of so many bytes.
    Int(u8),
    /// An unsigned integer of so many bytes.
    Unsigned(u8),
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    Bf16,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
}

/// Every type that can be named, with its name.
const NAMES: &[(&str, Type)] = &[
    ("b8", Type::Bits(1)),
    ("b16", Type::Bits(2)),
    ("b32", Type::Bits(4)),
    ("b64", Type::Bits(8)),
    ("i8", Type::Int(1)),
    ("i16", Type::Int(2)),
    ("i32", Type::Int(4)),
    ("i64", Type::Int(8)),
    ("u8", Type::Unsigned(1)),
    ("u16", Type::Unsigned(2)),
    ("u32", Type::Unsigned(4)),
    ("u64", Type::Unsigned(8)),
    ("f16", Type::F16),
    ("bf16", Type::Bf16),
    ("f32", Type::F32),
    ("f64", Type::F64),
];

/// Numbers of kernels' sources, as the metadata of code objects has them for OpenCL C, and mangled names for C++ (Itanium C++ ABI,
/// `<builtin-type>`, and HIP's own), and the type of each.
const SOURCES: &[(&str, Type)] = &[
    ("float", Type::F32),
    ("double", Type::F64),
    ("half", Type::F16),
    ("_Float16", Type::F16),
    ("__half", Type::F16),
    ("__bf16", Type::Bf16),
    ("std::bfloat16_t", Type::Bf16),
    ("__hip_bfloat16", Type::Bf16),
    ("hip_bfloat16", Type::Bf16),
    ("bool", Type::Unsigned(1)),
    ("char", Type::Int(1)),
    ("signed char", Type::Int(1)),
    ("unsigned char", Type::Unsigned(1)),
    ("uchar", Type::Unsigned(1)),
    ("short", Type::Int(2)),
    ("unsigned short", Type::Unsigned(2)),
    ("ushort", Type::Unsigned(2)),
    ("int", Type::Int(4)),
    ("unsigned int", Type::Unsigned(4)),
    ("uint", Type::Unsigned(4)),
    ("long", Type::Int(8)),
    ("unsigned long", Type::Unsigned(8)),
    ("ulong", Type::Unsigned(8)),
    ("long long", Type::Int(8)),
    ("unsigned long long", Type::Unsigned(8)),
];

/// Words of a type in the source that change nothing of what its bytes mean.
const QUALIFIERS: &[&str] =
    &["const", "volatile", "restrict", "__global", "__constant", "__local", "__private", "__generic"];

impl Type {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Type::Bits(bytes) | Type::Int(bytes) | Type::Unsigned(bytes) => usize::from(bytes),
            Type::F16 | Type::Bf16 => 2,
            Type::F32 => 4,
            Type::F64 => 8,
        }
    }

    /// Of what a pointer's type in the source points to, like `float const*` or `__global uint4*`: of vectors, the type of their
    /// elements. `None` for other texts.
    pub fn of_pointer(source: &str) -> Option<Type> {
        let pointee = unqualified(source);
        let pointee = pointee.strip_suffix('*')?.trim_end();
        let vector = pointee.strip_prefix("HIP_vector_type<").and_then(|rest| rest.split_once(','));
        let vector = vector.or_else(|| pointee.split_once(" vector["));
        let element = vector.map_or(pointee, |(element, _)| element);
        Type::of_source(element.trim_end_matches(|c: char| c.is_ascii_digit())).or_else(|| Type::of_source(element))
    }

    /// Of a value of so many bytes and of a type in the source, like `float`; bits where that is not known, and `None` for
    /// what is no single number.
    pub fn of_value(source: Option<&str>, size: usize) -> Option<Type> {
        let known =
            source.and_then(|source| Type::of_source(source.trim())).filter(|element_type| element_type.size() == size);
        let bits = || {
            u8::try_from(size)
                .ok()
                .map(Type::Bits)
                .filter(|element_type| NAMES.iter().any(|(_, named)| named == element_type))
        };
        known.or_else(bits)
    }

    /// Of a type in the source, whatever qualifies it.
    fn of_source(source: &str) -> Option<Type> {
        let source = unqualified(source);
        SOURCES.iter().find(|(name, _)| *name == source).map(|(_, element_type)| *element_type)
    }

    /// The bytes as a number; integers that a double does not hold are the nearest that it does.
    pub(super) fn number(self, bytes: &[u8]) -> f64 {
        match self {
            Type::F16 => f16::from_bits(bits(bytes) as u16).to_f64(),
            Type::Bf16 => bf16::from_bits(bits(bytes) as u16).to_f64(),
            Type::F32 => f32::from_bits(bits(bytes) as u32).into(),
            Type::F64 => f64::from_bits(bits(bytes)),
            Type::Int(_) => signed(bytes) as f64,
            Type::Unsigned(_) | Type::Bits(_) => bits(bytes) as f64,
        }
    }

    /// The bytes of an integer.
    fn integer(self, bytes: &[u8]) -> i128 {
        if matches!(self, Type::Int(_)) { signed(bytes).into() } else { bits(bytes).into() }
    }

    /// Numbers that bits may be, as some of them look: floats if the exponents of all are those of numbers between 2⁻⁶³ and
    /// 2⁶⁵, or of zero; else integers. Other types are what they are.
    pub(super) fn likely(self, values: &[&[u8]]) -> Type {
        let Type::Bits(size) = self else { return self };
        let is_float = |element_type: Type| {
            values.iter().all(|value| {
                let size = element_type.number(value).abs();
                size == 0.0 || (2f64.powi(-63)..2f64.powi(65)).contains(&size)
            })
        };
        match size {
            4 if is_float(Type::F32) => Type::F32,
            8 if is_float(Type::F64) => Type::F64,
            size => Type::Int(size),
        }
    }

    /// True for the bytes of an element that is not a number, as floats can be.
    pub fn is_nan(self, bytes: &[u8]) -> bool {
        self.is_float() && self.number(bytes).is_nan()
    }

    /// True for infinity, of either sign.
    pub fn is_infinite(self, bytes: &[u8]) -> bool {
        self.is_float() && self.number(bytes).is_infinite()
    }

    /// True for types whose numbers have units in the last place.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::F32 | Type::F64)
    }

    /// How far it is from a finite number to the next of the type that is larger in magnitude; 1 of integers.
    pub(super) fn step(self, bytes: &[u8]) -> f64 {
        if !self.is_float() {
            return 1.0;
        }
        let to = |other: u64| {
            let other = other.to_le_bytes();
            (self.number(bytes) - self.number(other.get(..self.size()).unwrap_or_default())).abs()
        };
        match to(bits(bytes).wrapping_add(1)) {
            step if step.is_finite() => step,
            // The largest has no next one.
            _ => to(bits(bytes).wrapping_sub(1)),
        }
    }

    /// How far the second is from the first.
    pub fn distance(self, expected: &[u8], found: &[u8]) -> Distance {
        if matches!(self, Type::Bits(_)) {
            return Distance { abs: None, rel: None, ulp: None, nan: false };
        }
        let (e, f) = (self.number(expected), self.number(found));
        if !self.is_float() {
            // A double does not hold all integers: two that differ may be one there.
            let abs = self.integer(expected).abs_diff(self.integer(found)) as f64;
            let rel = if abs == 0.0 { 0.0 } else { abs / e.abs() };
            return Distance { abs: Some(abs), rel: Some(rel), ulp: None, nan: false };
        }
        if e.is_nan() || f.is_nan() {
            return Distance { abs: None, rel: None, ulp: None, nan: e.is_nan() && f.is_nan() };
        }
        // Infinities are apart from everything but themselves.
        let abs = if e == f { 0.0 } else { (e - f).abs() };
        let rel = if abs == 0.0 { 0.0 } else { abs / e.abs() };
        // No number of steps leads from a number to infinity.
        let reachable = e == f || e.is_finite() && f.is_finite();
        let ulp = reachable.then(|| {
            let [e, f] = [expected, found].map(|bytes| self.ordinal(bytes));
            u64::try_from((e - f).unsigned_abs()).unwrap_or(u64::MAX)
        });
        Distance { abs: Some(abs), rel: Some(rel), ulp, nan: false }
    }

    /// The place of a floating-point number among all of its type: neighbours differ by one, both zeros are zero.
    fn ordinal(self, bytes: &[u8]) -> i128 {
        let sign = 1u64 << (8 * self.size() - 1);
        let bits = bits(bytes);
        let magnitude = i128::from(bits & !sign);
        if bits & sign == 0 { magnitude } else { -magnitude }
    }

    /// The element as people write it.
    pub fn show(self, bytes: &[u8]) -> String {
        match self {
            Type::Bits(_) => format!("{:#0width$x}", bits(bytes), width = 2 + 2 * self.size()),
            Type::Int(_) => signed(bytes).to_string(),
            Type::Unsigned(_) => bits(bytes).to_string(),
            Type::F16 => f16::from_bits(bits(bytes) as u16).to_string(),
            Type::Bf16 => bf16::from_bits(bits(bytes) as u16).to_string(),
            Type::F32 => format!("{:?}", f32::from_bits(bits(bytes) as u32)),
            Type::F64 => format!("{:?}", f64::from_bits(bits(bytes))),
        }
    }
}

/// A type in the source without its qualifiers.
fn unqualified(source: &str) -> String {
    let words = source.split_whitespace().filter(|word| !QUALIFIERS.contains(word));
    words.collect::<Vec<_>>().join(" ")
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |all, &byte| all << 8 | u64::from(byte))
}

fn signed(bytes: &[u8]) -> i64 {
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    (bits(bytes) << unused) as i64 >> unused
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, element_type)| element_type == self).map_or("bits", |(name, _)| name);
        f.write_str(name)
    }
}

impl FromStr for Type {
    type Err = String;

    fn from_str(text: &str) -> Result<Type, String> {
        let known = || NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
        let found = NAMES.iter().find(|(name, _)| *name == text).map(|(_, element_type)| *element_type);
        found.ok_or_else(|| format!("expected a type ({}), found {text:?}", known()))
    }
}

/// How far two elements are apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// The difference; `None` where there is none: bits, and when one is not a number.
    pub abs: Option<f64>,
    /// The difference by the expected value's magnitude.
    pub rel: Option<f64>,
    /// Numbers of the type between them, the found one counted.
    pub ulp: Option<u64>,
    /// True when both are not a number.
    pub nan: bool,
}

/// What is near enough. An element is when any of the limits that are given holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// The largest difference.
    pub abs: Option<f64>,
    /// The largest difference by the expected value's magnitude.
    pub rel: Option<f64>,
    /// The most numbers between.
    pub ulp: Option<u64>,
}

impl Tolerance {
    /// True when a distance is within a limit. Two that are not numbers are the same; one is never near a number.
    pub fn takes(&self, distance: &Distance) -> bool {
        let within = |found: Option<f64>, most: Option<f64>| found.zip(most).is_some_and(|(found, most)| found <= most);
        distance.nan
            || within(distance.abs, self.abs)
            || within(distance.rel, self.rel)
            || distance.ulp.zip(self.ulp).is_some_and(|(found, most)| found <= most)
    }

    /// How far from a number it reaches, where numbers are a step apart.
    pub(super) fn width(&self, number: f64, step: f64) -> f64 {
        let rel = self.rel.unwrap_or(0.0) * number.abs();
        let ulp = self.ulp.unwrap_or(0) as f64 * step;
        self.abs.unwrap_or(0.0).max(rel).max(ulp)
    }

    /// True when nothing but equality is near enough.
    pub fn is_exact(&self) -> bool {
        *self == Tolerance::default()
    }
}

impl fmt::Display for Tolerance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = |name: &str, value: Option<String>| value.map(|value| format!("{name}={value}"));
        let limits = [
            limit("abs", self.abs.map(|v| v.to_string())),
            limit("rel", self.rel.map(|v| v.to_string())),
            limit("ulp", self.ulp.map(|v| v.to_string())),
        ];
        f.write_str(&limits.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

/// What a user says of a buffer: `NAME=TYPE[:LIMIT=VALUE[,LIMIT=VALUE]]`, like `out=f16:rel=1e-2,abs=1e-6`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// The buffer: an argument's name, `argN`, a global's name, or an address.
    pub buffer: String,
    /// What its elements are.
    pub element_type: Type,
    /// What is near enough.
    pub tolerance: Tolerance,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.buffer, self.element_type)?;
        if self.tolerance.is_exact() { Ok(()) } else { write!(f, ":{}", self.tolerance) }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let form = || format!("expected NAME=TYPE[:abs=X,rel=X,ulp=N], found {text:?}");
        let (buffer, rest) = text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(form)?;
        let (element_type, limits) = rest.split_once(':').unwrap_or((rest, ""));
        let element_type: Type = element_type.parse()?;
        let mut tolerance = Tolerance::default();
        for limit in limits.split(',').filter(|limit| !limit.is_empty()) {
            let (name, value) = limit.split_once('=').ok_or_else(form)?;
            let real = || match value.parse::<f64>() {
                // Everything is within infinity.
                Ok(number) if number >= 0.0 && number.is_finite() => Ok(Some(number)),
                _ => Err(format!("{name}: expected a finite number that is not negative, found {value:?}")),
            };
            match name {
                "abs" => tolerance.abs = real()?,
                "rel" => tolerance.rel = real()?,
                "ulp" if element_type.is_float() => {
                    let count = value.parse().map_err(|_| format!("ulp: expected a count, found {value:?}"))?;
                    tolerance.ulp = Some(count);
                }
                "ulp" => return Err(format!("ulp: expected a floating-point type, found {element_type}")),
                _ => return Err(format!("expected abs, rel or ulp, found {name:?}")),
            }
        }
        if matches!(element_type, Type::Bits(_)) && !tolerance.is_exact() {
            return Err(format!("{element_type}: bits are equal or not, found {tolerance}"));
        }
        Ok(Rule { buffer: buffer.to_owned(), element_type, tolerance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_floats_are_counted_over_zero_and_in_their_own_steps() {
        let f = |value: f32| value.to_le_bytes();
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        let distance = Type::F32.distance(&f(1.0), &f(next));
        assert_eq!((distance.ulp, distance.abs), (Some(1), Some(f64::from(f32::EPSILON))));
        let tiny = f32::from_bits(1);
        assert_eq!(Type::F32.distance(&f(tiny), &f(-tiny)).ulp, Some(2));
        assert_eq!(Type::F32.distance(&f(0.0), &f(-0.0)).abs, Some(0.0));
        let one = f16::from_f32(1.0).to_bits();
        assert_eq!(Type::F16.distance(&one.to_le_bytes(), &(one + 3).to_le_bytes()).ulp, Some(3));
    }

    #[test]
    fn no_tolerance_reaches_from_a_number_to_infinity() {
        let f = |value: f32| value.to_le_bytes();
        let wide = Tolerance { abs: Some(f64::MAX), rel: Some(f64::MAX), ulp: Some(u64::MAX) };
        assert!(!wide.takes(&Type::F32.distance(&f(f32::MAX), &f(f32::INFINITY))));
        assert!(!wide.takes(&Type::F32.distance(&f(f32::INFINITY), &f(f32::MAX))));
        assert!(!wide.takes(&Type::F32.distance(&f(f32::INFINITY), &f(f32::NEG_INFINITY))));
        let largest = f16::MAX.to_bits();
        assert!(!wide.takes(&Type::F16.distance(&largest.to_le_bytes(), &(largest + 1).to_le_bytes())));
    }

    #[test]
    fn integers_that_are_one_double_are_still_apart() {
        let near = Tolerance { abs: Some(1.0), ..Tolerance::default() };
        let takes =
            |element_type: Type, a: u64, b: u64| near.takes(&element_type.distance(&a.to_le_bytes(), &b.to_le_bytes()));
        for element_type in [Type::Int(8), Type::Unsigned(8)] {
            assert!(takes(element_type, 1 << 60, (1 << 60) + 1) && !takes(element_type, 1 << 60, (1 << 60) + 2));
        }
        assert!(takes(Type::Int(8), 0, u64::MAX) && !takes(Type::Unsigned(8), 0, u64::MAX));
    }

    #[test]
    fn a_nan_is_near_another_and_never_near_a_number() {
        let f = |value: f32| value.to_le_bytes();
        let wide = Tolerance { abs: Some(f64::INFINITY), rel: Some(f64::INFINITY), ulp: Some(u64::MAX) };
        let other = f32::from_bits(f32::NAN.to_bits() + 1);
        assert!(wide.takes(&Type::F32.distance(&f(f32::NAN), &f(other))));
        assert!(!wide.takes(&Type::F32.distance(&f(f32::NAN), &f(1.0))));
        assert!(!wide.takes(&Type::F32.distance(&f(1.0), &f(f32::NAN))));
        let narrow = Tolerance { rel: Some(0.5), ..Tolerance::default() };
        assert!(!narrow.takes(&Type::F32.distance(&f(f32::INFINITY), &f(f32::MAX))));
        assert!(narrow.takes(&Type::F32.distance(&f(f32::INFINITY), &f(f32::INFINITY))));
    }

    #[test]
    fn rules_are_read_as_they_are_written_and_bad_ones_say_what_is_expected() {
        let rule: Rule = "out=f16:rel=1e-2,abs=0.5".parse().unwrap();
        assert_eq!((rule.buffer.as_str(), rule.element_type), ("out", Type::F16));
        assert_eq!(rule.tolerance, Tolerance { abs: Some(0.5), rel: Some(0.01), ulp: None });
        assert_eq!(rule.to_string().parse(), Ok(rule));
        let error = |text: &str| text.parse::<Rule>().unwrap_err();
        assert_eq!(error("out"), "expected NAME=TYPE[:abs=X,rel=X,ulp=N], found \"out\"");
        assert!(error("out=f8").starts_with("expected a type (b8,"));
        assert_eq!(error("out=i32:ulp=1"), "ulp: expected a floating-point type, found i32");
        assert_eq!(error("out=f32:rel=-1"), "rel: expected a finite number that is not negative, found \"-1\"");
        assert_eq!(error("out=f32:abs=inf"), "abs: expected a finite number that is not negative, found \"inf\"");
        assert!(error("out=f32:rel=NaN").contains("found \"NaN\"") && error("out=f32:abs=1e999").contains("finite"));
        assert_eq!(error("out=b32:abs=1"), "b32: bits are equal or not, found abs=1");
    }

    #[test]
    fn elements_are_shown_by_their_type_and_types_come_from_the_source() {
        assert_eq!(Type::Int(2).show(&[0xfe, 0xff]), "-2");
        assert_eq!(Type::Bits(4).show(&[1, 2, 0, 0]), "0x00000201");
        assert_eq!(Type::F32.show(&1.5f32.to_le_bytes()), "1.5");
        assert_eq!(Type::of_pointer("float*"), Some(Type::F32));
        assert_eq!(Type::of_pointer("__global uint4 *"), Some(Type::Unsigned(4)));
        for (source, element_type) in [
            ("float const*", Type::F32),
            ("unsigned int volatile*", Type::Unsigned(4)),
            ("unsigned long long*", Type::Unsigned(8)),
            ("HIP_vector_type<double, 2u> const*", Type::F64),
            ("float vector[4]*", Type::F32),
            ("_Float16 const*", Type::F16),
            ("__hip_bfloat16*", Type::Bf16),
        ] {
            assert_eq!(Type::of_pointer(source), Some(element_type), "{source}");
        }
        for source in ["struct node*", "float**", "float", "void*", "Node4*"] {
            assert_eq!(Type::of_pointer(source), None, "{source}");
        }
    }
}
