//! The GPUs that this process shall have, as its settings say.

use std::path::Path;
use std::sync::OnceLock;

use logdur_settings::{Emulator, MOST_GPUS};

use crate::board::{Board, Node};
use crate::product::PRODUCTS;
use crate::runtime;

/// What is known before a device is opened.
pub(crate) struct Plan {
    pub(crate) settings: Emulator,
    pub(crate) nodes: Vec<Node>,
    /// What is wrong with the settings.
    pub(crate) problems: Vec<String>,
}

/// The plan of this process.
pub(crate) fn plan() -> &'static Plan {
    static PLAN: OnceLock<Plan> = OnceLock::new();
    PLAN.get_or_init(|| {
        let (settings, problems) = Emulator::from_environment();
        let mut problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let runtime = runtime::path();
        let mut nodes: Vec<Node> = Vec::new();
        let mut boards = 0;
        for name in &settings.gpus.0 {
            match usable(name, runtime.as_deref()) {
                Ok(board) if nodes.len() + Node::of(board, boards).count() > MOST_GPUS => {
                    problems.push(format!("{}: {name:?} would be more than {MOST_GPUS} GPUs", Emulator::gpus));
                }
                Ok(board) => {
                    nodes.extend(Node::of(board, boards));
                    boards += 1;
                }
                Err(problem) => problems.push(format!("{}: {problem}", Emulator::gpus)),
            }
        }
        Plan { settings, nodes, problems }
    })
}

/// The board of a name, if it can be emulated, and the runtime of this process has support for it.
fn usable(name: &str, runtime: Option<&Path>) -> Result<Board, String> {
    let board = Board::named(name).map_err(|problem| format!("{name:?} cannot be emulated: {problem}"))?;
    let Some(runtime) = runtime.filter(|runtime| !runtime::knows(runtime, board.product.arch.name())) else {
        return Ok(board);
    };
    let mut known: Vec<&str> = PRODUCTS.iter().map(|p| p.arch.name()).collect();
    known.dedup();
    known.retain(|name| runtime::knows(runtime, name));
    Err(format!(
        "{name:?} is unknown to the HSA runtime {}, which knows {}; choose one of these, or a newer ROCm",
        runtime.display(),
        known.join(", ")
    ))
}

/// How many GPUs there are.
pub(crate) fn gpu_count() -> usize {
    plan().nodes.len()
}

/// The emulated GPUs' product and settings.
pub(crate) fn settings() -> &'static Emulator {
    &plan().settings
}
