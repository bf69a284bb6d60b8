//! The GPUs that this process shall have, as its settings say.

use std::path::Path;
use std::sync::OnceLock;

use logdur_settings::Emulator;

use crate::product::{PRODUCTS, Product};
use crate::runtime;

/// What is known before a device is opened.
pub(crate) struct Plan {
    pub(crate) settings: Emulator,
    pub(crate) products: Vec<Product>,
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
        let mut products = Vec::new();
        for name in &settings.gpus.0 {
            match usable(name, runtime.as_deref()) {
                Ok(product) => products.push(product),
                Err(problem) => problems.push(format!("{}: {problem}", Emulator::gpus)),
            }
        }
        Plan { settings, products, problems }
    })
}

/// The product of a name, if it can be emulated, and the runtime of this process has support for it.
fn usable(name: &str, runtime: Option<&Path>) -> Result<Product, String> {
    let mut known: Vec<&str> = PRODUCTS.iter().map(|p| p.arch.name()).collect();
    known.dedup();
    let Some(product) = Product::named(name) else {
        let processor = name.split(':').next().unwrap_or(name);
        let models: Vec<String> = PRODUCTS.iter().filter(|p| p.arch.name() == processor).map(Product::model).collect();
        let among =
            if models.is_empty() { String::new() } else { format!("; of {processor}, {}", models.join(" or ")) };
        return Err(format!("{name:?} cannot be emulated, expected one of {}{among}", known.join(", ")));
    };
    let Some(runtime) = runtime.filter(|runtime| !runtime::knows(runtime, product.arch.name())) else {
        return Ok(product);
    };
    known.retain(|name| runtime::knows(runtime, name));
    Err(format!(
        "{name:?} is unknown to the HSA runtime {}, which knows {}; choose one of these, or a newer ROCm",
        runtime.display(),
        known.join(", ")
    ))
}

/// How many GPUs there are.
pub(crate) fn gpu_count() -> usize {
    plan().products.len()
}

/// The emulated GPUs' product and settings.
pub(crate) fn settings() -> &'static Emulator {
    &plan().settings
}
