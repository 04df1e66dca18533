//! Counts how often each distinct piece occurs, on all cores, exactly.
//!
//! Takes batches of documents and a splitter, gives [`PieceCounts`]. Without a split the documents
//! themselves are the pieces. Knows nothing of merges and tokens.

mod pieces;

pub use pieces::PieceCounts;
