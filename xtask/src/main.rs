//! `cargo xtask NAME`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    match xtask::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
