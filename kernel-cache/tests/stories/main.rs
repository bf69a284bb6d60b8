//! What the kernel cache promises, story by story.

mod compiled;
mod interfaces;
mod kernargs;
mod real;
mod rules;
