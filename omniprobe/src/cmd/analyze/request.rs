//! The request of an analysis, and its result.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use logdur_analysis::forms::{About, Form, Out};
use logdur_captured::{Bounds, CapturedDispatch, divided};
use logdur_observe::heat::Region;
use logdur_observe::report::{LoadedCode, Report};
use logdur_observe::{Analysis, Analyzer, Divided, Sample, Session, Wanted};
use logdur_replay::{Observed, Setup, Variant, emulated_processor, named, observed};
use omniprobe_exit::Exit;

use super::{json, show};
use crate::output::{demangled, tell};

/// In effect no limit: 34 years.
pub(crate) const NO_LIMIT: Duration = Duration::from_secs(1 << 30);

/// What is asked of dispatches, and how it is shown.
pub(super) struct Request {
    /// Analyses and checks that are shown.
    pub(super) wanted: Wanted,
    /// Reports in omniprobe's forms.
    pub(super) analyzers: Vec<Analyzer>,
    /// Bytes of a page of `Heatmap`.
    pub(super) page: u64,
    /// Parts of allocations that a dispatch may access.
    pub(super) bounds: Vec<Bounds>,
    /// Which workgroups.
    pub(super) sample: Sample,
    /// How long a dispatch may take.
    pub(super) limit: Duration,
    /// Which kernel and geometry.
    pub(super) variant: Variant,
    /// How results are written.
    pub(super) form: Form,
    /// With the code.
    pub(super) annotate: bool,
}

/// An analysed dispatch.
pub(super) struct Analysed {
    pub(super) dispatch: u64,
    pub(super) observed: Observed,
    pub(super) report: Report,
    pub(super) wanted: Wanted,
}

impl Analysed {
    /// Its status: what ended it too early, else 6 for findings.
    pub(super) fn exit(&self) -> Exit {
        match (&self.observed.fault, self.report.findings.is_empty()) {
            (Some(_), _) => Exit::Fault,
            (None, false) => Exit::Mismatch,
            (None, true) => Exit::Success,
        }
    }
}

/// Runs a dispatch, and counts instructions and LDS accesses.
///
/// # Errors
/// What keeps it from being replayed.
pub(crate) fn counted(captured: &CapturedDispatch<'_>, setup: &Setup, variant: &Variant) -> Result<(Observed, Report)> {
    let request = Request {
        wanted: Wanted { analyses: vec![Analysis::Mix, Analysis::Lds], ..Wanted::default() },
        analyzers: Vec::new(),
        page: 0,
        bounds: Vec::new(),
        sample: Sample::All,
        limit: setup.limit.unwrap_or(NO_LIMIT),
        variant: variant.clone(),
        form: Form::Json,
        annotate: false,
    };
    let analysed = request.analyse(captured)?;
    Ok((analysed.observed, analysed.report))
}

/// Where code was loaded: kernels read constants there.
fn code_of(captured: &CapturedDispatch<'_>) -> Vec<Range<u64>> {
    captured.all_loaded.iter().map(|loaded| loaded.base..loaded.base.saturating_add(loaded.size)).collect()
}

impl Request {
    /// What has to be observed.
    fn observed(&self) -> Wanted {
        let mut wanted = self.wanted.clone();
        for analyzer in &self.analyzers {
            wanted.analyses.extend(analyzer.needs());
        }
        wanted.page = self.analyzers.contains(&Analyzer::Heatmap).then_some(self.page);
        wanted
    }

    /// Runs a dispatch and observes it.
    ///
    /// # Errors
    /// What keeps it from being replayed.
    pub(super) fn analyse(&self, captured: &CapturedDispatch<'_>) -> Result<Analysed> {
        self.analyse_as(captured, &self.variant)
    }

    /// The same with another kernel or geometry.
    ///
    /// # Errors
    /// As above.
    pub(super) fn analyse_as(&self, captured: &CapturedDispatch<'_>, variant: &Variant) -> Result<Analysed> {
        let region = |named: logdur_replay::Named| Region { name: named.name, range: named.range };
        let regions = named(captured)?.into_iter().map(region).collect();
        let arch = emulated_processor(captured)?;
        let parts = divided(captured, &self.bounds)?;
        let session = Session::new(arch, self.observed(), self.sample, regions, code_of(captured));
        let session = Arc::new(session.divided(Divided { allocations: parts.allocations, parts: parts.parts }));
        let setup = Setup { limit: Some(self.limit), ..Setup::default() };
        let observed = observed(captured, &setup, variant, session.clone())?;
        let place = format!("code object {}", observed.code.id);
        let code = LoadedCode { place: &place, bytes: &observed.code.bytes, moved: observed.moved };
        let called = observed.called.iter();
        let called: Vec<LoadedCode<'_>> =
            called.map(|c| LoadedCode { place: &c.place, bytes: &c.bytes, moved: c.moved }).collect();
        let device = captured.agent.map_or("", |agent| &*agent.product);
        let report = Report::of(code, &called, &session.take(), session.regions(), device)
            .map_err(logdur_captured::CapturedError::from)?;
        if let Some(problem) = &report.problem {
            tell(format_args!("{place}: source lines: {problem}"));
        }
        Ok(Analysed { dispatch: captured.dispatch.id, observed, report, wanted: self.wanted.clone() })
    }

    /// The lines of an analysed dispatch, in the form that is asked for: first its analyses and checks, then what analyzers report.
    pub(super) fn shown(&self, analysed: &Analysed) -> Vec<String> {
        let mut all = Vec::new();
        if !self.wanted.analyses.is_empty() || !self.wanted.checks.is_empty() {
            match self.form {
                Form::Json => all.push(json::object(analysed, analysed.exit()).to_string()),
                Form::Text | Form::Csv => all.extend(show::text(analysed, self.annotate)),
            }
        }
        let kernel = demangled(&analysed.observed.code.kernel.name);
        let about = About { kernel: &kernel, id: analysed.dispatch, processor: &analysed.report.processor };
        let mut out = Out::new(self.form);
        self.analyzers.iter().for_each(|analyzer| analyzer.write(&analysed.report, &about, &mut out));
        all.extend(out.take().lines().map(str::to_owned));
        all
    }
}
