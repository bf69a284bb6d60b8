//! The decoder, the disassembler and the operations against independent oracles, and on random input.

mod blocks;
mod buffer_ends;
mod cdna4;
mod formatted;
mod half_loads;
mod lds_loads;
mod llvm_mc;
mod machine;
mod matrix_formats;
mod memory;
mod modes;
mod random_execution;
mod random_words;
mod scaled;
mod scratch;
mod seeded;
mod semantics;
mod small_floats;
mod uses;
mod vectors;
