//! Owns the comparison of logins. A login has two secrets, one in a cookie and one that a page keeps by itself: the cookie
//! reaches every port of the host, and so opens nothing without the other. Only their hashes are here.

use std::sync::{Mutex, MutexGuard, PoisonError};

use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::{
    tenure::{Shown, Tenure},
    token::{Secret, TokenError, digest},
};
use crate::{
    domain::{LOGIN_USE_STEP_MS, Login, LoginId, MAX_LOGINS, Role, Timestamp},
    store::LoginRow,
};

/// The logins that hold.
#[derive(Debug, Default)]
pub struct Logins {
    /// Held for a few instructions, never across an await.
    held: Mutex<Vec<Held>>,
}

#[derive(Debug)]
struct Held {
    row: LoginRow,
    ended: CancellationToken,
}

/// A new login with its secrets, which are nowhere else.
#[derive(Debug)]
pub struct NewLogin {
    /// The login, to be kept.
    pub row: LoginRow,
    /// The half for the cookie.
    pub cookie: Secret,
    /// The half for the page.
    pub key: Secret,
}

/// A login that let a request in.
#[derive(Debug)]
pub struct Entered {
    /// The role and the tenure of the request.
    pub shown: Shown,
    /// The login.
    pub login: LoginId,
    /// The place of the cookie that it has, if its use is to be noted again.
    pub renewed: Option<usize>,
}

impl NewLogin {
    /// A login with new secrets.
    ///
    /// # Errors
    /// The operating system gives no random bytes.
    pub fn make(role: Role, name: Option<String>, now: Timestamp) -> Result<Self, TokenError> {
        let (cookie, key) = (Secret::random()?, Secret::random()?);
        let login = Login {
            id: LoginId::new(),
            role,
            name,
            created_at: now,
            last_used_at: now,
        };
        let row = LoginRow {
            login,
            cookie_digest: digest(cookie.expose()),
            key_digest: digest(key.expose()),
        };
        Ok(Self { row, cookie, key })
    }
}

impl Logins {
    /// From here on a login holds. Gives those that made room for it, which have ended.
    pub fn add(&self, row: LoginRow) -> Vec<LoginId> {
        let mut held = self.held();
        let mut made_room = Vec::new();
        while held.len() >= MAX_LOGINS {
            let used = held
                .iter()
                .enumerate()
                .min_by_key(|(_, it)| it.row.login.last_used_at);
            let Some((place, _)) = used else { break };
            made_room.push(end(held.remove(place)));
        }
        let ended = CancellationToken::new();
        held.push(Held { row, ended });
        made_room
    }

    /// Lets a request in that shows both halves: one of its cookies, and the key. A use is noted once an hour.
    pub fn enter(&self, cookies: &[&str], key: &str, now: Timestamp) -> Option<Entered> {
        let cookies: Vec<_> = cookies.iter().map(|cookie| digest(cookie)).collect();
        let key = digest(key);
        let mut held = self.held();
        forget_expired(&mut held, now);
        let mut found = None;
        // All are compared, so that the time says nothing.
        for (place, it) in held.iter().enumerate() {
            let is_key = it.row.key_digest.ct_eq(&key);
            for (cookie, digest) in cookies.iter().enumerate() {
                if bool::from(it.row.cookie_digest.ct_eq(digest) & is_key) {
                    found = Some((place, cookie));
                }
            }
        }
        let (place, cookie) = found?;
        let it = held.get_mut(place)?;
        let login = &mut it.row.login;
        let is_due = now.millis_since(login.last_used_at) >= LOGIN_USE_STEP_MS;
        if is_due {
            login.last_used_at = now;
        }
        let shown = Shown {
            role: login.role,
            tenure: Tenure::of(login.id, login.name.as_deref(), it.ended.clone()),
        };
        Some(Entered {
            shown,
            login: login.id,
            renewed: is_due.then_some(cookie),
        })
    }

    /// The logins that hold, the oldest first.
    pub fn list(&self, now: Timestamp) -> Vec<Login> {
        let mut held = self.held();
        forget_expired(&mut held, now);
        held.iter().map(|it| it.row.login.clone()).collect()
    }

