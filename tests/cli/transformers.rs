//! The settings for `transformers` in `tokenizer_config.json`: those given by flags, and those taken over from
//! another tokenizer.

use serde_json::{Value, json};

use super::learning::{does, read};
use super::*;

const END: [&str; 4] = ["--special-token", "<|end|>", "--eos", "<|end|>"];

/// A folder with a text, a chat template, and the tokenizer `made` of 261 tokens. The last token is `<|end|>`.
fn with_tokenizer() -> TempDir {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    write(&folder, "chat.jinja", "{{ bos_token }}\r\n{{ messages[0].content }}");
    does(&folder, &[&["train", "a.txt", "-o", "made", "--merges", "4", "--quiet"][..], &END].concat());
    folder
}

fn config(folder: &TempDir, tokenizer: &str) -> Value {
    serde_json::from_str(&read(folder, &format!("{tokenizer}/tokenizer_config.json"))).expect("JSON")
}

/// The added tokens of a `tokenizer.json` with their ids.
fn added(folder: &TempDir, tokenizer: &str) -> Vec<(String, u64)> {
    let file: Value =
        serde_json::from_str(&read(folder, &format!("{tokenizer}/tokenizer.json"))).expect("JSON");
    let token = |token: &Value| {
        assert_eq!(token["special"], true, "{token}");
        (token["content"].as_str().expect("text").to_owned(), token["id"].as_u64().expect("an id"))
    };
    file["added_tokens"].as_array().expect("a list").iter().map(token).collect()
}

fn owned(tokens: &[(&str, u64)]) -> Vec<(String, u64)> {
    tokens.iter().map(|(text, id)| ((*text).to_owned(), *id)).collect()
}

/// Without further settings, the configuration has only the class and the special tokens.
#[test]
fn without_anything_to_tell_the_file_is_as_ever() {
    let folder = with_tokenizer();
    does(&folder, &["convert", "made", "--to", "hf", "-o", "again"]);
    let plain = concat!(
        "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n",
        "  \"clean_up_tokenization_spaces\": false,\n  \"eos_token\": \"<|end|>\"\n}\n"
    );
    for tokenizer in ["made", "again"] {
        assert_eq!(read(&folder, &format!("{tokenizer}/tokenizer_config.json")), plain);
    }
    assert_eq!(read(&folder, "made/tokenizer.json"), read(&folder, "again/tokenizer.json"));
}

/// The ids equal those of `add_special_tokens` in transformers 5.23, called with the same tokens in this order.
#[test]
fn special_tokens_are_added_behind_the_last_id() {
    let folder = with_tokenizer();
    let convert = ["convert", "made", "--to", "hf", "-o", "more", "--model-max-length", "2048"];
    let tokens = ["--add-special-token", "<|user|>", "--add-special-token", "<|end|>", "--mask", "<mask>"];
    let roles = ["--pad", "<pad>", "--unk", "<|end|>", "--bos", "<pad>", "--chat-template", "chat.jinja"];
    let said = does(&folder, &[&convert[..], &tokens, &roles].concat());
    for line in [
        r#"special token "<|end|>" already exists, with id 260"#,
        r#"special token "<|user|>" is added with id 261"#,
        r#"special token "<pad>" is added with id 262"#,
    ] {
        assert!(said.contains(line), "{said}");
    }
    let expected = [("<|end|>", 260), ("<|user|>", 261), ("<pad>", 262), ("<mask>", 263)];
    assert_eq!(added(&folder, "more"), owned(&expected));
    assert_eq!(
        config(&folder, "more"),
        json!({
            "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
            "bos_token": "<pad>", "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": "<|end|>",
            "mask_token": "<mask>", "model_max_length": 2048,
            "chat_template": "{{ bos_token }}\n{{ messages[0].content }}",
        })
    );
    let again =
        ["convert", "more", "--to", "tiktoken", "-o", "ranks", "--add-special-token", "<x>", "--json"];
    let output = tokenmill(&folder).args(again).output().expect("a run");
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(result["added_special_tokens"], json!([{ "text": "<x>", "id": 264 }]));
    let said = String::from_utf8_lossy(&output.stderr);
    let left = "left out, because only the format hf can hold it: bos_token, chat_template, eos_token, mask_token, \
                model_max_length, pad_token, unk_token";
    assert!(said.contains(left), "{said}");
    // The other format keeps everything that matters for encoding.
    does(&folder, &["convert", "ranks", "--to", "hf", "-o", "back"]);
    assert_eq!(added(&folder, "back"), owned(&[&expected[..], &[("<x>", 264)]].concat()));
}

