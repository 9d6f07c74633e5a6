//! Owns label values that come from outside: cleaned, and only so many of them.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

/// Distinct names of one kind; whatever comes after them counts as [`OTHER`].
const MOST_NAMES: usize = 64;
/// Characters of a name.
const LONGEST_NAME: usize = 64;

/// The name of what came too late for a name of its own.
const OTHER: &str = "other";
/// The name of what has none.
const UNNAMED: &str = "unnamed";

/// The names that were given out. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<Mutex<HashSet<String>>>);

impl Names {
    /// The name under which something counts.
    pub(super) fn label(&self, name: &str) -> String {
        let name = clean(name);
        // Held for a look-up. The set is whole at every instruction that can panic.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.contains(&name) {
            name
        } else if known.len() < MOST_NAMES {
            known.insert(name.clone());
            name
        } else {
            OTHER.to_owned()
        }
    }
}

/// Letters, digits, `_`, `-`, `.` and `/` of the start of a name; anything else becomes `_`.
fn clean(name: &str) -> String {
    if name.is_empty() {
        return UNNAMED.to_owned();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    name.chars()
        .take(LONGEST_NAME)
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cleaned_and_cut() {
        assert_eq!(clean("brand_new-thing.v2/x"), "brand_new-thing.v2/x");
        assert_eq!(clean("a b\"\n{é"), "a_b____");
        assert_eq!(clean(""), "unnamed");
        assert_eq!(clean(&"y".repeat(500)).len(), LONGEST_NAME);
    }

    #[test]
    fn a_name_that_was_given_out_stays() {
        let names = Names::default();
        assert_eq!(names.label("first"), "first");
        for number in 0..MOST_NAMES {
            names.label(&number.to_string());
        }
        assert_eq!(names.clone().label("first"), "first");
        assert_eq!(names.label("late"), "other");
    }
}
