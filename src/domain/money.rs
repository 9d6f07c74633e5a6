//! Owns money and token counts. Amounts are exact integers so that sums of turns are exact.

use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An amount in US dollars, held in billionths (the CLI prints floating-point dollars). JSON form: a number of dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(i64);

impl Usd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// From billionths of a dollar.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Billionths of a dollar.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// From dollars, rounded to a billionth; `None` for what is not a finite number in range.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * 1e9).round();
        #[expect(clippy::cast_precision_loss, reason = "only the order of magnitude matters")]
        let in_range = nanos.is_finite() && nanos.abs() < i64::MAX as f64;
        #[expect(clippy::cast_possible_truncation, reason = "range checked above")]
        in_range.then_some(Self(nanos as i64))
    }

    /// Dollars as a floating-point number.
    pub fn as_dollars(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact up to nine million dollars")]
        let nanos = self.0 as f64;
        nanos / 1e9
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Self::from_dollars(dollars).ok_or_else(|| serde::de::Error::custom("amount out of range"))
    }
}

/// The four token classes, never merged: each has its own price. Beside them, parts of one of them, and what is counted apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct TokenUsage {
    /// Tokens read fresh.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Tokens read from the prompt cache.
    pub cache_read_input_tokens: u64,
    /// Tokens written to the prompt cache.
    pub cache_creation_input_tokens: u64,
    /// Those of them that are kept there for five minutes. With the next, less than all where the CLI does not say for how long.
    #[serde(default)]
    pub cache_creation_5m_input_tokens: u64,
    /// Those of them that are kept there for an hour.
    #[serde(default)]
    pub cache_creation_1h_input_tokens: u64,
    /// Searches of the web that the model API made.
    #[serde(default)]
    pub web_search_requests: u64,
}

/// The usage and cost of one model in one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ModelUsage {
    /// The model's id as the CLI names it.
    pub model: String,
    /// Tokens of this turn.
    pub tokens: TokenUsage,
    /// Cost of this turn; `null` when the CLI did not say.
    #[schema(value_type = Option<f64>)]
    pub cost_usd: Option<Usd>,
    /// The tokens that the model's context holds; `null` when the CLI did not say.
    #[serde(default)]
    pub context_window: Option<u64>,
    /// The tokens that one answer of it may have; `null` when the CLI did not say.
    #[serde(default)]
    pub max_output_tokens: Option<u64>,
}

impl TokenUsage {
    /// Each number with that of the other.
    #[must_use]
    pub fn each_with(self, other: Self, both: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            input_tokens: both(self.input_tokens, other.input_tokens),
            output_tokens: both(self.output_tokens, other.output_tokens),
            cache_read_input_tokens: both(self.cache_read_input_tokens, other.cache_read_input_tokens),
            cache_creation_input_tokens: both(
                self.cache_creation_input_tokens,
                other.cache_creation_input_tokens,
            ),
            cache_creation_5m_input_tokens: both(
                self.cache_creation_5m_input_tokens,
                other.cache_creation_5m_input_tokens,
            ),
            cache_creation_1h_input_tokens: both(
                self.cache_creation_1h_input_tokens,
                other.cache_creation_1h_input_tokens,
            ),
            web_search_requests: both(self.web_search_requests, other.web_search_requests),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_survive_the_round_trip() {
        for dollars in [0.0, 0.1, 0.25, 0.002_400_000_000_000_000_2, 128.123_456_789] {
            let amount = Usd::from_dollars(dollars).unwrap();
            assert!((amount.as_dollars() - dollars).abs() < 1e-9, "{dollars}");
        }
        assert_eq!(Usd::from_dollars(f64::NAN), None);
        assert_eq!(Usd::from_dollars(1e300), None);
    }
}
