//! The compiled part of the Python package `logdur`: logs and captures as Python's values, read by the crates that read them
//! for `omniprobe`.

use pyo3::prelude::*;

mod capture;
mod log;

pyo3::import_exception!(logdur._errors, CaptureError);
pyo3::import_exception!(logdur._errors, LogError);

/// Functions and classes for the modules of the package.
#[pymodule]
mod _native {
    use amdgpu_processor::Arch;
    use logdur_captured::Backend;
    use omniprobe_exit::Exit;
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::capture::Capture;
    #[pymodule_export]
    use crate::log::{logs_of, read_log, summary};

    /// The statuses of `omniprobe`: number, name, meaning and advice.
    #[pyfunction]
    fn statuses() -> Vec<(u8, &'static str, &'static str, &'static str)> {
        Exit::ALL.iter().map(|exit| (*exit as u8, exit.word(), exit.means(), exit.advice())).collect()
    }

    /// The words for where dispatches are replayed.
    #[pyfunction]
    fn backends() -> Vec<&'static str> {
        Backend::WORDS.iter().map(|(word, _)| *word).collect()
    }

    /// The processors that are emulated.
    #[pyfunction]
    fn processors() -> Vec<&'static str> {
        Arch::ALL.map(Arch::name).to_vec()
    }
}
