//! Opens a folder of code objects and prints what it took, for `cargo xtask bench cache`: seconds, files, bytes that were
//! read, kernels, problems.

use std::path::PathBuf;
use std::time::Instant;

use logdur_kernel_cache::{Cache, Trust};

fn main() {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [index, root] = &arguments[..] else {
        panic!("expected a folder for the index and one of code objects, found {arguments:?}");
    };
    let began = Instant::now();
    let cache = Cache::open(std::slice::from_ref(root), Some(index), Trust::Everybody);
    let seconds = began.elapsed().as_secs_f64();
    let indexing = cache.indexing();
    let kernels = cache.kernels().len();
    println!("{seconds:.6} {} {} {kernels} {}", indexing.files, indexing.bytes_read, cache.problems().len());
}
