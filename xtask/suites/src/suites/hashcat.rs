//! hashcat: each kind of hash has an example, whose password the GPU has to find. Its own self-test on the GPU comes first.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::emulated;
use super::forms::{Judged, Programs, Test};
use super::place::InstalledSuite;

/// What hashcat is told beside the kind of hash, the hash and the password: the first device, the words of the password as a
/// mask, and nothing left behind.
const ARGUMENTS: &[&str] = &[
    "--backend-devices=1",
    "--attack-mode=3",
    "--potfile-disable",
    "--logfile-disable",
    "--restore-disable",
    "--force",
];

/// A test for each kind of hash that has an example, but for those that take long on hardware, too.
pub(super) fn list(place: &InstalledSuite, programs: &Programs) -> Result<Vec<Test>> {
    let Programs::With(program, [data]) = programs else { bail!("expected a program and the folder of its kernels") };
    let folder = place.folder.join(data);
    // hashcat looks for its kernels beside `/proc/self/exe`.
    let words = place.words_beside(&folder, Path::new(program))?;
    let mut ask = words.clone();
    ask.extend(["--hash-info", "--machine-readable", "--quiet"].map(str::to_owned));
    let text = emulated::listing(&ask, &folder)?;
    let start = text.find('{').context("no kinds of hashes are listed")?;
    let kinds: Value = serde_json::from_str(&text[start..]).context("what hashcat says of its kinds of hashes")?;
    let kinds = kinds.as_object().context("expected an object of kinds")?;
    let test = |(number, kind): (&String, &Value)| {
        let text = |name: &str| kind[name].as_str();
        let is_slow = kind["slow_hash"].as_bool() != Some(false);
        let is_plain = text("example_hash_format") == Some("plain") && text("password_type") == Some("plain");
        if is_slow || !is_plain {
            return None;
        }
        let mut words = words.clone();
        words.extend(ARGUMENTS.iter().map(|&word| word.to_owned()));
        words.push(format!("--hash-type={number}"));
        words.extend([text("example_hash")?.to_owned(), mask(text("example_pass")?)]);
        let name = format!("{number} {}", text("name")?);
        Some(Test { name, group: number.clone(), words, folder: folder.clone(), cache: None })
    };
    Ok(kinds.iter().filter_map(test).collect())
}

/// The mask that has one password, but for its last letter, which the GPU has to find.
fn mask(password: &str) -> String {
    let begin: String = password.chars().take(password.chars().count().saturating_sub(1)).collect();
    let last = password.chars().next_back().map_or("", |last| match last {
        'a'..='z' => "?l",
        'A'..='Z' => "?u",
        '0'..='9' => "?d",
        _ => "?s",
    });
    begin.replace('?', "??") + last
}

pub(super) fn judge(text: &str) -> Judged {
    let status = text.lines().find_map(|line| line.strip_prefix("Status...........: "));
    match status {
        Some("Cracked") => Judged { passed: 1, ..Judged::default() },
        other => {
            let said = text.lines().find(|line| line.contains("ERROR") || line.contains("failed"));
            Judged::one_failed(said.map_or_else(|| format!("the password was not found: {other:?}"), str::to_owned))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_leaves_the_last_letter_of_a_password_open() {
        let masks = ["hashcat", "a?1", "X!", ""].map(mask);
        assert_eq!(masks, ["hashca?l", "a???d", "X?s", ""]);
    }

    #[test]
    fn a_password_that_was_not_found_is_a_failure() {
        assert_eq!(judge("Session..........: hashcat\nStatus...........: Cracked\n").passed, 1);
        assert_eq!(judge("Status...........: Exhausted\n").failed.len(), 1);
        let failed = judge("* Device #1: ATTENTION! OpenCL kernel self-test failed.\n").failed;
        assert!(failed[0].contains("self-test failed"));
    }
}
