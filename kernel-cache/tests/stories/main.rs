//! What the kernel cache promises, story by story.

mod interfaces;
mod kernargs;
mod rules;
