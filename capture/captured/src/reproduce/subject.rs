//! What a program runs: one dispatch, or the steps of a region.

use std::collections::BTreeMap;

use logdur_capture::{Dispatch, Id, Loaded, Memory};

use crate::dispatch::{CapturedDispatch, Code, packet};
use crate::region::{CapturedPart, PartStep, Work};

/// A code object that kernels of a program are in. One that was loaded twice is two modules.
#[derive(Debug)]
pub(super) struct Module<'c> {
    /// The first kernel of it.
    pub(super) captured: &'c CapturedDispatch<'c>,
    /// The number of the first module with the same bytes.
    pub(super) file: usize,
}

impl Module<'_> {
    pub(super) fn code(&self) -> &Code {
        &self.captured.original
    }

    /// Where it was loaded, if the capture knows that.
    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.captured.loaded.filter(|loaded| loaded.base != 0)
    }

    /// The name of its file.
    pub(super) fn file_name(&self) -> String {
        if self.file == 0 { "kernel.hsaco".to_owned() } else { format!("kernel-{}.hsaco", self.file) }
    }
}

/// One operation of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'c> {
    /// Its number in the region; 0 of a dispatch that was captured alone.
    pub(super) number: u64,
    /// Memory that is written before it, if it is not the first.
    pub(super) delta: Option<&'c Memory<'c>>,
    /// What it does.
    pub(super) work: Work<'c>,
}

/// What a program runs, and the memory of all of it.
#[derive(Debug)]
pub(super) struct Subject<'c> {
    /// The dispatch; of a region, all of its dispatches as one.
    pub(super) captured: &'c CapturedDispatch<'c>,
    /// The steps of a region, if it is one.
    pub(super) part: Option<&'c CapturedPart<'c>>,
    /// The kernels, each with its first dispatch.
    pub(super) kernels: Vec<&'c CapturedDispatch<'c>>,
    /// The code objects that they are in.
    pub(super) modules: Vec<Module<'c>>,
    /// The module of each kernel.
    pub(super) module_of: Vec<usize>,
    /// What is done, in this order.
    pub(super) steps: Vec<Step<'c>>,
}

impl<'c> Subject<'c> {
    /// One dispatch.
    pub(super) fn of_dispatch(captured: &'c CapturedDispatch<'c>) -> Subject<'c> {
        let work = Work::Dispatch { kernel: 0, dispatch: captured.dispatch };
        Subject::new(captured, None, vec![captured], vec![Step { number: 0, delta: None, work }])
    }

    /// Steps of a region.
    pub(super) fn of_part(part: &'c CapturedPart<'c>) -> Subject<'c> {
        let step = |(at, step): (usize, &'c PartStep<'c>)| Step {
            number: step.step.sequence,
            // What is written before the first is what the memory begins with. What changed while a kernel ran it may have written itself.
            delta: step.delta.as_ref().filter(|_| at > 0 && !step.is_meanwhile()),
            work: step.work,
        };
        let steps = part.steps.iter().enumerate().map(step).collect();
        Subject::new(&part.captured, Some(part), part.kernels.iter().collect(), steps)
    }

    fn new(
        captured: &'c CapturedDispatch<'c>,
        part: Option<&'c CapturedPart<'c>>,
        kernels: Vec<&'c CapturedDispatch<'c>>,
        steps: Vec<Step<'c>>,
    ) -> Subject<'c> {
        let (mut modules, mut module_of): (Vec<Module<'c>>, Vec<usize>) = (Vec::new(), Vec::new());
        let place = |of: &CapturedDispatch<'_>| -> (Id, Option<(u64, u64)>) {
            (of.original.id, of.loaded.map(|loaded| (loaded.executable, loaded.base)))
        };
        for &kernel in &kernels {
            let known = modules.iter().position(|module| place(module.captured) == place(kernel));
            module_of.push(known.unwrap_or_else(|| {
                let number = modules.len();
                let file = modules.iter().position(|module| module.code().id == kernel.original.id).unwrap_or(number);
                modules.push(Module { captured: kernel, file });
                number
            }));
        }
        Subject { captured, part, kernels, modules, module_of, steps }
    }

    /// The launches: the kernel of each, by its number, and its dispatch.
    pub(super) fn launches(&self) -> impl Iterator<Item = (usize, &'c Dispatch)> {
        self.steps.iter().filter_map(|step| match step.work {
            Work::Dispatch { kernel, dispatch } => Some((kernel, &dispatch.value)),
            Work::Copy { .. } | Work::Fill { .. } | Work::Barrier => None,
        })
    }

    /// True if HIP refuses a launch, so that the program gives the packet to the GPU by itself.
    pub(super) fn has_packets(&self) -> bool {
        self.launches().any(|(kernel, dispatch)| self.kernels.get(kernel).is_some_and(|of| is_packet(of, dispatch)))
    }

    /// How often each kernel is launched, by its number.
    pub(super) fn counts(&self) -> BTreeMap<usize, u64> {
        let mut counts = BTreeMap::new();
        self.launches().for_each(|(kernel, _)| *counts.entry(kernel).or_default() += 1);
        counts
    }

    /// True if a module is where some code was loaded.
    pub(super) fn has_module_of(&self, loaded: &Loaded) -> bool {
        let is = |of: &Loaded| {
            (of.executable, of.code_object, of.base) == (loaded.executable, loaded.code_object, loaded.base)
        };
        self.modules.iter().any(|module| module.captured.loaded.is_some_and(is))
    }

    /// What "the kernel" is called in sentences about the beginning and the end: of a region, its steps.
    pub(super) fn noun(&self) -> &'static str {
        if self.part.is_some() { "the steps" } else { "the kernel" }
    }
}

/// True for a workgroup of more work-items than its kernel declares: HIP makes such launches of kernels of its own, and refuses them to others.
pub(super) fn is_packet(kernel: &CapturedDispatch<'_>, dispatch: &Dispatch) -> bool {
    work_items(dispatch) > kernel.original.kernel.max_flat_workgroup_size.into()
}

/// Work-items of a workgroup.
pub(super) fn work_items(dispatch: &Dispatch) -> u64 {
    packet(dispatch).workgroup_size().map(u64::from).iter().product()
}
