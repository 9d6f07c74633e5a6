//! Owns the proof that a client may talk to the daemon, and its role: the tokens, their files and their comparison. It knows no HTTP.

mod token;

pub use token::{Secret, TOKEN_FILE, TokenError, Tokens, VIEWER_TOKEN_FILE, check_token, read_token};
