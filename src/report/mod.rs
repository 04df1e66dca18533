//! Says what a run did: numbers as JSON, pictures as one self-contained page.
//!
//! Takes plain results; computes shares and draws, reads nothing.
