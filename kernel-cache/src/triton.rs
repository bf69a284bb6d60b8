//! What Triton writes beside a code object of its cache, and the code object does not say: how its kernel is launched.
//!
//! Source: Triton 3, `compiler.py`: for a kernel NAME there are `NAME.ttir`, `NAME.ttgir`, … `NAME.hsaco`, and at the end
//! `NAME.json`, with among others `shared`, `num_warps` and `warp_size`.

use std::io;
use std::path::Path;

use amdgpu_code_object::container::Kind;
use serde_json::Value;

use crate::candidate::Candidate;
use crate::file;
use crate::packet::Launch;
use crate::rules::{Fact, Reason, Refusal};

/// The largest description that is read: real ones have some kilobytes.
const LARGEST: u64 = 1 << 20;
/// What Triton has written before, whose presence says that a description is to come.
const BEFORE: [&str; 2] = ["ttgir", "ttir"];
/// Of the description.
pub(crate) const DESCRIPTION: &str = "json";
/// Of the code object.
pub(crate) const CODE: &str = "hsaco";

/// How a candidate is launched, if Triton says it.
///
/// # Errors
/// When Triton has made it and does not say it, or the file cannot be read.
pub(crate) fn launch(candidate: &Candidate) -> Result<Option<Launch>, Refusal> {
    let path = &candidate.path;
    let is_code = candidate.place.kind == Kind::Bare && path.extension().is_some_and(|e| e == CODE);
    if !is_code {
        return Ok(None);
    }
    let of_triton = BEFORE.iter().any(|extension| path.with_extension(extension).exists());
    let description = path.with_extension(DESCRIPTION);
    match read(&description) {
        Ok(Some(launch)) => Ok(Some(launch)),
        _ if !of_triton => Ok(None),
        Ok(None) => Err(refused(&description, "something else")),
        Err(error) => Err(refused(&description, &error.to_string())),
    }
}

fn refused(path: &Path, found: &str) -> Refusal {
    let expected = format!("shared, num_warps and warp_size in {}", path.display());
    Refusal {
        reason: Reason::Description,
        expected: Fact::Text(expected.into()),
        found: Fact::Text(found.to_owned().into()),
    }
}

fn read(path: &Path) -> io::Result<Option<Launch>> {
    Ok(parse(&file::beginning(path, LARGEST)?))
}

fn parse(text: &[u8]) -> Option<Launch> {
    let description: Value = serde_json::from_slice(text).ok()?;
    let number = |key: &str| u32::try_from(description.get(key)?.as_u64()?).ok();
    Some(Launch { group: number("shared")?, work_items: number("num_warps")?.checked_mul(number("warp_size")?)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_how_much_lds_and_how_many_work_items_and_anything_else_says_nothing() {
        let text =
            br#"{"name": "attention", "num_warps": 4, "warp_size": 64, "shared": 12288, "target": {"arch": "x"}}"#;
        assert_eq!(parse(text), Some(Launch { group: 12288, work_items: 256 }));
        for text in ["", "[]", "{}", "{\"shared\": -1}", r#"{"shared": 1, "num_warps": 4294967295, "warp_size": 64}"#] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
