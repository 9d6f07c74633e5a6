//! Owns tickets: credentials for one path, for one use and for a short time, for clients that can send no header. They are in
//! memory only, as hashes.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use subtle::ConstantTimeEq;

use super::token::{Secret, TokenError, digest};
use crate::domain::Role;

/// Tickets that clients of one role may have waiting at once.
const MOST_WAITING: usize = 128;

/// The tickets that wait for their use.
#[derive(Debug)]
pub struct Tickets {
    life: Duration,
    /// Oldest first. Held for a few instructions, never across an await.
    waiting: Mutex<Vec<Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    digest: [u8; 32],
    path: String,
    role: Role,
    /// The role of the client that asked for it: no role takes the places of the other.
    asked_by: Role,
    until: Instant,
}

/// Why there is no ticket.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// As many wait as may.
    #[error("{MOST_WAITING} tickets wait for their use")]
    TooMany {
        /// When the oldest one ends.
        free_in: Duration,
    },
    /// The operating system gives no random bytes.
    #[error(transparent)]
    Random(TokenError),
}

impl Tickets {
    /// Tickets that live for so long.
    pub fn new(life: Duration) -> Self {
        Self {
            life,
            waiting: Mutex::default(),
        }
    }

    /// How long a ticket lives.
    pub const fn life(&self) -> Duration {
        self.life
    }

    /// A new ticket, which opens `path` once with `role`.
    ///
    /// # Errors
    /// `TooMany` when as many wait as a client of the role `asked_by` may have.
    pub fn issue(
        &self,
        path: String,
        role: Role,
        asked_by: Role,
        now: Instant,
    ) -> Result<Secret, TicketError> {
        let secret = Secret::random().map_err(TicketError::Random)?;
        let mut waiting = self.waiting();
        waiting.retain(|ticket| ticket.until > now);
        let of_role = || waiting.iter().filter(|ticket| ticket.asked_by == asked_by);
        if of_role().count() >= MOST_WAITING {
            let oldest = of_role().next().map_or(now, |ticket| ticket.until);
            let free_in = oldest.saturating_duration_since(now);
            return Err(TicketError::TooMany { free_in });
        }
        waiting.push(Ticket {
            digest: digest(secret.expose()),
            path,
            role,
            asked_by,
            until: now + self.life,
        });
        Ok(secret)
    }

    /// The role with which `candidate` opens `path`. A ticket is used up by this, also at a path that it does not open.
    pub fn redeem(&self, candidate: &str, path: &str, now: Instant) -> Option<Role> {
        let digest = digest(candidate);
        let mut waiting = self.waiting();
        let mut found = None;
        // All are compared, so that the time says nothing.
        for (place, ticket) in waiting.iter().enumerate() {
            if bool::from(ticket.digest.ct_eq(&digest)) {
                found = Some(place);
            }
        }
        let ticket = waiting.remove(found?);
        (ticket.until > now && ticket.path == path).then_some(ticket.role)
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Ticket>> {
        // The list is whole at every instruction that can panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(30);
    const PATH: &str = "/v1/sessions";

    #[test]
    fn a_ticket_opens_its_path_once_while_it_lives() {
        let (tickets, start) = (Tickets::new(LIFE), Instant::now());
        let ticket = || {
            tickets
                .issue(PATH.to_owned(), Role::Viewer, Role::Operator, start)
                .unwrap()
        };
        let one = ticket();
        assert_eq!(tickets.redeem(one.expose(), PATH, start), Some(Role::Viewer));
        assert_eq!(tickets.redeem(one.expose(), PATH, start), None, "it is used");
        let late = ticket();
        assert_eq!(tickets.redeem(late.expose(), PATH, start + LIFE), None);
        let elsewhere = ticket();
        assert_eq!(tickets.redeem(elsewhere.expose(), "/v1/usage", start), None);
        assert_eq!(
            tickets.redeem(elsewhere.expose(), PATH, start),
            None,
            "the attempt has used it up"
        );
        let last = ticket();
        for unknown in ["", "x", &last.expose()[1..]] {
            assert_eq!(tickets.redeem(unknown, PATH, start), None);
        }
        let just_in_time = start + LIFE - Duration::from_nanos(1);
        assert_eq!(
            tickets.redeem(last.expose(), PATH, just_in_time),
            Some(Role::Viewer)
        );
        assert!(!format!("{tickets:?}").contains(last.expose()));
    }

    #[test]
    fn no_role_takes_the_places_of_the_other_and_places_come_back() {
        let (tickets, start) = (Tickets::new(LIFE), Instant::now());
        let ask = |by: Role, now: Instant| tickets.issue(PATH.to_owned(), Role::Viewer, by, now);
        for _ in 0..MOST_WAITING {
            ask(Role::Viewer, start).unwrap();
        }
        let later = start + Duration::from_secs(10);
        match ask(Role::Viewer, later) {
            Err(TicketError::TooMany { free_in }) => assert_eq!(free_in, Duration::from_secs(20)),
            other => panic!("{other:?}"),
        }
        ask(Role::Operator, later).unwrap();
        ask(Role::Viewer, start + LIFE).unwrap();
    }
}
