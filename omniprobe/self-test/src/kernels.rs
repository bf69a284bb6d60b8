//! The kernels that the checks dispatch, as instructions.
//!
//! The words are what LLVM's assembler makes of the text beside them; a test compares them. Most instructions are the same on
//! gfx900, gfx906, gfx908 and gfx90a (`Family::Gfx9`) and on gfx940 to gfx950 (`Family::Gfx940`). Loads that the host
//! answers, and scratch, are not.

/// An instruction: its text for the assembler, and its words.
pub(crate) type Line = (&'static str, &'static [u32]);

/// Processors that run the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// gfx900 to gfx90a: scratch by a buffer descriptor.
    Gfx9,
    /// gfx940 to gfx950: scratch by flat addresses that the hardware sets up; other cache bits.
    Gfx940,
}

impl Family {
    /// The family of a processor; `None` for one that the kernels are not written for.
    pub(crate) fn of(processor: &str) -> Option<Family> {
        match processor {
            "gfx900" | "gfx906" | "gfx908" | "gfx90a" => Some(Family::Gfx9),
            "gfx940" | "gfx941" | "gfx942" | "gfx950" => Some(Family::Gfx940),
            _ => None,
        }
    }
}

/// A kernel.
pub(crate) struct Kernel {
    /// The name of its symbol, without `.kd`.
    pub(crate) name: &'static str,
    /// Names of its arguments: addresses of 8 bytes in global memory.
    pub(crate) arguments: &'static [&'static str],
    /// Bytes of scratch of a work-item.
    pub(crate) scratch: u32,
    gfx9: &'static [Line],
    gfx940: &'static [Line],
}

impl Kernel {
    /// The instructions for a family.
    pub(crate) fn lines(&self, family: Family) -> &'static [Line] {
        match family {
            Family::Gfx9 => self.gfx9,
            Family::Gfx940 => self.gfx940,
        }
    }
}

/// Every kernel. Workgroups have 64 work-items.
pub(crate) const KERNELS: &[Kernel] = &[
    // Ends at once.
    Kernel { name: "empty", arguments: &[], scratch: 0, gfx9: EMPTY, gfx940: EMPTY },
    // Runs until the host writes a number other than 0 to `flag`.
    Kernel { name: "wait", arguments: &["flag"], scratch: 0, gfx9: WAIT, gfx940: WAIT_GFX940 },
    // sum[i] = a[i] + b[i], numbers of 32 bits.
    Kernel { name: "add", arguments: &["a", "b", "sum"], scratch: 0, gfx9: ADD, gfx940: ADD },
    // Each work-item writes its number to scratch, reads it back and stores it: out[i] = i.
    Kernel { name: "scratch_small", arguments: &["out"], scratch: 256, gfx9: SCRATCH, gfx940: SCRATCH_GFX940 },
    Kernel { name: "scratch_large", arguments: &["out"], scratch: 16 << 10, gfx9: SCRATCH, gfx940: SCRATCH_GFX940 },
];

#[rustfmt::skip]
const EMPTY: &[Line] = &[
    ("s_endpgm", &[0xbf81_0000]),
];

#[rustfmt::skip]
const WAIT: &[Line] = &[
    ("s_load_dwordx2 s[4:5], s[0:1], 0x0", &[0xc006_0100, 0x0000_0000]),
    ("v_mov_b32_e32 v0, 0", &[0x7e00_0280]),
    ("s_waitcnt lgkmcnt(0)", &[0xbf8c_c07f]),
    ("s_sleep 1", &[0xbf8e_0001]),
    ("global_load_dword v1, v0, s[4:5] glc", &[0xdc51_8000, 0x0104_0000]),
    ("s_waitcnt vmcnt(0)", &[0xbf8c_0f70]),
    ("v_readfirstlane_b32 s6, v1", &[0x7e0c_0501]),
    ("s_cmp_eq_u32 s6, 0", &[0xbf06_8006]),
    ("s_cbranch_scc1 -7", &[0xbf85_fff9]),
    ("s_endpgm", &[0xbf81_0000]),
];

#[rustfmt::skip]
const WAIT_GFX940: &[Line] = &[
    ("s_load_dwordx2 s[4:5], s[0:1], 0x0", &[0xc006_0100, 0x0000_0000]),
    ("v_mov_b32_e32 v0, 0", &[0x7e00_0280]),
    ("s_waitcnt lgkmcnt(0)", &[0xbf8c_c07f]),
    ("s_sleep 1", &[0xbf8e_0001]),
    ("global_load_dword v1, v0, s[4:5] sc0 sc1", &[0xde51_8000, 0x0104_0000]),
    ("s_waitcnt vmcnt(0)", &[0xbf8c_0f70]),
    ("v_readfirstlane_b32 s6, v1", &[0x7e0c_0501]),
    ("s_cmp_eq_u32 s6, 0", &[0xbf06_8006]),
    ("s_cbranch_scc1 -7", &[0xbf85_fff9]),
    ("s_endpgm", &[0xbf81_0000]),
];

