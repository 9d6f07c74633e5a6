//! Owns the proof that a client may talk to the daemon, and its role: the tokens, their files and
//! their comparison, and the tickets. It knows no HTTP.

mod ticket;
mod token;

pub use ticket::{TicketError, Tickets};
pub use token::{Secret, TOKEN_FILE, TokenError, Tokens, VIEWER_TOKEN_FILE, check_token, read_token};
