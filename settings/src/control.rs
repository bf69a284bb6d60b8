//! The lines that `omniprobe attach` and a process that can be controlled exchange, through a socket: requests, and what answers them.
//!
//! A request is a line. Its answer is some lines, the last of which is empty.

use std::path::{Path, PathBuf};

use crate::hello::{divided, escaped, unescaped};
use crate::{Feature, Value};

/// How the socket of a process is called: this, the number of the process, what follows.
pub const SOCKET_NAME: (&str, &str) = ("logdur.", ".control");

/// The most bytes of a request.
pub const LONGEST_REQUEST: usize = 256;

/// What a process is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// To say what is on.
    Status,
    /// To turn rows and features on, or all of it off that is not named before.
    Turn(Turn, Vec<Feature>),
    /// To say what kernels took since this was asked first in the connection.
    Totals,
}

/// For how long something is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Until it is turned off.
    On,
    /// It is off, but for those connections that want it.
    Off,
    /// As long as there is this connection.
    Attach,
}

const STATUS: &str = "status";
const TOTALS: &str = "totals";
const TURNS: [(Turn, &str); 3] = [(Turn::On, "on"), (Turn::Off, "off"), (Turn::Attach, "attach")];

impl Request {
    /// The line, with its end.
    pub fn to_line(&self) -> String {
        match self {
            Request::Status => format!("{STATUS}\n"),
            Request::Totals => format!("{TOTALS}\n"),
            Request::Turn(turn, features) => {
                let word = TURNS.iter().find(|(of, _)| of == turn).map_or("", |(_, word)| word);
                let features: Vec<&str> = features.iter().map(|feature| feature.name()).collect();
                format!("{word} {}\n", features.join(","))
            }
        }
    }

    /// Reads a line without its end.
    ///
    /// # Errors
    /// What was expected and what was found.
    pub fn read(line: &[u8]) -> Result<Request, String> {
        let text = std::str::from_utf8(line).map_err(|_| "expected a request of text".to_owned())?;
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        match (word, rest) {
            (STATUS, "") => Ok(Request::Status),
            (TOTALS, "") => Ok(Request::Totals),
            _ => match TURNS.iter().find(|(_, of)| *of == word) {
                Some((turn, _)) => Ok(Request::Turn(*turn, Feature::list(rest)?)),
                None => Err(format!("expected {STATUS}, {TOTALS}, on, off or attach, found {text:?}")),
            },
        }
    }
}

/// Whether a feature is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switched {
    /// It is on.
    On,
    /// It is off, and can be turned on.
    Off,
    /// It cannot be turned on: it was not named at the start, or what it needs was not set.
    Impossible,
}

const SWITCHED: [(Switched, &str); 3] =
    [(Switched::On, "on"), (Switched::Off, "off"), (Switched::Impossible, "impossible")];

/// A line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What was asked for is not done, for this reason.
    Error(String),
    /// The program of the process.
    Program(PathBuf),
    /// The file of its rows; rows go to standard output without it, or nowhere, as `Nowhere` says.
    Log(PathBuf),
    /// Its rows go nowhere.
    Nowhere,
    /// True if dispatches get rows now.
    Rows(bool),
    /// A feature, and whether it is on.
    Feature(Feature, Switched),
    /// Dispatches, copies and ranges with numbers, and those of them that have no rows since nothing was on.
    Seen {
        /// All.
        all: u64,
        /// Those without rows.
        outside: u64,
    },
    /// What all kernels took since the first question of the connection, in nanoseconds.
    Totals {
        /// How many dispatches there were.
        count: u64,
        /// Their durations together.
        total: u64,
        /// Time since that question.
        elapsed: u64,
        /// Time in which a GPU ran a dispatch, of all GPUs.
        busy: u64,
        /// GPUs that ran some.
        gpus: u64,
    },
    /// What one kernel took, in nanoseconds.
    Kernel {
        /// Its dispatches.
        count: u64,
        /// Their durations together.
        total: u64,
        /// The longest one.
        longest: u64,
        /// Its name.
        name: String,
    },
}

