//! Lists the dispatches of a capture: `cargo run --example dispatches -- FILE`.

use std::path::Path;

use logdur_capture::Reader;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("expected a capture: a file whose name ends with .ldcap")?;
    let reader = Reader::open(Path::new(&path))?;
    for dispatch in reader.dispatches() {
        let kernel = reader.records().kernels.iter().find(|kernel| kernel.id == dispatch.kernel);
        let symbol = kernel.map_or("an unknown kernel", |kernel| kernel.symbol.as_str());
        println!("dispatch {}: {symbol}, {} bytes of arguments", dispatch.id, dispatch.kernarg.len());
    }
    Ok(())
}
