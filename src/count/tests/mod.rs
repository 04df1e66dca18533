mod counting;
mod files;
mod gathering;
mod limits;
mod spilling;
mod summing;

use arrow_array::BinaryViewArray;

use super::*;
use crate::base::int::Count;
use crate::source::Batch;
use crate::split::SplitPattern;

/// A document and the number of its source.
type Document = (usize, Option<Vec<u8>>);

fn splitter(pattern: &str) -> Box<dyn Splitter> {
    let pattern: SplitPattern = pattern.parse().expect("the name of a pattern");
    crate::split::splitter(&pattern).expect("named patterns are always right")
}

fn batch(source: usize, documents: &[Option<&[u8]>], continued: bool, open: bool) -> Batch {
    let documents = BinaryViewArray::from_iter(documents.iter().copied());
    Batch { source, unit: 0, first_row: 0, documents, columns: None, continued, open }
}

/// Batches of about `size` bytes. A document is divided where a batch is full.
fn batches(documents: &[Document], size: usize) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut rows: Vec<Option<&[u8]>> = Vec::new();
    let (mut continued, mut room, mut source) = (false, size, 0);
    for (of, document) in documents {
        if *of != source && !rows.is_empty() {
            batches.push(batch(source, &std::mem::take(&mut rows), continued, false));
            (continued, room) = (false, size);
        }
        source = *of;
        let Some(mut text) = document.as_deref() else {
            rows.push(None);
            continue;
        };
        while text.len() > room {
            let (now, later) = text.split_at(room);
            rows.push(Some(now));
            batches.push(batch(source, &std::mem::take(&mut rows), continued, true));
            (text, continued, room) = (later, true, size);
        }
        rows.push(Some(text));
        room -= text.len();
    }
    batches.push(batch(source, &rows, continued, false));
    batches
}

fn stream(batches: Vec<Batch>) -> Documents<'static> {
    Box::new(batches.into_iter().map(Ok))
}

fn documents(texts: &[&str]) -> Vec<Document> {
    texts.iter().map(|text| (0, Some(text.as_bytes().to_vec()))).collect()
}
