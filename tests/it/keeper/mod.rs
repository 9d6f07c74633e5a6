//! Owns the tests of the keeper with real processes: what it does to them, and what a daemon sees of it.

mod cost;
mod faults;
mod lines;
mod link;
mod start;
mod stop;
mod support;