/// `train` and recipes write the same settings, and add special tokens that only a setting names.
#[test]
fn training_tells_the_same_and_adds_the_tokens_that_it_names() {
    let folder = with_tokenizer();
    let flags = ["--pad", "<pad>", "--unk", "<|end|>", "--mask", "<mask>", "--model-max-length", "512"];
    let template = ["--chat-template", "chat.jinja", "--vocab-size", "263,264"];
    let said = does(&folder, &[&["train", "a.txt", "-o", "flags"][..], &END, &flags, &template].concat());
    assert!(
        said.contains("adding the special token \"<pad>\", which is the pad token for transformers"),
        "{said}"
    );
    assert!(!said.contains("adding the special token \"<|end|>\""), "{said}");
    let recipe = "[source]\nuri = \"a.txt\"\n[train]\nvocab_size = [263, 264]\nspecial_tokens = [\"<|end|>\"]\n\
                  eos = \"<|end|>\"\npad = \"<pad>\"\nunk = \"<|end|>\"\nmask = \"<mask>\"\nmodel_max_length = 512\n\
                  chat_template = \"chat.jinja\"\n[output]\ndir = \"recipe\"\n";
    write(&folder, "r.toml", recipe);
    does(&folder, &["run", "r.toml"]);
    for tokenizer in ["flags", "recipe/tokenizer"] {
        assert_eq!(added(&folder, tokenizer), owned(&[("<|end|>", 261), ("<pad>", 262), ("<mask>", 263)]));
        assert_eq!(added(&folder, &format!("{tokenizer}/vocab-263"))[0].1, 260);
        assert_eq!(
            config(&folder, tokenizer),
            json!({
                "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false,
                "eos_token": "<|end|>", "pad_token": "<pad>", "unk_token": "<|end|>", "mask_token": "<mask>",
                "model_max_length": 512, "chat_template": "{{ bos_token }}\n{{ messages[0].content }}",
            })
        );
    }
    // A finished run is not repeated, but a changed template makes it another job.
    assert!(does(&folder, &["run", "r.toml"]).contains("nothing to do"));
    write(&folder, "chat.jinja", "other");
    refuses(&folder, &["run", "r.toml"], 2, &["recipe"]);
    // A note names the settings that only the format hf can hold.
    let ranks = ["train", "a.txt", "-o", "ranks", "--merges", "4", "--formats", "tiktoken", "--pad", "<pad>"];
    let said = does(&folder, &ranks);
    assert!(
        said.contains("`pad` of training: no effect, since only the format `hf` can store this"),
        "{said}"
    );
}

/// A name, the files beside a tokenizer, what is kept of them, and which notes are printed.
type Kept<'a> = (&'a str, &'a [(&'a str, String)], Value, &'a [&'a str]);

