//! The properties of the tuned dispatch that configurations depend on.

use std::fmt;
use std::path::{Path, PathBuf};

use hsa::sys::abi::aql::Packet;
use logdur_captured::{CapturedDispatch, with_causes};
use logdur_kernel_cache::{Cache, Interface, Trust};

use super::{Outcome, Sizes};
use crate::error::{ReplayError, Result};
use crate::geometry::Geometry;
use crate::replacement::{Replacement, Which, other};

/// The dispatch that is tuned.
pub struct Subject<'c> {
    /// The kernel's symbol.
    pub kernel: String,
    /// What the application dispatched.
    pub sizes: Sizes,
    packet: Packet,
    interface: Interface,
    fits: Box<Fits<'c>>,
}

/// Asks whether a file's kernel may take the captured one's place: its interface and its code object's hash; `None` for
/// code that is the same.
type Fits<'c> = dyn Fn(&Path) -> Result<Option<(Interface, String)>> + 'c;

impl fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subject").field("kernel", &self.kernel).field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl<'c> Subject<'c> {
    /// Of a captured dispatch.
    pub fn of(captured: &'c CapturedDispatch<'c>) -> Subject<'c> {
        let isa = captured.agent.map_or("", |agent| &agent.isa);
        let fits = move |path: &Path| {
            let file = Replacement::File { of: Which::All, path: path.to_owned(), checked: None };
            Ok(other(captured, &[file], isa)?.map(|other| (other.code.interface.clone(), other.code.id.to_string())))
        };
        let interface = captured.ran_instead.as_ref().unwrap_or(&captured.original).interface.clone();
        Subject::new(captured.packet(), interface, Box::new(fits))
    }

    pub(super) fn new(packet: Packet, interface: Interface, fits: Box<Fits<'c>>) -> Subject<'c> {
        let sizes = Sizes { grid: packet.grid_size(), workgroup: packet.workgroup_size().map(u32::from) };
        Subject { kernel: interface.name.clone(), sizes, packet, interface, fits }
    }

    /// The files of a folder that have a kernel of this name, sorted.
    ///
    /// # Errors
    /// When there is none.
    pub fn files(&self, folder: &Path) -> Result<Vec<PathBuf>> {
        let cache = Cache::open(&[folder.to_owned()], None, Trust::Everybody);
        let mut files: Vec<PathBuf> = cache.candidates(&self.kernel).into_iter().map(|c| c.path).collect();
        files.dedup();
        if files.is_empty() {
            let problems = cache.problems().iter().map(|p| format!("; {}: {}", p.path.display(), p.reason));
            return Err(ReplayError::Usage {
                what: folder.display().to_string(),
                expected: format!("code objects with a kernel {}", self.kernel),
                found: format!("none{}", problems.collect::<String>()),
            });
        }
        Ok(files)
    }

    /// The value of a name in expressions that is this dispatch's.
    pub fn value(&self, name: &str) -> Option<String> {
        let sizes = self.sizes.grid.iter().chain(&self.sizes.workgroup);
        super::parameter::CAPTURED
            .iter()
            .zip(sizes)
            .find(|(captured, _)| **captured == name)
            .map(|(_, size)| size.to_string())
    }

    /// The kernel of a file in this one's place.
    pub(super) fn replaced(&self, path: &Path) -> std::result::Result<Kernel, Outcome> {
        match (self.fits)(path) {
            Ok(Some((interface, hash))) => Ok(Kernel { interface, hash: Some(hash) }),
            Ok(None) => Ok(self.kernel()),
            Err(error) => Err(Outcome::Refused { text: with_causes(&error) }),
        }
    }

    /// The captured kernel.
    pub(super) fn kernel(&self) -> Kernel {
        Kernel { interface: self.interface.clone(), hash: None }
    }

    /// What is other than it was.
    ///
    /// # Errors
    /// When the kernel does not allow it: which limit.
    pub(super) fn geometry(&self, sizes: Sizes, kernel: &Kernel) -> Result<Geometry> {
        let geometry = Geometry {
            grid: Some(sizes.grid).filter(|grid| *grid != self.sizes.grid),
            workgroup: Some(sizes.workgroup).filter(|workgroup| *workgroup != self.sizes.workgroup),
            lds: None,
        };
        // What the application did with its own kernel was right.
        if geometry.is_other() || kernel.hash.is_some() {
            geometry.apply(&mut self.packet.clone(), &kernel.interface)?;
        }
        Ok(geometry)
    }
}

/// A kernel that a configuration runs.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    interface: Interface,
    pub(super) hash: Option<String>,
}

impl Kernel {
    /// True when every workgroup has to be complete.
    pub(super) fn is_uniform(&self) -> bool {
        self.interface.uniform_workgroup_size
    }
}