    /// Ends a login, and all that it has opened; `false` when it does not hold.
    pub fn end(&self, id: LoginId) -> bool {
        let mut held = self.held();
        let place = held.iter().position(|it| it.row.login.id == id);
        place.map(|place| end(held.remove(place))).is_some()
    }

    fn held(&self) -> MutexGuard<'_, Vec<Held>> {
        // The list is whole at every instruction that can panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn end(held: Held) -> LoginId {
    held.ended.cancel();
    held.row.login.id
}

fn forget_expired(held: &mut Vec<Held>, now: Timestamp) {
    for it in held.extract_if(.., |it| it.row.login.is_expired(now)) {
        end(it);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::LOGIN_LIFE_MS;

    const START: Timestamp = Timestamp::from_micros(1_767_323_045_000_000);

    fn made(logins: &Logins, at: Timestamp) -> NewLogin {
        let made = NewLogin::make(Role::Operator, None, at).unwrap();
        assert!(logins.add(made.row.clone()).is_empty());
        made
    }

    #[test]
    fn both_halves_of_one_login_let_in_and_nothing_less() {
        let logins = Logins::default();
        let (one, two) = (made(&logins, START), made(&logins, START));
        let (cookie, key) = (one.cookie.expose(), one.key.expose());
        let entered = logins.enter(&["x", cookie], key, START).unwrap();
        assert_eq!(entered.login, one.row.login.id);
        assert_eq!(entered.shown.role, Role::Operator);
        for (cookies, key) in [
            (&[cookie][..], ""),
            (&[cookie], cookie),
            (&[cookie], two.key.expose()),
            (&[], key),
            (&[key], key),
            (&[two.cookie.expose()], key),
            (&[&cookie[1..]], key),
        ] {
            assert!(logins.enter(cookies, key, START).is_none());
        }
        let shown = format!("{logins:?} {one:?}");
        assert!(!shown.contains(cookie) && !shown.contains(key), "{shown}");
    }

    #[test]
    fn a_login_holds_for_thirty_days_after_its_last_use() {
        let logins = Logins::default();
        let it = made(&logins, START);
        let enter = |at: Timestamp| logins.enter(&[it.cookie.expose()], it.key.expose(), at);
        let hour = START.plus_millis(LOGIN_USE_STEP_MS);
        let soon = enter(Timestamp::from_micros(hour.as_micros() - 1_000)).unwrap();
        assert_eq!(soon.renewed, None, "a use is noted once an hour");
        let late = START.plus_millis(LOGIN_LIFE_MS - 1);
        let entered = enter(late).unwrap();
        assert_eq!(entered.renewed, Some(0));
        assert_eq!(logins.list(late)[0].last_used_at, late);
        let end = late.plus_millis(LOGIN_LIFE_MS);
        assert!(!entered.shown.tenure.is_over());
        assert!(enter(end).is_none());
        assert!(entered.shown.tenure.is_over(), "all that it opened ends too");
        assert!(enter(START).is_none(), "it does not come back with the clock");
    }

    #[test]
    fn an_ended_login_lets_nobody_in_and_ends_what_it_opened() {
        let logins = Logins::default();
        let (one, two) = (made(&logins, START), made(&logins, START));
        let enter = |it: &NewLogin| logins.enter(&[it.cookie.expose()], it.key.expose(), START);
        let (first, second) = (enter(&one).unwrap(), enter(&two).unwrap());
        assert!(logins.end(first.login) && !logins.end(first.login));
        assert!(first.shown.tenure.is_over() && !second.shown.tenure.is_over());
        assert!(enter(&one).is_none() && enter(&two).is_some());
    }

    #[test]
    fn the_login_that_was_unused_for_the_longest_time_makes_room() {
        let logins = Logins::default();
        let first = made(&logins, START);
        let second = made(&logins, START.plus_millis(1));
        for number in 2..MAX_LOGINS {
            made(&logins, START.plus_millis(number as u64));
        }
        let later = START.plus_millis(LOGIN_USE_STEP_MS);
        logins
            .enter(&[first.cookie.expose()], first.key.expose(), later)
            .unwrap();
        let new = NewLogin::make(Role::Viewer, None, later).unwrap();
        assert_eq!(logins.add(new.row), [second.row.login.id]);
        assert_eq!(logins.list(later).len(), MAX_LOGINS);
    }
}