impl Answer {
    /// The line, with its end. Texts must be of one line.
    pub fn to_bytes(&self) -> Vec<u8> {
        let path = |word: &str, path: &Path| [word.as_bytes(), b" ", &escaped(path)].concat();
        let mut line = match self {
            Answer::Error(text) => format!("error {text}").into_bytes(),
            Answer::Program(program) => path("program", program),
            Answer::Log(log) => path("log", log),
            Answer::Nowhere => b"nowhere".to_vec(),
            Answer::Rows(are_on) => format!("rows {}", if *are_on { "on" } else { "off" }).into_bytes(),
            Answer::Feature(feature, switched) => {
                let word = SWITCHED.iter().find(|(of, _)| of == switched).map_or("", |(_, word)| word);
                format!("feature {} {word}", feature.name()).into_bytes()
            }
            Answer::Seen { all, outside } => format!("seen {all} {outside}").into_bytes(),
            Answer::Totals { count, total, elapsed, busy, gpus } => {
                format!("totals {count} {total} {elapsed} {busy} {gpus}").into_bytes()
            }
            Answer::Kernel { count, total, longest, name } => {
                format!("kernel {count} {total} {longest} {name}").into_bytes()
            }
        };
        line.push(b'\n');
        line
    }

    /// Reads a line without its end; `None` for one that a later version may write.
    pub fn read(line: &[u8]) -> Option<Answer> {
        let (word, rest) = divided(line).unwrap_or((line, b""));
        let text = || String::from_utf8_lossy(rest).into_owned();
        match word {
            b"error" => Some(Answer::Error(text())),
            b"program" => unescaped(rest).map(Answer::Program),
            b"log" => unescaped(rest).map(Answer::Log),
            b"nowhere" => Some(Answer::Nowhere),
            b"rows" => Some(Answer::Rows(rest == b"on")),
            b"feature" => {
                let (feature, switched) = divided(rest)?;
                let feature = Feature::parse(std::str::from_utf8(feature).ok()?.as_ref()).ok()?;
                let (switched, _) = SWITCHED.iter().find(|(_, word)| word.as_bytes() == switched)?;
                Some(Answer::Feature(feature, *switched))
            }
            b"seen" => numbers(rest).map(|([all, outside], _)| Answer::Seen { all, outside }),
            b"totals" => numbers(rest).map(|([count, total, elapsed, busy, gpus], _)| Answer::Totals {
                count,
                total,
                elapsed,
                busy,
                gpus,
            }),
            b"kernel" => {
                numbers(rest).map(|([count, total, longest], name)| Answer::Kernel { count, total, longest, name })
            }
            _ => None,
        }
    }
}

/// So many numbers with spaces in between, and what follows.
fn numbers<const N: usize>(text: &[u8]) -> Option<([u64; N], String)> {
    let mut parts = std::str::from_utf8(text).ok()?.splitn(N + 1, ' ');
    let mut numbers = [0; N];
    for number in &mut numbers {
        *number = parts.next()?.parse().ok()?;
    }
    Some((numbers, parts.next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_were_written() {
        for request in [
            Request::Status,
            Request::Totals,
            Request::Turn(Turn::On, Vec::new()),
            Request::Turn(Turn::Off, vec![Feature::Swap]),
            Request::Turn(Turn::Attach, Feature::ALL.to_vec()),
        ] {
            let line = request.to_line();
            assert!(line.len() <= LONGEST_REQUEST && line.ends_with('\n'));
            assert_eq!(Request::read(line.trim_end_matches('\n').as_bytes()), Ok(request));
        }
        for wrong in ["", "stop", "on log", "attach capture swap", "status now", "ON"] {
            assert!(Request::read(wrong.as_bytes()).is_err_and(|error| error.starts_with("expected ")), "{wrong}");
        }
        assert!(Request::read(b"\xff").is_err());
    }

    #[test]
    fn answers_are_read_as_they_were_written_and_what_is_not_known_is_left_out() {
        let mut answers = vec![
            Answer::Error("it is off".to_owned()),
            Answer::Program("/a b\nc%".into()),
            Answer::Log("/log 1.csv".into()),
            Answer::Nowhere,
            Answer::Rows(true),
            Answer::Rows(false),
            Answer::Seen { all: 7, outside: 0 },
            Answer::Totals { count: 1, total: 2, elapsed: 3, busy: 4, gpus: 5 },
            Answer::Kernel { count: 1, total: u64::MAX, longest: 3, name: "void f<a, b>(int, float)".to_owned() },
            Answer::Kernel { count: 1, total: 2, longest: 3, name: String::new() },
        ];
        let of = |feature| SWITCHED.map(|(switched, _)| Answer::Feature(feature, switched));
        answers.extend(Feature::ALL.into_iter().flat_map(of));
        for answer in answers {
            let line = answer.to_bytes();
            assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "{answer:?}");
            assert_eq!(Answer::read(&line[..line.len() - 1]), Some(answer));
        }
        for other in
            ["", "later 7", "seen 1", "totals 1 2 3 4 x", "kernel 1 2", "feature x on", "feature swap", "log %"]
        {
            assert_eq!(Answer::read(other.as_bytes()), None, "{other}");
        }
    }
}
