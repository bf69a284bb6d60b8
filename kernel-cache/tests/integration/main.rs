//! What the kernel cache promises, story by story.

mod checked;
mod compiled;
mod decisions;
mod folders;
mod index;
mod interfaces;
mod kernargs;
mod random;
mod real;
mod rules;
mod updates;
mod variables;
