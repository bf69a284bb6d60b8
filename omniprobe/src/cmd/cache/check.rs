//! `omniprobe cache check`: whether kernels would be swapped.

use std::collections::HashMap;
use std::path::PathBuf;

use amdgpu_code_object::Target;
use anyhow::{Result, bail};
use clap::Args;
use logdur_kernel_cache::{Candidate, Choice, Decision, Hash, Kernarg, Module, Modules, Pick};
use logdur_replay::Exit;
use serde_json::{Value, json};

use super::KernelFilter;
use crate::cmd::output;

/// What is compared with what.
#[derive(Args, Clone, Debug)]
pub(super) struct Options {
    /// The folder with other kernels, as for -c.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Applications, libraries or code objects whose kernels would be swapped.
    #[arg(required = true, value_name = "APP|CODE-OBJECT")]
    applications: Vec<PathBuf>,
    #[command(flatten)]
    filter: KernelFilter,
    /// Target ID of the GPU, like gfx90a:sramecc+:xnack- [default: that of the application's code].
    #[arg(long, value_name = "TARGET")]
    agent: Option<String>,
    /// Which of several kernels that fit: newest, or the first digits of hashes, separated by commas.
    #[arg(long, value_name = "PICK")]
    pick: Option<Pick>,
    /// Print one JSON object for each kernel, one a line.
    #[arg(long)]
    json: bool,
}

/// Says of each kernel what would be done about it. Succeeds when one would be swapped; the status of the others says whether there
/// is a kernel of the name.
///
/// # Errors
/// When a folder or file is not there, or no kernel was asked about.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let agent = options.agent.as_deref().map(Target::parse).transpose()?;
    let application = super::open(&options.applications)?;
    let mut kernels = application.kernels();
    kernels.retain(|k| options.filter.takes(k));
    if kernels.is_empty() {
        let files: Vec<String> = options.applications.iter().map(|p| p.display().to_string()).collect();
        bail!("{}: expected kernels, found none", files.join(", "));
    }
    let cache = super::open_as_cache(&options.folder)?;
    let (mut status, mut lines) = (Exit::NothingToCompare, Vec::new());
    let mut known: HashMap<Hash, Option<Module>> = HashMap::new();
    for kernel in &kernels {
        let hash = application.hash(kernel)?;
        let module = || application.read(kernel).ok().and_then(|bytes| Module::of(&bytes).ok());
        let own = known.entry(hash).or_insert_with(module).as_ref();
        let modules = Modules { own, others: &[] };
        let decision = cache.decide(&kernel.interface, &hash, modules, agent.as_ref(), options.pick.as_ref());
        let decision = decision.as_launched(kernel);
        status = match (&decision, status) {
            (Decision::Swap { .. }, _) | (_, Exit::Success) => Exit::Success,
            (Decision::Nothing, status) => status,
            (Decision::Refused(_) | Decision::Running(_) | Decision::Several(_), _) => Exit::Unsupported,
        };
        if options.json {
            lines.push(as_json(kernel, &hash, &decision).to_string());
        } else {
            lines.extend(as_text(kernel, &decision));
        }
    }
    super::keep_hashes(&[&application, &cache]);
    output::lines(lines)?;
    Ok(status)
}

fn shown(choice: &Choice) -> String {
    let Choice { candidate, hash } = choice;
    format!("{} {} ({})", hash.short(), output::file(&candidate.path), candidate.place)
}

/// The kernel with what is decided, and a line for each candidate.
fn as_text(kernel: &Candidate, decision: &Decision) -> Vec<String> {
    let i = &kernel.interface;
    let title = |text: &str| format!("{} [{}]: {text}", output::demangled(&i.name), i.target);
    let list = |text: &str, choices: &[Choice]| {
        std::iter::once(title(text)).chain(choices.iter().map(|choice| format!("    {}", shown(choice)))).collect()
    };
    match decision {
        Decision::Nothing => vec![title("no other kernel of this name")],
        Decision::Swap { choice, swap } => {
            let mut lines = vec![title("swapped"), format!("    {}", shown(choice))];
            lines.extend(swap.accepted.iter().map(|accepted| format!("    {accepted}")));
            if !swap.binding.shared.is_empty() {
                lines.push(format!("    the application's variables are used: {}", swap.binding.shared.join(", ")));
            }
            if let Kernarg::Relaid(layout) = &swap.kernarg {
                let (copies, fills) = (layout.copies.len(), layout.fills.len());
                lines.push(format!(
                    "    arguments are laid anew: {copies} pieces copied, {fills} from the packet and the queue"
                ));
            }
            lines
        }
        Decision::Refused(refused) => {
            let mut lines = vec![title("not swapped")];
            for (candidate, refusals) in refused {
                lines.push(format!("    {} ({})", output::file(&candidate.path), candidate.place));
                lines.extend(refusals.iter().map(|refusal| format!("        {refusal}")));
            }
            lines
        }
        Decision::Running(choices) => {
            list("not swapped: what runs is among those that fit; choose with --pick", choices)
        }
        Decision::Several(choices) => list("not swapped: several fit; choose with --pick", choices),
    }
}

fn as_json(kernel: &Candidate, hash: &Hash, decision: &Decision) -> Value {
    let choice = |c: &Choice| {
        json!({
            "file": c.candidate.path.display().to_string(),
            "place": c.candidate.place.to_string(),
            "hash": c.hash.to_string(),
        })
    };
    let choices = |all: &[Choice]| all.iter().map(choice).collect::<Vec<Value>>();
    let (word, candidates) = match decision {
        Decision::Nothing => ("nothing", Vec::new()),
        Decision::Swap { choice: chosen, swap } => {
            let mut value = choice(chosen);
            value["relaid"] = matches!(swap.kernarg, Kernarg::Relaid(_)).into();
            value["accepted"] = swap.accepted.iter().map(ToString::to_string).collect();
            ("swap", vec![value])
        }
        Decision::Refused(refused) => {
            let one = |(c, refusals): &(Candidate, Vec<logdur_kernel_cache::Refusal>)| {
                let reasons: Vec<Value> =
                    refusals.iter().map(|r| json!({ "reason": r.reason.name(), "text": r.to_string() })).collect();
                json!({ "file": c.path.display().to_string(), "place": c.place.to_string(), "refusals": reasons })
            };
            ("refused", refused.iter().map(one).collect())
        }
        Decision::Running(all) => ("running", choices(all)),
        Decision::Several(all) => ("several", choices(all)),
    };
    json!({
        "kernel": kernel.interface.name,
        "target": kernel.interface.target.to_string(),
        "file": kernel.path.display().to_string(),
        "hash": hash.to_string(),
        "decision": word,
        "candidates": candidates,
    })
}
