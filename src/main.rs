//! The program `tokenmill`.

fn main() {}
