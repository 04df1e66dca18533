//! [`Tokenizer`] and [`DecodeStream`](crate::encode::DecodeStream): the same results as their parts.

use super::*;
use crate::base::test_support::with_threads;
use crate::error::ErrorKind;
use crate::vocab::{Format, write};

/// A tokenizer with the default configuration.
fn tokenizer(vocabulary: Vocabulary) -> Tokenizer {
    Tokenizer::new(vocabulary, EncodeConfig::default()).expect("a vocabulary that encodes")
}

/// A tokenizer of single bytes and the special token `<end>`.
fn with_specials() -> Tokenizer {
    let learned = train::reference::learn_merges(&PretokenCounts::new(), &TrainConfig::new(0));
    let specials = ["<end>".to_owned()];
    let split = SplitPattern::Named(Named::Gpt4);
    let vocabulary = Vocabulary::from_merges(&learned.merges, &specials, SpecialTokensAt::End, split);
    tokenizer(vocabulary.expect("legal"))
}

/// Number of bytes at the end of a text that begin a character which more bytes can complete.
fn open_bytes(text: &[u8]) -> usize {
    let begins = |bytes: &[u8]| {
        std::str::from_utf8(bytes).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    };
    (1..=text.len().min(3)).find(|&bytes| begins(&text[text.len() - bytes..])).unwrap_or(0)
}

proptest! {
    /// Single texts, batches and chunks give the ids of a worker, and decode to the texts.
    #[test]
    fn a_tokenizer_encodes_as_its_worker(
        vocabulary in vocabulary(),
        texts in vec(text(), 0..12),
        threads in 1usize..4,
        stretch in 1usize..20,
        ends in any::<[bool; 2]>(),
        at_once in any::<bool>(),
    ) {
        let [bos, eos] = ends.map(|put| put.then(|| vocabulary.byte_ids()[0]));
        let config = EncodeConfig { bos, eos, ..EncodeConfig::default() };
        let tokenizer = Tokenizer::new(vocabulary, config).expect("a vocabulary that encodes");
        let tokenizer = if at_once { tokenizer.prepared() } else { tokenizer };
        let mut worker = tokenizer.encoder().worker();
        let one_by_one: Vec<Vec<u32>> =
            texts.iter().map(|text| worker.encode(text).expect("encodes").iter().map(|id| id.get()).collect()).collect();
        let batch = with_threads(threads, || tokenizer.clone().encode_batch(&texts)).expect("encodes");
        prop_assert_eq!(&batch, &one_by_one);
        let in_stretches = with_threads(threads, || tokenizer.encode_in_stretches(&texts, stretch)).expect("encodes");
        prop_assert_eq!(&in_stretches, &one_by_one);
        for (text, ids) in texts.iter().zip(&one_by_one) {
            prop_assert_eq!(&tokenizer.encode(text).expect("encodes"), ids);
            prop_assert_eq!(tokenizer.count(text).expect("encodes"), ids.len());
            let [before, behind] = ends.map(|put| &[0_u8][..usize::from(put)]);
            prop_assert_eq!(tokenizer.decode(ids).expect("its own ids"), [before, text, behind].concat());
        }
    }

    /// At each id, the stream has returned all of the text but an incomplete character.
    #[test]
    fn a_stream_gives_the_whole_text_and_whole_characters(
        characters in "\\PC{0,20}",
        bytes in vec(prop_oneof![any::<u8>(), 0xC0_u8.., Just(0xE2), Just(0x82)], 0..40),
        more in vec(any::<u16>(), 0..20),
        merged in any::<bool>(),
    ) {
        // If `merged`, tokens have arbitrary bytes; otherwise the tokens are the bytes of the characters,
        // followed by others.
        let learned_from = if merged { [characters.as_bytes(), &bytes].concat() } else { Vec::new() };
        let tokenizer = tokenizer(trained(&learned_from, SplitPattern::None));
        let mut ids = tokenizer.encode([characters.as_bytes(), &bytes].concat()).expect("encodes");
        let limit = truncate_to_u32(tokenizer.vocabulary().id_limit());
        ids.extend(more.iter().map(|&id| u32::from(id) % limit));
        let mut stream = tokenizer.decode_stream();
        let mut text = String::new();
        for (number, &id) in ids.iter().enumerate() {
            text.push_str(stream.push(id).expect("a token"));
            let so_far = tokenizer.decode(&ids[..=number]).expect("tokens");
            prop_assert_eq!(&text, &String::from_utf8_lossy(&so_far[..so_far.len() - open_bytes(&so_far)]));
        }
        text.push_str(stream.finish());
        let whole = tokenizer.decode(&ids).expect("tokens");
        prop_assert_eq!(text, String::from_utf8_lossy(&whole));
        prop_assert_eq!(stream.finish(), "");
    }
}

