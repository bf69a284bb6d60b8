//! Global wave sync: barriers across the workgroups of a cooperative dispatch.
//!
//! Source: Vega ISA manual, `DS_GWS_INIT` and `DS_GWS_BARRIER`; the device library's `gws` functions, which initialise
//! a resource with the number of waves minus one.

use std::sync::Mutex;

use crate::lock;

/// Resources of a GPU.
const RESOURCES: usize = 64;

#[derive(Clone, Copy, Default)]
struct Resource {
    /// Arrivals that open the barrier, minus one.
    count: u32,
    arrived: u32,
    /// How often the barrier has opened.
    generation: u64,
}

/// A wave that has arrived and waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    resource: u32,
    generation: u64,
}

/// The resources of one GPU.
pub(crate) struct Gws(Mutex<[Resource; RESOURCES]>);

impl Default for Gws {
    fn default() -> Gws {
        Gws(Mutex::new([Resource::default(); RESOURCES]))
    }
}

impl Gws {
    /// Sets the number of arrivals, minus one.
    pub(crate) fn init(&self, resource: u32, count: u32) {
        let mut resources = lock(&self.0);
        let r = &mut resources[resource as usize % RESOURCES];
        r.count = count;
        r.arrived = 0;
    }

    /// Arrives once per ticket; true when all have.
    pub(crate) fn arrive(&self, resource: u32, ticket: &mut Option<Ticket>) -> bool {
        let mut resources = lock(&self.0);
        let r = &mut resources[resource as usize % RESOURCES];
        if let Some(t) = *ticket {
            let open = t.resource != resource || t.generation != r.generation;
            if open {
                *ticket = None;
            }
            return open;
        }
        if r.arrived >= r.count {
            r.arrived = 0;
            r.generation += 1;
            return true;
        }
        r.arrived += 1;
        *ticket = Some(Ticket { resource, generation: r.generation });
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_arrival_opens_the_barrier_for_all_and_it_can_be_used_again() {
        let gws = Gws::default();
        gws.init(3, 1);
        for _ in 0..2 {
            let (mut a, mut b) = (None, None);
            assert!(!gws.arrive(3, &mut a));
            assert!(!gws.arrive(3, &mut a), "asking again is not arriving again");
            assert!(gws.arrive(3, &mut b));
            assert!(gws.arrive(3, &mut a));
        }
    }
}
