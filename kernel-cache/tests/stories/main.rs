//! What the kernel cache promises, story by story.

mod compiled;
mod folders;
mod interfaces;
mod kernargs;
mod random;
mod real;
mod rules;
