//! Owns the words of logins: browsers that a person let in, and for how long.

use super::{LoginId, Role, Timestamp};

/// The most logins; one more ends the one that was not used for the longest time.
pub const MAX_LOGINS: usize = 200;
/// Milliseconds for which a login holds after its last use: 30 days.
pub const LOGIN_LIFE_MS: u64 = 30 * 24 * 60 * 60 * 1_000;
/// Milliseconds after which a use is noted again, so that a busy page does not write all the time.
pub const LOGIN_USE_STEP_MS: u64 = 60 * 60 * 1_000;

/// Longest name in an author, in bytes: records take no longer authors.
const MAX_AUTHOR_NAME: usize = 240;

/// A browser that a person let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Its id.
    pub id: LoginId,
    /// The role of its requests.
    pub role: Role,
    /// A name for people.
    pub name: Option<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was used last, to the hour.
    pub last_used_at: Timestamp,
}

/// The author of what a login does, as records name it: by the name of the login, else by its id. Records take no quotes and no
/// backslashes there.
pub fn author_of_login(id: LoginId, name: Option<&str>) -> String {
    match name {
        None => format!("login:{id}"),
        Some(name) => author_of_name(name),
    }
}

/// The author of what the login of this name does.
pub fn author_of_name(name: &str) -> String {
    let end = name.floor_char_boundary(MAX_AUTHOR_NAME);
    format!("login:{}", name[..end].replace('"', "'").replace('\\', "/"))
}

impl Login {
    /// When it ends if nobody uses it.
    pub fn expires_at(&self) -> Timestamp {
        self.last_used_at.plus_millis(LOGIN_LIFE_MS)
    }

    /// Whether it has ended for want of use.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at() <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_author_is_a_login_by_its_name() {
        let author = |name| author_of_login(LoginId::new(), name);
        assert_eq!(author(Some("Chrome: \"mine\" \\o/")), "login:Chrome: 'mine' /o/");
        let long = "\u{10348}".repeat(64);
        assert!(author(Some(&long)).len() <= 256);
        assert!(author(None).starts_with("login:0"));
    }
}
