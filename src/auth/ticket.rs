//! Owns tickets: credentials for one path, for one use and for a short time, for clients that can send no header. They are in
//! memory only, as hashes.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use subtle::ConstantTimeEq;

use super::{
    tenure::{Shown, Tenure},
    token::{Secret, TokenError, digest},
};
use crate::domain::Role;

/// Tickets that clients of one role may have waiting at once.
const MOST_WAITING: usize = 128;

/// The tickets that wait for their use.
#[derive(Debug, Default)]
pub struct Tickets {
    /// Oldest first. Held for a few instructions, never across an await.
    waiting: Mutex<Vec<Ticket>>,
}

#[derive(Debug)]
struct Ticket {
    digest: [u8; 32],
    of: NewTicket,
    until: Instant,
}

/// A ticket to be made.
#[derive(Clone, Debug)]
pub struct NewTicket {
    /// The path that it opens.
    pub path: String,
    /// The role with which it opens it.
    pub role: Role,
    /// The role of the client that asks for it: no role takes the places of the other.
    pub asked_by: Role,
    /// How long that client may do anything: the ticket ends with it, and so does what it opens.
    pub tenure: Tenure,
    /// How long it waits for its use.
    pub life: Duration,
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
    /// A new ticket, which opens its path once.
    ///
    /// # Errors
    /// `TooMany` when as many wait as a client of the role `asked_by` may have.
    pub fn issue(&self, ticket: NewTicket, now: Instant) -> Result<Secret, TicketError> {
        let secret = Secret::random().map_err(TicketError::Random)?;
        let mut waiting = self.waiting();
        waiting.retain(|ticket| ticket.until > now && !ticket.of.tenure.is_over());
        let of_role = || waiting.iter().filter(|it| it.of.asked_by == ticket.asked_by);
        if of_role().count() >= MOST_WAITING {
            let first = of_role().map(|it| it.until).min().unwrap_or(now);
            let free_in = first.saturating_duration_since(now);
            return Err(TicketError::TooMany { free_in });
        }
        waiting.push(Ticket {
            digest: digest(secret.expose()),
            until: now + ticket.life,
            of: ticket,
        });
        Ok(secret)
    }

    /// How `candidate` opens `path`. A ticket is used up by this, also at a path that it does not open.
    pub fn redeem(&self, candidate: &str, path: &str, now: Instant) -> Option<Shown> {
        let digest = digest(candidate);
        let mut waiting = self.waiting();
        let mut found = None;
        // All are compared, so that the time says nothing.
        for (place, ticket) in waiting.iter().enumerate() {
            if bool::from(ticket.digest.ct_eq(&digest)) {
                found = Some(place);
            }
        }
        let Ticket { of, until, .. } = waiting.remove(found?);
        let opens = until > now && of.path == path && !of.tenure.is_over();
        opens.then_some(Shown {
            role: of.role,
            tenure: of.tenure,
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Ticket>> {
        // The list is whole at every instruction that can panic.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::domain::LoginId;

    const LIFE: Duration = Duration::from_secs(30);
    const PATH: &str = "/v1/sessions";

    fn of(asked_by: Role) -> NewTicket {
        NewTicket {
            path: PATH.to_owned(),
            role: Role::Viewer,
            asked_by,
            tenure: Tenure::default(),
            life: LIFE,
        }
    }

    fn redeem(tickets: &Tickets, candidate: &str, path: &str, now: Instant) -> Option<Role> {
        tickets.redeem(candidate, path, now).map(|shown| shown.role)
    }

    #[test]
    fn a_ticket_opens_its_path_once_while_it_lives() {
        let (tickets, start) = (Tickets::default(), Instant::now());
        let ticket = || tickets.issue(of(Role::Operator), start).unwrap();
        let one = ticket();
        assert_eq!(redeem(&tickets, one.expose(), PATH, start), Some(Role::Viewer));
        assert_eq!(redeem(&tickets, one.expose(), PATH, start), None, "it is used");
        let late = ticket();
        assert_eq!(redeem(&tickets, late.expose(), PATH, start + LIFE), None);
        let elsewhere = ticket();
        assert_eq!(redeem(&tickets, elsewhere.expose(), "/v1/usage", start), None);
        assert_eq!(
            redeem(&tickets, elsewhere.expose(), PATH, start),
            None,
            "the attempt has used it up"
        );
        let last = ticket();
        for unknown in ["", "x", &last.expose()[1..]] {
            assert_eq!(redeem(&tickets, unknown, PATH, start), None);
        }
        let just_in_time = start + LIFE - Duration::from_nanos(1);
        assert_eq!(
            redeem(&tickets, last.expose(), PATH, just_in_time),
            Some(Role::Viewer)
        );
        assert!(!format!("{tickets:?}").contains(last.expose()));
    }

    #[test]
    fn a_ticket_ends_with_the_login_that_asked_for_it() {
        let (tickets, start) = (Tickets::default(), Instant::now());
        let ended = CancellationToken::new();
        let login = LoginId::new();
        let ticket = || {
            let tenure = Tenure::of(login, None, ended.clone());
            let ticket = NewTicket {
                tenure,
                ..of(Role::Operator)
            };
            tickets.issue(ticket, start).unwrap()
        };
        let (one, two) = (ticket(), ticket());
        let shown = tickets.redeem(one.expose(), PATH, start).unwrap();
        assert_eq!(shown.tenure.login(), Some(login));
        ended.cancel();
        assert!(shown.tenure.is_over());
        assert!(tickets.redeem(two.expose(), PATH, start).is_none());
    }

    #[test]
    fn no_role_takes_the_places_of_the_other_and_places_come_back() {
        let (tickets, start) = (Tickets::default(), Instant::now());
        let ask = |by: Role, now: Instant| tickets.issue(of(by), now);
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
