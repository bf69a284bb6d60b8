//! The decoder and the disassembler against those of LLVM.

mod llvm_mc;
mod random_words;
mod seeded;
mod vectors;
