//! Owns the values that flags take, and the words for those that do not fit: what is expected, and an example of it.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

use crate::domain::{Timestamp, Usd};

/// A day is its beginning in UTC, as the days of `--by day` are.
pub(super) fn instant(text: &str) -> Result<Timestamp, String> {
    let is_day = text.len() == "2026-01-31".len();
    let whole = if is_day {
        format!("{text}T00:00:00Z")
    } else {
        text.to_owned()
    };
    whole
        .parse()
        .map_err(|_| "expected a day such as 2026-01-31, or a time such as 2026-01-31T12:00:00Z".to_owned())
}

/// A whole number within bounds.
pub(super) fn whole<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Clone + Display + FromStr + PartialOrd,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!(
                "expected a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// A whole number without a bound that a person comes near.
pub(super) fn count(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|_| "expected a whole number, 0 or more".to_owned())
}

/// An amount that can be a limit: `NaN` and infinity would be none.
pub(super) fn dollars(text: &str) -> Result<f64, String> {
    let amount = text.parse().ok().and_then(Usd::from_dollars);
    match amount.filter(|amount| *amount > Usd::ZERO) {
        Some(amount) => Ok(amount.as_dollars()),
        None => Err("expected an amount of dollars above 0, such as 2.50".into()),
    }
}

pub(super) fn conversation(text: &str) -> Result<String, String> {
    let id: Result<uuid::Uuid, _> = text.parse();
    id.map(|_| text.to_owned()).map_err(|_| {
        "expected the id of a conversation, such as 0d2b1f0e-6c1f-4c3e-9a51-2f3b8c5d7e90; --continue goes on with the newest \
         one of this directory"
            .to_owned()
    })
}

pub(super) fn message_id(text: &str) -> Result<uuid::Uuid, String> {
    text.parse().map_err(|_| {
        "expected the uuid of a message of the agent; `trunkline log ID --json` prints the messages with theirs"
            .to_owned()
    })
}

pub(super) fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        _ => Err("expected KEY=VALUE, such as team=web".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_its_beginning_in_utc() {
        let midnight: Timestamp = "2026-01-31T00:00:00Z".parse().unwrap();
        for text in ["2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T01:00:00+01:00"] {
            assert_eq!(instant(text), Ok(midnight), "{text}");
        }
        for text in ["", "yesterday", "2026-02-30", "31.01.2026", "2026-1-31"] {
            assert!(instant(text).unwrap_err().contains("2026-01-31"), "{text}");
        }
    }

    #[test]
    fn a_limit_of_dollars_is_one() {
        assert_eq!(dollars("2.5"), Ok(2.5));
        for text in [
            "",
            "x",
            "0",
            "-1",
            "NaN",
            "inf",
            "1e400",
            "1e30",
            "1,5",
            "0.0000000001",
        ] {
            assert!(dollars(text).unwrap_err().contains("2.50"), "{text}");
        }
    }

    #[test]
    fn a_number_out_of_its_bounds_is_told_them() {
        assert_eq!(whole(1..=500)("500"), Ok(500));
        for text in ["0", "501", "x", "-1", "", "99999999999999999999"] {
            let told = whole(1..=500)(text).unwrap_err();
            assert_eq!(told, "expected a whole number from 1 to 500", "{text}");
        }
    }
}
