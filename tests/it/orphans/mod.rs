//! Owns the tests that no process of a session outlives it, whatever its end and whatever its tools do; and that no process of
//! anybody else is touched.
#![expect(clippy::unwrap_used, reason = "tests and their helpers fail by panicking")]

mod damage;
mod endings;
mod strays;
mod sweeps;
mod tools;