/// A tokenizer is `Send`, `Sync` and `Clone`, and gives the same ids on all threads.
#[test]
fn one_tokenizer_serves_many_threads() {
    fn shareable<T: Send + Sync + Clone>(_: &T) {}
    let tokenizer = tokenizer(trained(b"the cat sat on the mat, the cat ate the rat", SplitPattern::None));
    shareable(&tokenizer);
    let expected = tokenizer.encode("the cat ate").expect("encodes");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let (tokenizer, expected) = (tokenizer.clone(), &expected);
            scope.spawn(move || {
                (0..50)
                    .for_each(|_| assert_eq!(tokenizer.encode("the cat ate").expect("encodes"), *expected));
            });
        }
    });
}

/// Each policy has its effect, and a batch's error names the text.
#[test]
fn special_tokens_are_dealt_with_as_asked() {
    let text = with_specials();
    let end = text.special_token("<end>").expect("it has one");
    assert_eq!((text.special_token("<start>"), text.count("a<end>").expect("encodes")), (None, 6));
    let allowing = text.with_special(SpecialPolicy::Allow).expect("a tokenizer");
    assert_eq!(allowing.encode("a<end>").expect("encodes"), [97, end]);
    assert_eq!(allowing.decode(&[97, end]).expect("tokens"), b"a<end>");
    let forbidding = text.with_special(SpecialPolicy::Forbid).expect("a tokenizer");
    let error = forbidding.encode_batch(&["a", "b", "<end>", "<end>"]).expect_err("forbidden");
    assert!(error.to_string().starts_with("the batch: row 2: "), "{error}");
    assert_eq!(forbidding.encode("a").expect("a worker that failed goes on"), [97]);
}

/// A failed id leaves a stream unchanged.
#[test]
fn ids_that_are_not_in_use_are_errors() {
    let tokenizer = with_specials();
    assert!(tokenizer.decode(&[97, 257]).is_err() && tokenizer.decode(&[u32::MAX]).is_err());
    let mut stream = tokenizer.decode_stream();
    assert_eq!(stream.push(0xC3).expect("a byte"), "");
    stream.push(257).expect_err("no token");
    assert_eq!(stream.push(0xA9).expect("a byte"), "é");
}

/// Each format is read from its file and from its folder.
#[test]
fn tokenizers_are_read_from_files_of_every_format() {
    let made = trained(b"the cat sat on the mat, the cat ate the rat", SplitPattern::Named(Named::Gpt2));
    let expected = tokenizer(made.clone()).encode("the rat").expect("encodes");
    for format in Format::ALL {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = write(&made, format, folder.path(), &Default::default()).expect("written");
        for path in [folder.path(), &paths[0]] {
            let read = Tokenizer::from_file(path).expect("a tokenizer");
            assert_eq!(read.encode("the rat").expect("encodes"), expected, "{format}");
        }
    }
    let missing = Tokenizer::from_file("no/such/tokenizer.json").map(|_| ()).expect_err("not there");
    assert_eq!(missing.kind(), ErrorKind::Failed);
}
