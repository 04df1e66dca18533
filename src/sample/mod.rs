//! Chooses the documents of a run: every n-th, shuffled, skipped, taken, up to a number of bytes.
//!
//! Takes documents in order, gives documents in order; the same ones for any number of threads. Knows
//! nothing of what they are for.
