//! Which code runs on which processor, and what its workgroups can have.

use amdgpu_code_object::{Setting, Target};

/// LDS that a workgroup can have on a processor that is not known, in bytes.
const GROUP_LIMIT: u32 = 64 << 10;

/// Scratch that a wave can have, in bytes: what fits into 13 bits of 1024 bytes. Source: ROCr's `MAX_WAVE_SCRATCH`, the
/// field WAVESIZE of COMPUTE_TMPRING_SIZE. Later processors have a little more.
const WAVE_SCRATCH: u32 = 8191 * 1024;

/// The processors that code for a family runs on; none when it is a processor's own name.
pub fn members(family: &str) -> impl Iterator<Item = &'static str> {
    amdgpu_processor::targets().filter(move |target| target.family == Some(family)).map(|target| target.name)
}

/// True when code for one processor runs on another: the same, or a member of the family.
pub fn runs_on(code: &str, processor: &str) -> bool {
    code == processor || members(code).any(|member| member == processor)
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
    amdgpu_processor::Target::named(processor).map_or(GROUP_LIMIT, |target| target.lds)
}

/// Scratch that a work-item can have, in bytes.
pub(crate) fn private_limit(wavefront_size: u32) -> u32 {
    WAVE_SCRATCH / wavefront_size.max(1)
}
