//! From the runtime's system clock, which rows have, to nanoseconds since 1970.

use crate::timeline::Track;

/// Readings of both clocks of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WallClock {
    /// The system clock and the time of day, in nanoseconds.
    pairs: Vec<(u64, u64)>,
}

impl WallClock {
    /// Takes a reading of both at one moment.
    pub fn learn(&mut self, system_ns: u64, wall_ns: u64) {
        self.pairs.push((system_ns, wall_ns));
    }

    /// A time of the system clock as nanoseconds since 1970, by the nearest reading; `None` without one.
    pub fn wall(&self, system_ns: u64) -> Option<u64> {
        let (system, wall) = self.pairs.iter().min_by_key(|(system, _)| system.abs_diff(system_ns))?;
        Some(wall.wrapping_add(system_ns.wrapping_sub(*system)))
    }
}

/// A log has no reading of the clocks.
#[derive(Debug, thiserror::Error)]
#[error(
    "{log}: expected a line \"# clocks:\", as logs of logdur have, found none: the time of day of its rows is not known"
)]
pub struct NoClocks {
    log: String,
}

/// Changes the times of all slices to nanoseconds since 1970; `logs` has names and clocks of the logs by their numbers.
///
/// # Errors
/// When a log of a track has no reading of its clocks.
pub fn to_wall(tracks: &mut [Track], logs: &[String], clocks: &[WallClock]) -> Result<(), NoClocks> {
    for track in tracks {
        let missing = || NoClocks { log: logs.get(track.log).cloned().unwrap_or_default() };
        let clock = clocks.get(track.log).filter(|clock| !clock.pairs.is_empty()).ok_or_else(missing)?;
        let wall = |time: u64| clock.wall(time).unwrap_or(time);
        for slice in &mut track.slices {
            slice.times = (wall(slice.times.0), wall(slice.times.1).max(wall(slice.times.0)));
            slice.dispatch = slice.dispatch.map(|time| wall(time).min(slice.times.0));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_reading_decides_and_a_log_without_one_is_named() {
        let mut clock = WallClock::default();
        assert_eq!(clock.wall(5), None);
        clock.learn(1000, 50_000);
        // The time of day was set meanwhile.
        clock.learn(2000, 90_000);
        assert_eq!([900, 1499, 1501, 3000].map(|time| clock.wall(time)), [49_900, 50_499, 89_501, 91_000].map(Some));
        let track = |log| Track {
            log,
            owner: crate::timeline::Owner::Gpu(0),
            process: None,
            source: crate::timeline::Source::Copies,
            lane: 0,
            slices: Vec::new(),
        };
        let logs = ["a".to_owned(), "b".to_owned()];
        let clocks = [clock, WallClock::default()];
        assert!(to_wall(&mut [track(0)], &logs, &clocks).is_ok());
        let error = to_wall(&mut [track(1)], &logs, &clocks).unwrap_err();
        assert!(error.to_string().starts_with("b: expected a line \"# clocks:\""), "{error}");
    }
}
