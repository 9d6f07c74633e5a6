//! Tables of tricks.
