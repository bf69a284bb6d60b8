//! The driver, the runtime and the GPUs of the machine, and whether the library is loaded.

use std::ffi::CStr;
use std::fs::{self, OpenOptions};
use std::ptr;

use hsa::sys::raw::{self, hsa_agent_info_t, hsa_agent_t, hsa_system_info_t};
use hsa::{AgentKind, Api, HsaError};
use serde_json::{Map, Value};

use crate::device::{Device, DeviceError};
use crate::finding::{CheckError, Findings};
use crate::{HELLO, Site};

type Result = std::result::Result<Findings, CheckError>;

/// Libraries of other tools that decide which tools the runtime loads, by the beginnings of their names.
const OTHER_TOOLS: &[&str] = &["librocprofiler-register", "librocprofiler-sdk", "librocprofiler64", "libroctracer64"];

/// A number of an agent, by its attribute. Source: `hsa_ext_amd.h`, which gives each its type.
const NUMBERS: &[(&str, u32)] = &[
    ("compute_units", raw::HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT.0),
    ("driver_node", raw::HSA_AMD_AGENT_INFO_DRIVER_NODE_ID.0),
    ("xccs", raw::HSA_AMD_AGENT_INFO_NUM_XCC.0),
    ("firmware", raw::HSA_AMD_AGENT_INFO_UCODE_VERSION.0),
    ("sdma_firmware", raw::HSA_AMD_AGENT_INFO_SDMA_UCODE_VERSION.0),
    ("sdma_engines", raw::HSA_AMD_AGENT_INFO_NUM_SDMA_ENG.0),
    ("timestamp_hz", raw::HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY.0),
];

/// The driver, the runtime and the agents.
pub(crate) fn agents(_: &Site) -> Result {
    let mut found = Findings::default();
    let opened = |path: &str| OpenOptions::new().read(true).write(true).open(path).map_err(|error| error.to_string());
    if let Err(error) = opened("/dev/kfd") {
        found.broken.push(format!("/dev/kfd: {error}; this user has to be in the group that owns it"));
    }
    let nodes = fs::read_dir("/dev/dri").into_iter().flatten().flatten().map(|entry| entry.path());
    let nodes: Vec<String> = nodes.map(|path| path.display().to_string()).filter(|p| p.contains("renderD")).collect();
    let closed = nodes.iter().filter(|path| opened(path).is_err()).count();
    found.figure("render_nodes", nodes.len());
    found.figure("render_nodes_that_cannot_be_opened", closed);
    // SAFETY: the function has no preconditions.
    let glibc = unsafe { libc::gnu_get_libc_version() };
    // SAFETY: it returned a text that lives as long as the process.
    let glibc = unsafe { CStr::from_ptr(glibc) };
    found.figure("glibc", glibc.to_string_lossy());

    let api = match Api::open(None) {
        Ok(api) => api,
        Err(error) => {
            found.broken.push(format!("the HSA runtime cannot be opened: {error}"));
            return Ok(found);
        }
    };
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    found.figure("runtimes", mapped(&maps, &["libhsa-runtime64"]));
    found.figure("other_tools", mapped(&maps, OTHER_TOOLS));
    if let Err(error) = api.init() {
        found.broken.push(format!("the HSA runtime does not start: {error}"));
        return Ok(found);
    }
    let (major, minor) = api.version()?;
    found.figure("hsa", format!("{major}.{minor}"));
    found.figure("runtime_build", api.build_version());
    found.figure("xnack", system_flag(&api, raw::HSA_AMD_SYSTEM_INFO_XNACK_ENABLED));
    let agents = api.agents()?;
    let gpus: Vec<Value> = agents
        .iter()
        .filter(|agent| agent.kind == AgentKind::Gpu)
        .map(|agent| {
            let mut gpu = Map::new();
            gpu.insert("name".to_owned(), agent.name.clone().into());
            gpu.insert("product".to_owned(), agent.product.clone().into());
            gpu.insert("emulated".to_owned(), agent.is_emulated().into());
            if let Some(isa) = api.isa_names(agent.handle).ok().and_then(|names| names.into_iter().next()) {
                gpu.insert("isa".to_owned(), isa.into());
            }
            for (name, attribute) in NUMBERS {
                if let Some(number) = agent_number(&api, agent.handle, *attribute) {
                    gpu.insert((*name).to_owned(), number.into());
                }
            }
            if let Some(place) = agent_number(&api, agent.handle, raw::HSA_AMD_AGENT_INFO_BDFID.0) {
                // Bus in bits 8 to 15, device in 3 to 7, function in 0 to 2 (`hsa_ext_amd.h`).
                let [bus, device, function] = [place >> 8 & 0xff, place >> 3 & 0x1f, place & 7];
                gpu.insert("bdf".to_owned(), format!("{bus:02x}:{device:02x}.{function}").into());
            }
            Value::Object(gpu)
        })
        .collect();
    found.expect(!gpus.is_empty(), || "the HSA runtime has no GPU".to_owned());
    found.figure("gpus", gpus);
    Ok(found)
}

