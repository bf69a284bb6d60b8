//! Link options of `liblogdur.so`: never unloaded, every symbol resolved when it is loaded.

fn main() {
    for option in ["nodelete", "now", "defs"] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,-z,{option}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
