//! Agents: the devices and processors that the runtime knows.

use std::ffi::c_void;
use std::fmt::{self, Display};
use std::ptr;

use hsa_sys::raw::{self, hsa_agent_info_t, hsa_agent_t, hsa_status_t};

use crate::error::call;
use crate::{Api, Result};

/// What an agent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentKind {
    /// A processor of the host.
    Cpu,
    /// A GPU.
    Gpu,
    /// Anything else.
    Other,
}

/// An agent.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its handle.
    pub handle: u64,
    /// What it is.
    pub kind: AgentKind,
    /// Name of the processor, for example `gfx90a`.
    pub name: String,
    /// Name in the shop; ends in ` (emulated)` if it is not hardware. Empty if the runtime does not say.
    pub product: String,
    /// Which device it is.
    pub identity: Identity,
}

/// Which device an agent is, independent of the order that the environment gives to agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Like `GPU-02d2f0e7ba9b4fc2`; `GPU-XX` for hardware that has none. Empty if the runtime does not say.
    pub uuid: String,
    /// Its place on the bus, like `0000:c1:00.0`. Empty if the runtime does not say.
    pub bdf: String,
    /// Which part of a device that shows as several it is; 0 for the first one, and for a whole device.
    pub partition: u32,
    /// Its node in the driver's topology.
    pub driver_node: Option<u32>,
    /// How often its clock ticks in a second; 0 if the runtime does not say.
    pub ticks_per_second: u64,
}

impl Display for Identity {
    /// What is known, as `NAME=VALUE` with blanks in between.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { uuid, bdf, partition, driver_node, ticks_per_second } = self;
        write!(f, "uuid={uuid} bdf={bdf} partition={partition}")?;
        if let Some(node) = driver_node {
            write!(f, " node={node}")?;
        }
        if *ticks_per_second != 0 {
            write!(f, " ticks_per_second={ticks_per_second}")?;
        }
        Ok(())
    }
}

impl Agent {
    /// True when this is an emulated device.
    pub fn is_emulated(&self) -> bool {
        self.product.ends_with(" (emulated)")
    }
}

/// Bytes that the runtime may write for a name attribute (`hsa.h`: 64 for every one of them).
const NAME_SIZE: usize = 64;

impl Api {
    /// The agents of the runtime, in its order.
    ///
    /// # Errors
    /// When the runtime is not initialised.
    pub fn agents(&self) -> Result<Vec<Agent>> {
        unsafe extern "C" fn collect(agent: hsa_agent_t, data: *mut c_void) -> hsa_status_t {
            // SAFETY: `data` is the vector that is passed below, which nothing else uses during the iteration.
            unsafe { (*data.cast::<Vec<u64>>()).push(agent.handle) };
            raw::HSA_STATUS_SUCCESS
        }
        let mut handles: Vec<u64> = Vec::new();
        // SAFETY: the callback takes the vector and does not keep it.
        unsafe { call!(self.core.hsa_iterate_agents_fn(Some(collect), ptr::from_mut(&mut handles).cast())) }?;
        handles.into_iter().map(|handle| self.agent(handle)).collect()
    }

    /// Bytes of an agent's data caches, level 1 first, 0 for those that it has not; all 0 when the runtime does not say.
    pub fn cache_sizes(&self, agent: u64) -> [u32; 4] {
        let mut sizes = [0u32; 4];
        let attribute = raw::HSA_AGENT_INFO_CACHE_SIZE;
        // SAFETY: the attribute is four numbers of 32 bits (`hsa.h`).
        let asked = unsafe {
            call!(self.core.hsa_agent_get_info_fn(hsa_agent_t { handle: agent }, attribute, sizes.as_mut_ptr().cast()))
        };
        if asked.is_ok() { sizes } else { [0; 4] }
    }

    fn agent(&self, handle: u64) -> Result<Agent> {
        let kind: u32 = self.agent_number(handle, raw::HSA_AGENT_INFO_DEVICE)?;
        let kind = match raw::hsa_device_type_t(kind) {
            raw::HSA_DEVICE_TYPE_CPU => AgentKind::Cpu,
            raw::HSA_DEVICE_TYPE_GPU => AgentKind::Gpu,
            _ => AgentKind::Other,
        };
        let product =
            self.agent_text(handle, hsa_agent_info_t(raw::HSA_AMD_AGENT_INFO_PRODUCT_NAME.0)).unwrap_or_default();
        let (name, identity) = (self.agent_text(handle, raw::HSA_AGENT_INFO_NAME)?, self.identity(handle));
        Ok(Agent { handle, kind, name, product, identity })
    }

    fn identity(&self, handle: u64) -> Identity {
        let number =
            |attribute: raw::hsa_amd_agent_info_s| self.agent_number(handle, hsa_agent_info_t(attribute.0)).ok();
        let uuid = self.agent_text(handle, hsa_agent_info_t(raw::HSA_AMD_AGENT_INFO_UUID.0)).unwrap_or_default();
        let place = number(raw::HSA_AMD_AGENT_INFO_BDFID);
        let bdf = place.map(|place| {
            // Bus in bits 8 to 15, device in 3 to 7, function in 0 to 2 (`hsa_ext_amd.h`).
            let [bus, device, function] = [place >> 8 & 0xff, place >> 3 & 0x1f, place & 7];
            let domain = number(raw::HSA_AMD_AGENT_INFO_DOMAIN).unwrap_or(0);
            format!("{domain:04x}:{bus:02x}:{device:02x}.{function}")
        });
        let mut ticks_per_second = 0u64;
        let attribute = hsa_agent_info_t(raw::HSA_AMD_AGENT_INFO_TIMESTAMP_FREQUENCY.0);
        let to = ptr::from_mut(&mut ticks_per_second).cast();
        // SAFETY: the attribute is a number of 64 bits.
        let asked = unsafe { call!(self.core.hsa_agent_get_info_fn(hsa_agent_t { handle }, attribute, to)) };
        Identity {
            uuid,
            bdf: bdf.unwrap_or_default(),
            // Upper four bits: the driver puts the partition's number there (`kfd_topology.c`, location_id).
            partition: place.unwrap_or(0) >> 28,
            driver_node: number(raw::HSA_AMD_AGENT_INFO_DRIVER_NODE_ID),
            ticks_per_second: asked.map_or(0, |()| ticks_per_second),
        }
    }

    /// A number that the runtime knows of an agent; the attribute's type must have the size of `u32`.
    fn agent_number(&self, handle: u64, attribute: hsa_agent_info_t) -> Result<u32> {
        // Twice the room that a number needs, should a runtime think that it is a longer one.
        let mut value = [0u32; 2];
        // SAFETY: the attribute is a number of 32 bits.
        unsafe {
            call!(self.core.hsa_agent_get_info_fn(hsa_agent_t { handle }, attribute, value.as_mut_ptr().cast()))
        }?;
        Ok(value[0])
    }

    fn agent_text(&self, handle: u64, attribute: hsa_agent_info_t) -> Result<String> {
        let mut text = [0u8; NAME_SIZE];
        // SAFETY: the attribute is a text of at most `NAME_SIZE` bytes.
        unsafe { call!(self.core.hsa_agent_get_info_fn(hsa_agent_t { handle }, attribute, text.as_mut_ptr().cast())) }?;
        let end = text.iter().position(|&b| b == 0).unwrap_or(NAME_SIZE);
        Ok(String::from_utf8_lossy(&text[..end]).trim().to_owned())
    }
}
