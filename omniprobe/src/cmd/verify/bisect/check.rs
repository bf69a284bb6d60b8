//! The first dispatch of a region in which a check of `omniprobe analyze` finds something.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use logdur_captured::CapturedError;
use logdur_captured::region::CapturedPart;
use logdur_observe::heat::Region;
use logdur_observe::report::{LoadedCode, Report};
use logdur_observe::{Check, Sample, Session, Wanted};
use logdur_replay::region::{Launched, observed};
use logdur_replay::{Setup, emulated_processor, named};
use omniprobe_exit::Exit;
use serde_json::json;

use super::super::Options;
use super::{commands, heading};
use crate::cmd::analyze::{NO_LIMIT, finding_text};
use crate::output::{demangled, lines};

/// Runs the dispatches of a part on the emulated GPU, until the check finds something in one.
pub(super) fn look(options: &Options, check: Check, part: &CapturedPart<'_>) -> Result<Exit> {
    let arch = emulated_processor(&part.captured)?;
    let region = |named: logdur_replay::Named| Region { name: named.name, range: named.range };
    let regions = named(&part.captured)?.into_iter().map(region).collect();
    let loaded = part.captured.all_loaded.iter();
    let code = loaded.map(|loaded| loaded.base..loaded.base.saturating_add(loaded.size)).collect();
    let wanted = Wanted { checks: vec![check], ..Wanted::default() };
    let session = Arc::new(Session::new(arch, wanted, Sample::All, regions, code));
    let limit = options.target.setup().limit.unwrap_or(NO_LIMIT).max(Duration::from_secs(1));
    let setup = Setup { limit: Some(limit), ..options.target.setup() };
    let (mut found, mut failed) = (None::<(Launched, Report)>, None);
    let mut fault = None;
    let mut each = |step: &logdur_replay::region::ObservedStep<'_>| {
        let seen = session.take();
        if let Some(text) = &step.fault {
            fault = Some((step.launched.clone(), text.clone()));
        }
        if seen.findings.all.is_empty() {
            return true;
        }
        let place = format!("code object {}", step.code.id);
        let code = LoadedCode { place: &place, bytes: &step.code.bytes, moved: step.moved };
        match Report::of(code, &[], &seen, session.regions(), "") {
            Ok(report) => found = Some((step.launched.clone(), report)),
            Err(error) => failed = Some(CapturedError::from(error)),
        }
        false
    };
    let ran =
        observed(part, &setup, &options.variant.of_part(&options.target.captured, part), session.clone(), &mut each)?;
    failed.map_or(Ok(()), Err)?;
    let status = match (&found, &fault) {
        (Some(_), _) => Exit::Mismatch,
        (None, Some(_)) => Exit::Fault,
        (None, None) => Exit::Success,
    };
    let id = part.region.record.id;
    let shown = found.as_ref().map_or_else(Vec::new, |(at, _)| {
        let mut commands = commands(options, id, at, Some("analyze"));
        commands.iter_mut().skip(1).for_each(|command| *command = format!("{command} --check {}", check.word()));
        commands
    });
    let findings: Vec<String> = found.iter().flat_map(|(_, report)| finding_text(report)).collect();
    if options.target.json {
        let first = found.as_ref().map(|(at, _)| {
            let findings: Vec<&str> = findings.iter().map(|line| line.trim()).collect();
            json!({
                "step": at.step, "dispatch": at.dispatch, "kernel": at.kernel, "findings": findings, "commands": shown,
            })
        });
        let ended = fault.as_ref().map(|(at, text)| json!({ "dispatch": at.dispatch, "fault": text }));
        let all = json!({
            "region": id, "first_step": part.part.first, "last_step": part.part.last, "check": check.word(),
            "first": first, "ended_by": ended, "dispatches": ran.dispatches, "qualified": ran.qualified,
            "status": status as u8, "isa": ran.device.isa, "product": ran.device.product,
            "emulated": ran.device.emulated,
        });
        lines([all.to_string()])?;
        return Ok(status);
    }
    let mut all = heading(id, &part.part, &ran.device, &ran.qualified);
    match &found {
        Some((Launched { step, dispatch, kernel }, _)) => {
            let kernel = demangled(kernel);
            all.push(format!(
                "the first dispatch in which {} finds something: step {step}, dispatch {dispatch}, {kernel}",
                check.word()
            ));
            all.extend(findings);
            all.extend(shown.iter().map(|command| format!("  {command}")));
        }
        None => all.push(format!("{} finds nothing in {} dispatches", check.word(), ran.dispatches)),
    }
    all.extend(fault.iter().map(|(at, text)| format!("dispatch {} ended it: {text}", at.dispatch)));
    lines(all)?;
    Ok(status)
}