/// The expected values are those that `AutoTokenizer` of transformers 5.23 reads from the converted folder.
#[test]
fn what_a_tokenizer_tells_transformers_is_kept() {
    let folder = with_tokenizer();
    let add = ["--add-special-token", "<a>", "--add-special-token", "<b>"];
    does(&folder, &[&["convert", "made", "--to", "hf", "-o", "source"][..], &add].concat());
    let object = |content| {
        json!({ "content": content, "lstrip": false, "normalized": false, "rstrip": false,
                                   "single_word": false, "__type": "AddedToken" })
    };
    let cases: [Kept<'_>; 12] = [
        (
            "as version 5 saves it",
            &[(
                "tokenizer_config.json",
                json!({
                    "backend": "tokenizers", "clean_up_tokenization_spaces": true, "eos_token": "<|end|>",
                    "extra_special_tokens": ["<a>", "<b>"], "is_local": true, "local_files_only": false,
                    "mask_token": "<a>", "model_max_length": 77, "pad_token": "<b>", "padding_side": "left",
                    "tokenizer_class": "TokenizersBackend",
                })
                .to_string(),
            )],
            json!({
                "clean_up_tokenization_spaces": true, "eos_token": "<|end|>", "mask_token": "<a>",
                "extra_special_tokens": ["<a>", "<b>"], "model_max_length": 77, "pad_token": "<b>",
                "padding_side": "left",
            }),
            &[],
        ),
        (
            "as version 4 saves it",
            &[(
                "tokenizer_config.json",
                json!({
                    "add_bos_token": false, "add_prefix_space": false, "additional_special_tokens": ["<a>", object("<b>")],
                    "added_tokens_decoder": { "260": { "content": "<|end|>", "special": true } },
                    "bos_token": object("<|end|>"), "cls_token": object("<a>"), "sep_token": "<b>", "unk_token": null,
                    "chat_template": "{{ messages }}", "errors": "replace", "split_special_tokens": false,
                    "tokenizer_class": "GPT2Tokenizer",
                })
                .to_string(),
            )],
            json!({
                "clean_up_tokenization_spaces": false, "bos_token": "<|end|>", "add_bos_token": false,
                "additional_special_tokens": ["<a>", "<b>"], "cls_token": "<a>", "sep_token": "<b>",
                "chat_template": "{{ messages }}", "split_special_tokens": false,
            }),
            &[],
        ),
        (
            "no limit of the length",
            &[(
                "tokenizer_config.json",
                r#"{"model_max_length": 1000000000000000019884624838656, "eos_token": "<|end|>"}"#.to_owned(),
            )],
            json!({ "clean_up_tokenization_spaces": false, "eos_token": "<|end|>", "model_max_length": 1e30 }),
            &[],
        ),
        (
            "the old name of the length",
            &[("tokenizer_config.json", r#"{"max_len": 512}"#.to_owned())],
            json!({ "clean_up_tokenization_spaces": false, "model_max_length": 512 }),
            &[],
        ),
        (
            "tokens of a model of its own",
            &[(
                "tokenizer_config.json",
                json!({ "image_token": "<a>", "extra_special_tokens": { "audio_token": "<b>" } }).to_string(),
            )],
            json!({
                "clean_up_tokenization_spaces": false, "image_token": "<a>",
                "extra_special_tokens": { "audio_token": "<b>" },
            }),
            &[],
        ),
        (
            "a map alone",
            &[("special_tokens_map.json", json!({ "pad_token": "<a>", "eos_token": object("<b>") }).to_string())],
            json!({ "clean_up_tokenization_spaces": false, "eos_token": "<b>", "pad_token": "<a>" }),
            &[],
        ),
        (
            "a map beside a file that lists no tokens",
            &[
                ("special_tokens_map.json", json!({ "pad_token": "<a>" }).to_string()),
                ("tokenizer_config.json", json!({ "pad_token": "<b>", "unk_token": "<b>" }).to_string()),
            ],
            json!({ "clean_up_tokenization_spaces": false, "pad_token": "<a>", "unk_token": "<b>" }),
            &[],
        ),
        (
            "a map beside a file that lists them",
            &[
                ("special_tokens_map.json", json!({ "pad_token": "<a>" }).to_string()),
                ("tokenizer_config.json", json!({ "pad_token": "<b>", "added_tokens_decoder": {} }).to_string()),
            ],
            json!({ "clean_up_tokenization_spaces": false, "pad_token": "<b>" }),
            &[],
        ),
        (
            "a template in a file of its own",
            &[
                ("chat_template.jinja", "\u{FEFF}of\r\nthe file\n".to_owned()),
                ("tokenizer_config.json", json!({ "chat_template": "of the configuration" }).to_string()),
            ],
            json!({ "clean_up_tokenization_spaces": false, "chat_template": "of\nthe file\n" }),
            &[],
        ),
        (
            "several templates",
            &[
                ("chat_template.jinja", "plain".to_owned()),
                ("additional_chat_templates/tool_use.jinja", "tools".to_owned()),
                ("additional_chat_templates/notes.txt", "no template".to_owned()),
            ],
            json!({ "clean_up_tokenization_spaces": false, "chat_template": [
                { "name": "default", "template": "plain" }, { "name": "tool_use", "template": "tools" } ] }),
            &[],
        ),
        (
            "a list of templates",
            &[(
                "tokenizer_config.json",
                json!({ "chat_template": [{ "name": "default", "template": "one" }] }).to_string(),
            )],
            json!({ "clean_up_tokenization_spaces": false,
                    "chat_template": [{ "name": "default", "template": "one" }] }),
            &[],
        ),
        (
            "what cannot be kept",
            &[(
                "tokenizer_config.json",
                json!({
                    "pad_token": "<none>", "unk_token": "a", "additional_special_tokens": ["<a>", "<other>"],
                    "auto_map": { "AutoTokenizer": "mine.py" }, "model_max_length": "long", "chat_template": 5,
                })
                .to_string(),
            )],
            json!({ "clean_up_tokenization_spaces": false, "additional_special_tokens": ["<a>"] }),
            &[
                r#"pad_token "<none>" is left out, because the tokenizer has no such special token"#,
                r#"unk_token "a" is left out"#,
                r#"additional_special_tokens "<other>" is left out"#,
                r#"left out, because these keys are unknown: "auto_map", "model_max_length", "chat_template""#,
            ],
        ),
    ];
    for (number, (name, beside, expected, notes)) in cases.into_iter().enumerate() {
        let source = format!("source-{number}");
        fs::create_dir_all(folder.path().join(&source).join("additional_chat_templates")).expect("a folder");
        write(&folder, &format!("{source}/tokenizer.json"), read(&folder, "source/tokenizer.json"));
        beside.iter().for_each(|(file, text)| write(&folder, &format!("{source}/{file}"), text));
        let [converted, larger] = ["converted", "larger"].map(|made| format!("{made}-{number}"));
        let said = does(&folder, &["convert", &source, "--to", "hf", "-o", &converted]);
        notes.iter().for_each(|note| assert!(said.contains(note), "{name}: {said}"));
        let extend = ["train", "a.txt", "-o", &larger, "--merges", "6", "--extend", &source];
        let also_said = does(&folder, &extend);
        notes.iter().for_each(|note| assert!(also_said.contains(note), "{name}: {also_said}"));
        let mut expected = expected;
        expected["tokenizer_class"] = json!("PreTrainedTokenizerFast");
        for made in [&converted, &larger] {
            assert_eq!(config(&folder, made), expected, "{name}, {made}");
        }
        if notes.is_empty() {
            assert!(!said.contains("left out"), "{name}: {said}");
        }
        // Converting the result again changes nothing.
        does(&folder, &["convert", &converted, "--to", "hf", "-o", &format!("again-{number}")]);
        assert_eq!(
            read(&folder, &format!("again-{number}/tokenizer_config.json")),
            read(&folder, &format!("{converted}/tokenizer_config.json")),
            "{name}"
        );
    }
    // The length is written as an integer, although it is larger than 64 bits.
    let length = r#""model_max_length": 1000000000000000019884624838656"#;
    assert!(read(&folder, "converted-2/tokenizer_config.json").contains(length));
    // Flags take precedence over the settings of the source.
    let other = ["--pad", "<a>", "--model-max-length", "5", "--chat-template", "chat.jinja"];
    does(&folder, &[&["convert", "source-0", "--to", "hf", "-o", "changed"][..], &other].concat());
    let changed = config(&folder, "changed");
    assert_eq!(
        [
            &changed["pad_token"],
            &changed["mask_token"],
            &changed["model_max_length"],
            &changed["padding_side"]
        ],
        [&json!("<a>"), &json!("<a>"), &json!(5), &json!("left")]
    );
}

/// `--extend` gives new special tokens the first free ids, before those of new merges.
#[test]
fn a_larger_vocabulary_gets_new_special_tokens_before_its_merges() {
    let folder = with_tokenizer();
    let extend = ["train", "a.txt", "-o", "larger", "--vocab-size", "264", "--extend", "made"];
    does(&folder, &[&extend[..], &["--pad", "<pad>", "--unk", "<|end|>"]].concat());
    assert_eq!(added(&folder, "larger"), owned(&[("<|end|>", 260), ("<pad>", 261)]));
    let inspected = tokenmill(&folder).args(["inspect", "larger", "--json"]).output().expect("a run");
    let inspected: Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    assert_eq!(
        inspected["merges"].as_array().map(Vec::len),
        Some(6),
        "4, and 2 of the 3 tokens that are new"
    );
    does(&folder, &["verify-merges", "larger", "--on", "a.txt"]);
    let config = config(&folder, "larger");
    assert_eq!((&config["pad_token"], &config["eos_token"]), (&json!("<pad>"), &json!("<|end|>")));
}

/// A setting can make an existing token special, if encoding stays the same.
#[test]
fn tokens_that_are_there_become_special_where_nothing_else_changes() {
    let folder = with_tokenizer();
    let mut file: Value = serde_json::from_str(&read(&folder, "made/tokenizer.json")).expect("JSON");
    file["added_tokens"][0]["special"] = json!(false);
    file["model"]["vocab"]["<x>"] = json!(261);
    fs::create_dir(folder.path().join("odd")).expect("a folder");
    write(&folder, "odd/tokenizer.json", file.to_string());
    let convert = ["convert", "odd", "--to", "hf", "-o", "whole", "--eos", "<|end|>", "--pad", "<x>"];
    let said = does(&folder, &convert);
    assert!(said.contains(r#"token "<x>", which has id 261, is a special token now"#), "{said}");
    assert_eq!(added(&folder, "whole"), owned(&[("<|end|>", 260), ("<x>", 261)]));
}

/// Invalid templates, tokens and lengths are refused with a reason.
#[test]
fn what_cannot_be_told_is_refused_with_its_reason() {
    let folder = with_tokenizer();
    write(&folder, "latin.jinja", b"\xe9\xe8");
    write(&folder, "empty.jinja", " \n");
    write(&folder, "pointer.jinja", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n");
    fs::create_dir(folder.path().join("folder.jinja")).expect("a folder");
    let file = fs::File::create(folder.path().join("huge.jinja")).expect("a file");
    file.set_len(20 << 20).expect("a hole");
    let most = (1_u64 << 53).to_string();
    let over = ((1_u64 << 53) + 1).to_string();
    let cases: [(&[&str], i32, &str); 14] = [
        (&["--chat-template", "missing.jinja"], 1, "missing.jinja"),
        (&["--chat-template", "folder.jinja"], 1, "folder.jinja"),
        (&["--chat-template", "latin.jinja"], 1, "latin.jinja: not UTF-8"),
        (&["--chat-template", "empty.jinja"], 1, "empty.jinja: the chat template is empty"),
        (&["--chat-template", "pointer.jinja"], 1, "a Git LFS pointer"),
        (&["--chat-template", "huge.jinja"], 1, "longer than 16777216 bytes"),
        (&["--pad", ""], 2, "empty token"),
        (&["--pad", "a"], 2, r#""a" is"#),
        (&["--unk", "at"], 2, r#""at" is ordinary token 256"#),
        (&["--mask", "é"], 2, r#""é" is ordinary token 233"#),
        (&["--model-max-length", "0"], 2, "--model-max-length"),
        (&["--model-max-length", &over], 2, "--model-max-length"),
        (&["--model-max-length", "99999999999999999999"], 2, "--model-max-length"),
        (&["--model-max-length", "-1"], 2, "-1"),
    ];
    for (flags, code, said) in cases {
        refuses(
            &folder,
            &[&["convert", "made", "--to", "hf", "-o", "out"][..], flags].concat(),
            code,
            &[said],
        );
        // Training checks all flags together, and every mistake is one of usage (code 2).
        let is_learned = flags.contains(&"at");
        if !is_learned {
            refuses(&folder, &train("a.txt", flags), 2, &[]);
        }
        let extend = ["train", "a.txt", "-o", "out", "--merges", "5", "--extend", "made"];
        refuses(&folder, &[&extend[..], flags].concat(), 2, &[]);
    }
    does(&folder, &["convert", "made", "--to", "hf", "-o", "most", "--model-max-length", &most]);
    let twice = ["--add-special-token", "<x>", "--add-special-token", "<x>"];
    let convert = ["convert", "made", "--to", "hf", "-o", "out"];
    refuses(&folder, &[&convert[..], &twice].concat(), 2, &["`--add-special-token` names \"<x>\" twice"]);
    // A damaged file beside the tokenizer is an error if the format needs it, else a note.
    write(&folder, "made/chat_template.jinja", b"\xff");
    refuses(&folder, &convert, 1, &["made/chat_template.jinja: not UTF-8"]);
    let said = does(&folder, &["convert", "made", "--to", "tiktoken", "-o", "ranks"]);
    assert!(said.contains("made/chat_template.jinja"), "{said}");
}

/// `transformers` prefers this file to the template in `tokenizer_config.json`.
#[test]
fn another_template_in_the_folder_is_not_taken_for_that_which_is_written() {
    let folder = with_tokenizer();
    fs::create_dir(folder.path().join("target")).expect("a folder");
    write(&folder, "target/chat_template.jinja", "another");
    let convert = ["convert", "made", "--to", "hf", "-o", "target"];
    let template = ["--chat-template", "chat.jinja"];
    refuses(&folder, &[&convert[..], &template].concat(), 2, &["target/chat_template.jinja exists"]);
    // Without a template to write, the file does not matter.
    does(&folder, &convert);
    fs::create_dir(folder.path().join("learned")).expect("a folder");
    write(&folder, "learned/chat_template.jinja", "another");
    let said =
        does(&folder, &[&["train", "a.txt", "-o", "learned", "--merges", "4"][..], &END, &template].concat());
    assert!(said.contains("transformers uses this chat template"), "{said}");
    // A tokenizer can be converted into its own folder.
    write(&folder, "target/chat_template.jinja", "{{ bos_token }}\n{{ messages[0].content }}");
    does(&folder, &["convert", "target", "--to", "hf", "-o", "target", "--model-max-length", "9"]);
    assert_eq!(config(&folder, "target")["model_max_length"], 9);
    // Settings that the conversion does not keep are named.
    let said = does(&folder, &["convert", "made", "--to", "hf", "-o", "target", "--eos", "<|end|>"]);
    assert!(
        said.contains("of chat_template, model_max_length in tokenizer_config.json are replaced"),
        "{said}"
    );
}
