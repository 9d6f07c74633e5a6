//! Owns the proof that a client may talk to the daemon, and its role: the tokens, their files and
//! their comparison, the tickets, and the logins of browsers. It knows no HTTP.

mod login;
mod tenure;
mod ticket;
mod token;

pub use login::{Entered, Logins, NewLogin};
pub use tenure::{Shown, Tenure};
pub use ticket::{NewTicket, TicketError, Tickets};
pub use token::{Secret, TOKEN_FILE, TokenError, Tokens, VIEWER_TOKEN_FILE, check_token, read_token};
