//! Writes token ids: files that are whole or not there, and a manifest that says what each holds.
//!
//! Knows token batches and the pass-through columns, nothing of how they came about.
