//! Lists the kernels of a file with device code, and their arguments: `cargo run --example kernels -- FILE`.

use amdgpu_code_object::{CodeObject, container};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("expected a file: a .hsaco, an offload bundle, a program or a library")?;
    let bytes = std::fs::read(&path)?;
    for entry in container::entries(&bytes)?.iter().filter(|entry| entry.is_code_object()) {
        let object = CodeObject::parse(&entry.read(&bytes)?)?;
        println!("{} at {:#x}, {} bytes", object.target, entry.offset, entry.length);
        for kernel in &object.kernels {
            println!(
                "  {}: {} VGPRs, {} SGPRs, {} bytes of LDS",
                kernel.name, kernel.vgprs, kernel.sgprs, kernel.group_size
            );
            for argument in kernel.explicit() {
                println!("    {:>4}: {} bytes, {:?}", argument.offset, argument.size, argument.kind);
            }
        }
    }
    Ok(())
}
