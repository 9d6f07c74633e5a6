//! Owns the reading of `rate_limit_event` lines: what the CLI says about a limit of its account.

use super::Envelope;
use crate::{
    domain::{RateLimit, Seq, Timestamp, rate_limit::MAX_LIMIT_NAME_BYTES},
    json,
};

/// The longest text of a limit that is kept, in bytes. The CLI's are a few hundred.
const MAX_INFO_BYTES: usize = 8 * 1024;

/// The limits in a `rate_limit_event` line; `None` for any other line, and for one that says nothing or too much.
pub fn read(line: &Envelope<'_>, seq: Seq, at: Timestamp) -> Option<RateLimit> {
    if !line.is("rate_limit_event") {
        return None;
    }
    let info = json::member(line.line, "rate_limit_info").filter(|info| info.len() <= MAX_INFO_BYTES)?;
    let [status, kind, utilization, resets] =
        json::members(info, ["status", "rateLimitType", "utilization", "resetsAt"])?;
    let text = |raw: Option<&str>| {
        let text = raw.and_then(json::decode_lossy)?;
        (text.len() <= MAX_LIMIT_NAME_BYTES).then(|| text.into_owned())
    };
    Some(RateLimit {
        kind: text(kind).filter(|kind| !kind.is_empty()),
        status: text(status)?,
        utilization: number(utilization),
        // Seconds since 1970.
        resets_at: number(resets).and_then(instant),
        info: serde_json::from_str(info).ok()?,
        seq,
        at,
    })
}

fn number(raw: Option<&str>) -> Option<f64> {
    raw?.parse().ok().filter(|number: &f64| number.is_finite())
}

fn instant(seconds: f64) -> Option<Timestamp> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast of a float ends at the bounds"
    )]
    let at = Timestamp::from_micros((seconds * 1e6) as i64);
    at.is_a_date().then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    fn of(info: &str) -> Option<RateLimit> {
        let line = format!(r#"{{"type":"rate_limit_event","rate_limit_info":{info},"session_id":"x"}}"#);
        read(
            &scan(line.as_bytes()).unwrap(),
            Seq::new(7),
            Timestamp::from_micros(1),
        )
    }

    #[test]
    fn a_limit_says_how_full_it_is_and_when_it_begins_anew() {
        let info = r#"{"status":"allowed_warning","resetsAt":1790000000,"rateLimitType":"five_hour","utilization":0.91}"#;
        let limit = of(info).unwrap();
        assert_eq!(limit.kind.as_deref(), Some("five_hour"));
        assert_eq!(limit.status, "allowed_warning");
        assert_eq!(limit.utilization, Some(0.91));
        assert_eq!(
            limit.resets_at,
            Some(Timestamp::from_micros(1_790_000_000_000_000))
        );
        assert_eq!(limit.info["rateLimitType"], "five_hour");
        assert_eq!(limit.seq, Seq::new(7));
    }

    #[test]
    fn a_limit_without_a_name_or_a_number_is_one_and_nonsense_is_none() {
        let limit = of(r#"{"status":"allowed","utilization":"much","resetsAt":1e300}"#).unwrap();
        assert_eq!(
            (limit.kind, limit.utilization, limit.resets_at),
            (None, None, None)
        );
        for nonsense in ["{}", "[]", "null", r#"{"status":1}"#] {
            assert_eq!(of(nonsense), None, "{nonsense}");
        }
        let long = format!(r#"{{"status":"allowed","x":"{}"}}"#, "y".repeat(9000));
        assert_eq!(of(&long), None);
        assert_eq!(
            read(
                &scan(br#"{"type":"result"}"#).unwrap(),
                Seq::ZERO,
                Timestamp::from_micros(1)
            ),
            None
        );
    }
}
