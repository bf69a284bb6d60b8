//! `omniprobe cache check`: whether kernels would be swapped.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use amdgpu_code_object::Target;
use anyhow::{Result, bail};
use clap::Args;
use logdur_kernel_cache::twins::{Loaded, Twins, Wanted, likenesses};
use logdur_kernel_cache::{Cache, Candidate, Choice, Decision, Hash, Kernarg, Module, Modules, Pick};
use omniprobe_exit::Exit;
use serde_json::{Value, json};

use super::KernelFilter;
use crate::output::{self, demangled, file};

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
    /// Which of different kernels of one name is swapped: all, or the first digits of hashes, separated by commas.
    #[arg(long, value_name = "all|HASH[,HASH]")]
    original: Option<Wanted>,
    /// Print one JSON object for each kernel, one a line.
    #[arg(long)]
    json: bool,
}

/// What is to be said of a kernel that has others of its name beside it, or why it is not swapped.
type Doubt = Result<Option<String>, String>;

/// Says of each kernel what would be done about it. Succeeds when one would be swapped; the status of the others says whether there
/// is a kernel of the name.
///
/// # Errors
/// When a folder or file is not there, or no kernel was asked about.
pub(super) fn run(options: &Options) -> Result<Exit> {
    let agent = options.agent.as_deref().map(Target::parse).transpose()?;
    let application = super::open(&options.applications)?;
    let mut kernels = application.kernels();
    let mut twins = twins(&application, &kernels)?;
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
        let its = kernel.interface.on(agent.as_ref());
        let doubt = match &decision {
            Decision::Swap { choice, .. } => {
                let loaded = Loaded { agent: target_number(kernel), interface: &its, object: &hash };
                twins.decide(loaded, choice, options.original.as_ref(), || cache.read_chosen(choice).ok())
            }
            _ => Ok(None),
        };
        status = match (&decision, status) {
            (Decision::Swap { .. }, Exit::NothingToCompare) if doubt.is_err() => Exit::Unsupported,
            (Decision::Swap { .. }, status) if doubt.is_err() => status,
            (Decision::Swap { .. }, _) | (_, Exit::Success) => Exit::Success,
            (Decision::Nothing, status) => status,
            (Decision::Refused(_) | Decision::Running(_) | Decision::Several(_), _) => Exit::Unsupported,
        };
        if options.json {
            lines.push(as_json(kernel, &hash, &decision, &doubt).to_string());
        } else {
            lines.extend(as_text(kernel, &decision, &doubt));
        }
    }
    super::keep_hashes(&[&application, &cache]);
    output::lines(lines)?;
    Ok(status)
}

/// A number for the target of a kernel: only kernels of one target are in an application at once.
fn target_number(kernel: &Candidate) -> u64 {
    let hash = Hash::of(kernel.interface.target.to_string().as_bytes());
    hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The different kernels of one name in an application.
fn twins(application: &Cache, kernels: &[Candidate]) -> Result<Twins> {
    let mut objects: HashMap<(u64, &str), BTreeMap<Hash, &Candidate>> = HashMap::new();
    for kernel in kernels {
        let of_name = objects.entry((target_number(kernel), &kernel.interface.name)).or_default();
        of_name.insert(application.hash(kernel)?, kernel);
    }
    let (mut twins, mut known) = (Twins::default(), HashMap::new());
    for ((target, name), of_name) in objects.into_iter().filter(|(_, of_name)| of_name.len() > 1) {
        for (hash, kernel) in of_name {
            let all = match known.entry(hash) {
                Entry::Occupied(all) => all.into_mut(),
                Entry::Vacant(room) => room.insert(likenesses(&application.read(kernel)?)),
            };
            if let Some(likeness) = all.iter().find(|likeness| likeness.interface.name == name) {
                twins.loaded(target, likeness.clone(), hash, || None);
            }
        }
    }
    Ok(twins)
}

fn shown(choice: &Choice) -> String {
    let Choice { candidate, hash } = choice;
    format!("{} {} ({})", hash.short(), file(&candidate.path), candidate.place)
}

/// The kernel with what is decided, and a line for each candidate.
fn as_text(kernel: &Candidate, decision: &Decision, doubt: &Doubt) -> Vec<String> {
    let i = &kernel.interface;
    let title = |text: &str| format!("{} [{}]: {text}", demangled(&i.name), i.target);
    let list = |text: &str, choices: &[Choice]| {
        std::iter::once(title(text)).chain(choices.iter().map(|choice| format!("    {}", shown(choice)))).collect()
    };
    match decision {
        Decision::Nothing => vec![title("no other kernel of this name")],
        Decision::Swap { choice, .. } if let Err(reason) = doubt => {
            vec![title("not swapped"), format!("    {}", shown(choice)), format!("        {reason}")]
        }
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
            lines.extend(doubt.iter().flatten().map(|doubt| format!("    in doubt: {doubt}")));
            lines
        }
        Decision::Refused(refused) => {
            let mut lines = vec![title("not swapped")];
            for (candidate, refusals) in refused {
                lines.push(format!("    {} ({})", file(&candidate.path), candidate.place));
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

fn as_json(kernel: &Candidate, hash: &Hash, decision: &Decision, doubt: &Doubt) -> Value {
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
            match doubt {
                Ok(None) => {}
                Ok(Some(text)) | Err(text) => value["doubt"] = text.clone().into(),
            }
            (if doubt.is_err() { "twin" } else { "swap" }, vec![value])
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
