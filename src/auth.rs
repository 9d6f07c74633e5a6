//! Owns the proof that a client may talk to the daemon: the token, its file and its comparison. It knows no HTTP.

mod token;

pub use token::{Secret, Token, TokenError, check_token, read_token};
