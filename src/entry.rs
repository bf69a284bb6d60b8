//! The C interface: what the runtime looks up in a tools library, and what is done when it is started and shut down. Source: ROCr's
//! `Runtime::LoadTools`.

use std::ffi::c_char;

use hsa::{Api, LiveTable};
use hsa_sys::raw::HsaApiTable;
use logdur_intercept::lifetime::Access;
use logdur_intercept::{calls, guard_large, lifetime};
use logdur_settings as settings;

use crate::descriptors::DescriptorShortage;
use crate::session::{self, Session};
use crate::{control, diagnostics, exit, hooks, markers, not_loaded, process};

/// Makes ROCr 5.3 and later load the library when it is already in the process (`LD_PRELOAD`), without `HSA_TOOLS_LIB`.
/// The number orders several such tools.
#[unsafe(no_mangle)]
pub static HSA_AMD_TOOL_PRIORITY: u32 = 50;

/// Called by the runtime at the end of its start, once in every life of it.
///
/// Always returns true: ROCr 5.2 keeps a dangling handle of a library whose `OnLoad` returned false.
///
/// # Safety
/// `table` must be the runtime's table. `failed_tool_names` is not read: it may be wild when the count is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OnLoad(
    table: *mut HsaApiTable,
    runtime_version: u64,
    failed_tool_count: u64,
    failed_tool_names: *const *const c_char,
) -> bool {
    let _ = (runtime_version, failed_tool_count, failed_tool_names);
    not_loaded::loaded();
    // SAFETY: the caller's promise.
    guard_large((), || unsafe { load(table) });
    true
}

/// Called by the runtime when it is shut down, before it destroys queues and signals.
#[unsafe(no_mangle)]
pub extern "C" fn OnUnload() {
    guard_large((), unload);
}

/// The runtime has been started.
///
/// # Safety
/// `table` must be the runtime's table.
unsafe fn load(table: *mut HsaApiTable) {
    if has_raised_privileges() {
        return;
    }
    // SAFETY: the caller's promise.
    let Ok(live) = (unsafe { LiveTable::of(table) }) else { return };
    if hooks::installed(&live) {
        return;
    }
    if let Some(session) = session::current().filter(|_| lifetime::is_runtime_up()) {
        hooks::runtime::another_started();
        tell_of_another_runtime(session, &live);
        return;
    }
    let api: &'static Api = Box::leak(Box::new(Api::copy(&live)));
    calls::set(api);
    let Some(session) = session::current().or_else(create) else { return };
    if let Err(error) = session.attach(api) {
        session.interceptor.off(format!("nothing is logged: {error}"));
        return;
    }
    session.interceptor.use_runtime(true);
    lifetime::runtime_is_up(true);
    hooks::runtime::started();
    hooks::install(&live, session.capture.is_some());
    let of_region = session.capture.into_iter().flat_map(|capture| capture.conditions());
    let conditions = session.conditions.into_iter().chain(of_region).collect();
    markers::connect(&session.interceptor, session.kernels, conditions);
    session.control.iter().for_each(|control| control.start(&session.interceptor));
}

/// True in a program with rights that its user does not have (setuid). There the library does nothing, since variables of the environment
/// must not name files.
fn has_raised_privileges() -> bool {
    // SAFETY: the call reads what the kernel has told the process, and cannot fail.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// `None` if the system has no memory left.
fn create() -> Option<&'static Session> {
    let (mut settings, problems) = settings::Interceptor::from_environment();
    let shortage = DescriptorShortage::now();
    let off = shortage.and_then(|shortage| shortage.turn_off(&mut settings));
    if let (Some(ranks), Some(rank)) = (&settings.ranks, process::rank())
        && !ranks.contains(rank)
    {
        settings.log_location = settings::LogLocation::Nowhere;
        settings.capture = None;
        if std::mem::take(&mut settings.instrumented.0) {
            // They have clones for the instrumented ranks: no kernel is swapped.
            settings.kernel_cache.0.clear();
        }
    }
    let off = off.into_iter().chain(control::limit(&mut settings));
    diagnostics::start(&settings);
    let session: &'static Session = Box::leak(Box::new(Session::new(&settings, shortage)?));
    session::install(session);
    for problem in problems {
        session.interceptor.notice(problem);
    }
    off.for_each(|off| session.interceptor.off(off));
    exit::register();
    Some(session)
}

/// The library watches one runtime of a process: a call does not show which of two runtimes it is for.
fn tell_of_another_runtime(session: &Session, live: &LiveTable) {
    let (first, other) = (hooks::watched_library(), hooks::library_of(live));
    let text = format!(
        "the process has two HSA runtimes: dispatches of {other} pass unseen, since {first} was started first; with \
         LD_PRELOAD={other} the application may use that one only"
    );
    session.interceptor.tell(&text);
    session.interceptor.notice(text);
}

/// The runtime goes: nothing of it may be touched afterwards.
fn unload() {
    if hooks::runtime::another_ends() {
        return;
    }
    markers::disconnect();
    // Done before, unless it was shut down around our hook.
    session::leave_runtime();
    let Some(session) = session::current() else { return };
    let interceptor = &session.interceptor;
    session.capture.iter().for_each(|capture| capture.report(interceptor));
    interceptor.unseen.tell(interceptor);
    session.log.write_all(interceptor, Access::Memory);
    session.log.write_account(interceptor);
    session.kernels.forget();
    session.code.forget();
    session.swapper.iter().for_each(|swapper| swapper.forget());
    session.instrument.iter().for_each(|instrument| instrument.forget());
    lifetime::runtime_is_up(false);
    hooks::restore(interceptor.api());
}
