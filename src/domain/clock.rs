//! Owns time: the wall-clock instant of records and rows, and the one place that reads the clock.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A wall-clock instant in microseconds since the Unix epoch. JSON form: RFC 3339 in UTC with six decimals.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whether a calendar has it: what a clock said, or a file that was damaged.
    pub fn is_a_date(self) -> bool {
        jiff::Timestamp::from_microsecond(self.0).is_ok()
    }

    /// The instant this many milliseconds later.
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        let micros = i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(1_000);
        Self(self.0.saturating_add(micros))
    }

    /// Milliseconds from `earlier` to this instant; 0 when the clock was set back.
    pub fn millis_since(self, earlier: Self) -> u64 {
        u64::try_from((self.0 - earlier.0) / 1_000).unwrap_or(0)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(instant) => write!(f, "{instant:.6}"),
            Err(_) => f.write_str("1970-01-01T00:00:00.000000Z"),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<jiff::Timestamp>()
            .map(|instant| Self(instant.as_microsecond()))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where the program takes the time from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The current instant.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the wall clock"
    )]
    pub fn now(self) -> Timestamp {
        Timestamp(jiff::Timestamp::now().as_microsecond())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_form_is_rfc_3339_with_six_decimals() {
        let instant = Timestamp::from_micros(1_767_323_045_678_901);
        let json = serde_json::to_string(&instant).unwrap();
        assert_eq!(json, r#""2026-01-02T03:04:05.678901Z""#);
        assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), instant);
    }
}