/// What the library decides for an ordinary queue, by its own code.
pub(crate) fn queue(_: &Site) -> Result {
    let mut found = Findings::default();
    let device = match Device::start() {
        // The checks that need its kernels say that.
        Err(DeviceError::Processor(_)) => return Ok(found),
        device => device?,
    };
    let refused = device.queue(64)?.watch_in_place().err();
    let works = device.api.intercept_queues_work();
    found.figure("way", hsa::way(hsa::Wanted::Either, refused.is_some(), works).word());
    found.figure("refused", refused.map(|why| why.to_string()));
    found.figure("intercept_queues_work", works);
    Ok(found)
}

/// A number that the runtime knows of an agent; 0 in the upper half where it writes 32 bits only.
fn agent_number(api: &Api, agent: u64, attribute: u32) -> Option<u64> {
    // More room than any number needs.
    let mut value = [0u64; 8];
    let get = api.core.hsa_agent_get_info_fn?;
    let (agent, attribute) = (hsa_agent_t { handle: agent }, hsa_agent_info_t(attribute));
    // SAFETY: the attributes that are asked for are numbers of at most 64 bits.
    let status = unsafe { get(agent, attribute, value.as_mut_ptr().cast()) };
    (status == raw::HSA_STATUS_SUCCESS).then_some(value[0])
}

/// A truth about the system; `null` where the runtime does not know the question.
fn system_flag(api: &Api, attribute: hsa_system_info_t) -> Value {
    let mut value = [0u64; 2];
    let Some(get) = api.core.hsa_system_get_info_fn else { return Value::Null };
    // SAFETY: the attribute is a `bool`.
    let status = unsafe { get(attribute, ptr::from_mut(&mut value).cast()) };
    if status == raw::HSA_STATUS_SUCCESS { (value[0] & 0xff != 0).into() } else { Value::Null }
}

/// The libraries of some beginnings that are mapped, the user's folder without its name.
fn mapped(maps: &str, beginnings: &[&str]) -> Vec<String> {
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1);
    let mut paths: Vec<String> = Vec::new();
    for path in maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..])) {
        let name = path.rsplit('/').next().unwrap_or(path);
        if !beginnings.iter().any(|beginning| name.starts_with(beginning)) {
            continue;
        }
        let path = match home.as_deref().and_then(|home| path.strip_prefix(home)) {
            Some(rest) => format!("~{rest}"),
            None => path.to_owned(),
        };
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    paths
}

/// Whether the library wrote that it was loaded, and what else it wrote.
fn hello(site: &Site) -> std::result::Result<Option<String>, HsaError> {
    let api = Api::open(None)?;
    // The file is in the check's folder, and both parts write to one of their own.
    let path = site.folder.join(HELLO);
    api.init()?;
    let said = fs::read_to_string(path).unwrap_or_default();
    api.shut_down()?;
    Ok(said.lines().next().and_then(|line| line.split_once(' ')).map(|(_, said)| said.to_owned()))
}

fn loading(site: &Site) -> std::result::Result<(Findings, bool), CheckError> {
    let said = hello(site)?;
    let mut found = Findings::default();
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    found.figure("loaded", said.is_some());
    found.figure("other_tools", mapped(&maps, OTHER_TOOLS));
    Ok((found, said.is_some()))
}

/// The runtime loads the library that `omniprobe` names.
pub(crate) fn loaded(site: &Site) -> Result {
    let (mut found, is_loaded) = loading(site)?;
    found.expect(is_loaded, || {
        "the runtime does not load liblogdur.so: `ldd liblogdur.so` shows what it lacks, as a newer C library"
            .to_owned()
    });
    Ok(found)
}

/// Whether `HSA_TOOLS_LIB` alone would do; `omniprobe` sets more, so this is no fault.
pub(crate) fn loaded_by_variable(site: &Site) -> Result {
    Ok(loading(site)?.0)
}
