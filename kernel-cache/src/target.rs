//! Which code runs on which processor, and what its workgroups can have.

use amdgpu_code_object::{Setting, Target};

/// A family and the processors that its code runs on. Source: AMDGPUUsage, "Generic Processor Target".
type Family = (&'static str, &'static [&'static str]);

#[rustfmt::skip]
const FAMILIES: &[Family] = &[
    ("gfx9-generic",    &["gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"]),
    ("gfx9-4-generic",  &["gfx940", "gfx941", "gfx942", "gfx950"]),
    ("gfx10-1-generic", &["gfx1010", "gfx1011", "gfx1012", "gfx1013"]),
    ("gfx10-3-generic", &["gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"]),
    ("gfx11-generic",   &["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"]),
    ("gfx12-generic",   &["gfx1200", "gfx1201"]),
    ("gfx12-5-generic", &["gfx1250", "gfx1251"]),
];

/// LDS that a workgroup can have where it is not [`GROUP_LIMIT`], in bytes. Source: AMDGPUUsage, "Processors", and the
/// kernel descriptor's GRANULATED_LDS_SIZE.
const GROUP_LIMITS: &[(&str, u32)] = &[
    ("gfx950", 160 << 10),
    ("gfx1250", 320 << 10),
    ("gfx1251", 320 << 10),
    ("gfx600", 32 << 10),
    ("gfx601", 32 << 10),
    ("gfx602", 32 << 10),
];

const GROUP_LIMIT: u32 = 64 << 10;

/// Scratch that a wave can have, in bytes: what fits into 13 bits of 1024 bytes. Source: ROCr's `MAX_WAVE_SCRATCH`, the
/// field WAVESIZE of COMPUTE_TMPRING_SIZE. Later processors have a little more.
const WAVE_SCRATCH: u32 = 8191 * 1024;

/// The processors that code for a family runs on; none when it is a processor's own name.
pub fn members(family: &str) -> &'static [&'static str] {
    FAMILIES.iter().find(|(name, _)| *name == family).map_or(&[], |(_, members)| members)
}

/// True when code for one processor runs on another: the same, or a member of the family.
pub(crate) fn runs_on(code: &str, processor: &str) -> bool {
    code == processor || members(code).contains(&processor)
}

/// True when code that depends on a setting runs where it is `there`.
pub(crate) fn setting_fits(code: Setting, there: Setting) -> bool {
    matches!(code, Setting::Any | Setting::Unsupported) || there == Setting::Any || code == there
}

/// How closely code is made for a processor: the runtime takes the closest of a bundle.
pub(crate) fn closeness(code: &Target) -> (bool, usize) {
    let named = |setting| matches!(setting, Setting::On | Setting::Off);
    (!code.is_generic(), usize::from(named(code.xnack)) + usize::from(named(code.sramecc)))
}

/// LDS that a workgroup can have, in bytes.
pub(crate) fn group_limit(processor: &str) -> u32 {
    GROUP_LIMITS.iter().find(|(name, _)| *name == processor).map_or(GROUP_LIMIT, |(_, limit)| *limit)
}

/// Scratch that a work-item can have, in bytes.
pub(crate) fn private_limit(wavefront_size: u32) -> u32 {
    WAVE_SCRATCH / wavefront_size.max(1)
}