#[rustfmt::skip]
const ADD: &[Line] = &[
    ("s_load_dwordx4 s[4:7], s[0:1], 0x0", &[0xc00a_0100, 0x0000_0000]),
    ("s_load_dwordx2 s[8:9], s[0:1], 0x10", &[0xc006_0200, 0x0000_0010]),
    ("s_lshl_b32 s2, s2, 6", &[0x8e02_8602]),
    ("v_add_u32_e32 v0, s2, v0", &[0x6800_0002]),
    ("v_lshlrev_b32_e32 v0, 2, v0", &[0x2400_0082]),
    ("s_waitcnt lgkmcnt(0)", &[0xbf8c_c07f]),
    ("global_load_dword v1, v0, s[4:5]", &[0xdc50_8000, 0x0104_0000]),
    ("global_load_dword v2, v0, s[6:7]", &[0xdc50_8000, 0x0206_0000]),
    ("s_waitcnt vmcnt(0)", &[0xbf8c_0f70]),
    ("v_add_u32_e32 v1, v1, v2", &[0x6802_0501]),
    ("global_store_dword v0, v1, s[8:9]", &[0xdc70_8000, 0x0008_0100]),
    ("s_endpgm", &[0xbf81_0000]),
];

#[rustfmt::skip]
const SCRATCH: &[Line] = &[
    ("s_load_dwordx2 s[8:9], s[4:5], 0x0", &[0xc006_0202, 0x0000_0000]),
    ("s_lshl_b32 s6, s6, 6", &[0x8e06_8606]),
    ("v_add_u32_e32 v1, s6, v0", &[0x6802_0006]),
    ("v_mov_b32_e32 v2, 0xfc", &[0x7e04_02ff, 0x0000_00fc]),
    ("buffer_store_dword v1, v2, s[0:3], s7 offen", &[0xe070_1000, 0x0700_0102]),
    ("s_waitcnt vmcnt(0)", &[0xbf8c_0f70]),
    ("buffer_load_dword v3, v2, s[0:3], s7 offen", &[0xe050_1000, 0x0700_0302]),
    ("v_lshlrev_b32_e32 v1, 2, v1", &[0x2402_0282]),
    ("s_waitcnt vmcnt(0) lgkmcnt(0)", &[0xbf8c_0070]),
    ("global_store_dword v1, v3, s[8:9]", &[0xdc70_8000, 0x0008_0301]),
    ("s_endpgm", &[0xbf81_0000]),
];

#[rustfmt::skip]
const SCRATCH_GFX940: &[Line] = &[
    ("s_load_dwordx2 s[8:9], s[0:1], 0x0", &[0xc006_0200, 0x0000_0000]),
    ("s_lshl_b32 s2, s2, 6", &[0x8e02_8602]),
    ("v_add_u32_e32 v1, s2, v0", &[0x6802_0002]),
    ("v_mov_b32_e32 v2, 0xfc", &[0x7e04_02ff, 0x0000_00fc]),
    ("scratch_store_dword v2, v1, off", &[0xdc70_6000, 0x007f_0102]),
    ("s_waitcnt vmcnt(0)", &[0xbf8c_0f70]),
    ("scratch_load_dword v3, v2, off", &[0xdc50_6000, 0x037f_0002]),
    ("v_lshlrev_b32_e32 v1, 2, v1", &[0x2402_0282]),
    ("s_waitcnt vmcnt(0) lgkmcnt(0)", &[0xbf8c_0070]),
    ("global_store_dword v1, v3, s[8:9]", &[0xdc70_8000, 0x0008_0301]),
    ("s_endpgm", &[0xbf81_0000]),
];

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// What LLVM's assembler makes of instructions, as words.
    fn assembled(llvm_mc: &str, processor: &str, text: &str) -> Vec<u32> {
        let mut child = Command::new(llvm_mc)
            .args(["-triple=amdgcn-amd-amdhsa", "-show-encoding", &format!("-mcpu={processor}")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{llvm_mc}, of the package llvm-19 or llvm-22: {error}"));
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{processor}:\n{text}");
        let output = String::from_utf8(output.stdout).unwrap();
        let encodings = output.lines().filter_map(|line| line.split_once("encoding: [")?.1.strip_suffix(']'));
        let byte = |text: &str| u8::from_str_radix(text.trim_start_matches("0x"), 16).unwrap();
        let bytes: Vec<u8> = encodings.flat_map(|list| list.split(',').map(byte).collect::<Vec<u8>>()).collect();
        bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
    }

    #[test]
    fn llvm_assembles_every_kernel_to_the_same_words_for_every_processor() {
        let newer = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950"].map(|name| (name, "llvm-mc-22"));
        // LLVM 22 has forgotten these.
        let older = ["gfx940", "gfx941"].map(|name| (name, "llvm-mc-19"));
        for (processor, llvm_mc) in newer.into_iter().chain(older) {
            let family = Family::of(processor).unwrap();
            for kernel in KERNELS {
                let lines = kernel.lines(family);
                let text: String = lines.iter().map(|(text, _)| format!("{text}\n")).collect();
                let words: Vec<u32> = lines.iter().flat_map(|(_, words)| *words).copied().collect();
                assert_eq!(assembled(llvm_mc, processor, &text), words, "{} for {processor}", kernel.name);
            }
        }
    }
}
