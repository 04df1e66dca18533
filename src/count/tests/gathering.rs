use proptest::prelude::*;

use super::*;
use crate::observer::Silent;

proptest! {
    #[test]
    fn whole_documents_are_the_pretokens(
        texts in prop::collection::vec((0..3_usize, prop::option::of("(<s>|[ab ]){0,4}")), 0..12),
        weights in prop::collection::vec(0_u64..4, 0..3),
        joined: bool,
        size in 1..20_usize,
    ) {
        let mut documents: Vec<Document> =
            texts.into_iter().map(|(source, text)| (source, text.map(String::into_bytes))).collect();
        documents.sort_by_key(|(source, _)| *source);
        let boundary = if joined { Boundary::Join } else { Boundary::Document };
        let specials = SpecialFinder::new(&["<s>"]).expect("a token");
        let config = CountConfig { specials, weights, boundary, ..CountConfig::default() };
        let whole = splitter("none");
        let expected = reference::count_pretokens(&documents, whole.as_ref(), &config).expect("no limits");
        let gathered = gather_documents(stream(batches(&documents, size)), &config, &Silent).expect("no limits");
        let counted = count_pretokens(stream(batches(&documents, size)), whole.as_ref(), &config, &Silent);
        prop_assert_eq!(&gathered.pretokens, &expected);
        prop_assert_eq!(gathered, counted.expect("no limits"));
    }
}
