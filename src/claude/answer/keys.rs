//! Owns the spelling of keys. The CLI overlooks a key that it does not know, so one that is spelt almost as it should be would
//! be lost without a word, and with it what the client decided. Keys that are new pass.

use super::BadAnswer;
use crate::json;

/// Names that are short are near each other by chance.
const LEAST_FOR_A_SLIP: usize = 8;

/// Refuses a key of the object that equals a known one apart from case and all but letters and digits, and one that is a letter
/// longer or shorter than a long one.
///
/// # Errors
/// `MisspeltKey`. A value that is no object is refused elsewhere.
pub(super) fn check(object: &str, known: &[&'static str]) -> Result<(), BadAnswer> {
    let mut misspelt = None;
    json::for_each_member(object, |name, _| {
        if misspelt.is_none() && !known.contains(&name) {
            let meant = known.iter().find(|known| is_near(&folded(known), &folded(name)));
            misspelt = meant.map(|known| (name.to_owned(), *known));
        }
    });
    match misspelt {
        None => Ok(()),
        Some((given, known)) => Err(BadAnswer::MisspeltKey { given, known }),
    }
}

fn folded(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

fn is_near(known: &str, name: &str) -> bool {
    known == name
        || (known.len() >= LEAST_FOR_A_SLIP && (is_one_shorter(known, name) || is_one_shorter(name, known)))
}

/// Whether `short` is `long` without one of its letters.
fn is_one_shorter(short: &str, long: &str) -> bool {
    let mut letters = long.char_indices();
    letters.any(|(at, c)| {
        let (before, after) = (long.get(..at), long.get(at + c.len_utf8()..));
        before.zip(after).is_some_and(|(before, after)| {
            short.len() == before.len() + after.len() && short.starts_with(before) && short.ends_with(after)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_spelt_almost_as_a_known_one_is_refused() {
        let known = ["updatedInput", "behavior"];
        for (object, fits) in [
            (r#"{"behavior":1,"updatedInput":{"updated_input":1}}"#, true),
            (
                r#"{"brandNew":1,"updatedPlans":2,"updatedInputToo":3,"":3}"#,
                true,
            ),
            (r#"{"input":1,"behaviorOfAll":2}"#, true),
            ("[]", true),
            (r#"{"behavior":1,"updated_input":2}"#, false),
            (r#"{"updatedinput":1}"#, false),
            (r#"{"updated-input":1}"#, false),
            (r#"{"updatedInput ":1}"#, false),
            (r#"{"updateInput":1}"#, false),
            (r#"{"update_input":1}"#, false),
            (r#"{"updatedInputs":1}"#, false),
            (r#"{"UpdatedInput":1}"#, false),
            (r#"{"updated\u005finput":1}"#, false),
            (r#"{"updatedInput":1,"_BEHAVIOR_":1}"#, false),
        ] {
            assert_eq!(check(object, &known).is_ok(), fits, "{object}");
        }
        let said = check(r#"{"updated_input":1}"#, &known).unwrap_err().to_string();
        assert!(
            said.contains("updated_input") && said.contains("updatedInput"),
            "{said}"
        );
    }
}
