//! Opens folders of code objects and says what it took: `open_cache INDEX-FOLDER ROOT...`. For `cargo xtask bench cache`.

use std::path::PathBuf;
use std::time::Instant;

use logdur_kernel_cache::Cache;

fn main() {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let index = arguments.next().expect("expected a folder for indexes before the roots, found nothing");
    let roots: Vec<PathBuf> = arguments.collect();
    let began = Instant::now();
    let cache = Cache::open(&roots, Some(&index));
    let taken = began.elapsed().as_secs_f64();
    let indexing = cache.indexing();
    println!(
        "{taken:.6} {} {} {} {} {}",
        indexing.files,
        indexing.files_read,
        indexing.bytes_read,
        cache.problems().len(),
        indexing.problems.len()
    );
    if std::env::var_os("SHOW").is_some() {
        println!("{} kernels", cache.kernels().len());
        for problem in cache.problems().iter().chain(&indexing.problems).take(30) {
            println!("{}: {}", problem.path.display(), problem.reason);
        }
    }
}
