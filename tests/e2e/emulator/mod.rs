//! The emulated GPU, against hardware's rules and against computations of others.

mod code_objects;
mod hip;
mod machine;
mod mi300;
mod mi350;
pub(crate) mod opencl;
mod openmp;
mod oracles;
mod strict;
mod textures;
mod tinygrad;
mod tools;
pub(crate) mod triton;
