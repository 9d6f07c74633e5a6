//! Owns the spelling of keys. The CLI overlooks a key that it does not know, so one that is spelt almost as it should be would
//! be lost without a word, and with it what the client decided. Keys that are new pass.

use super::BadAnswer;
use crate::claude::json;

/// Refuses a key of the object that equals a known one apart from case and underscores.
///
/// # Errors
/// `MisspeltKey`. A value that is no object is refused elsewhere.
pub(super) fn check(object: &str, known: &[&'static str]) -> Result<(), BadAnswer> {
    let mut misspelt = None;
    json::for_each_member(object, |name, _| {
        if misspelt.is_none() && !known.contains(&name) {
            let meant = known.iter().find(|known| folded(known) == folded(name));
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
        .filter(|c| *c != '_')
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_spelt_almost_as_a_known_one_is_refused() {
        let known = ["updatedInput", "behavior"];
        for (object, fits) in [
            (r#"{"behavior":1,"updatedInput":{"updated_input":1}}"#, true),
            (r#"{"brandNew":1,"updatedInputs":2,"":3}"#, true),
            ("[]", true),
            (r#"{"behavior":1,"updated_input":2}"#, false),
            (r#"{"updatedinput":1}"#, false),
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
