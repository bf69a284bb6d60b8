//! Disassembles instructions given as comma-separated bytes, one a line, for a processor named on the command line.

use std::io::BufRead;

use amdgpu_isa::disasm::Disassembly;
use amdgpu_isa::{Arch, Decoder};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arch: Arch = std::env::args().nth(1).unwrap_or_else(|| "gfx90a".into()).parse()?;
    let decoder = Decoder::new(arch);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let bytes: Vec<u8> =
            line.split(',').filter_map(|b| u8::from_str_radix(b.trim().trim_start_matches("0x"), 16).ok()).collect();
        let words: Vec<u32> = bytes.chunks_exact(4).map(|c| u32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
        match decoder.decode(&words) {
            Ok(inst) => println!("{}", Disassembly { inst: &inst, arch }),
            Err(error) => println!("!{error}"),
        }
    }
    Ok(())
}
