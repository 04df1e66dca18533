//! Tokenizers written in every format and read again; refusals where a format cannot hold a tokenizer or a file
//! is damaged.

#[path = "formats/files.rs"]
mod files;
#[path = "formats/foreign.rs"]
mod foreign;
#[path = "formats/incomplete.rs"]
mod incomplete;
#[path = "formats/made.rs"]
mod made;
#[path = "formats/normalizers.rs"]
mod normalizers;
#[path = "formats/refused.rs"]
mod refused;
#[path = "formats/same.rs"]
mod same;
#[path = "formats/splits.rs"]
mod splits;
#[path = "formats/tekken.rs"]
mod tekken;
