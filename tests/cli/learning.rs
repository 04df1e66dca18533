//! What `train` learns beside the plain way.

use super::*;

/// A field of the settings in `training.json`.
fn setting(folder: &TempDir, tokenizer: &str, name: &str) -> serde_json::Value {
    let text = fs::read_to_string(folder.path().join(tokenizer).join("training.json")).expect("the record");
    let record: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    record["settings"][name].clone()
}

#[test]
fn a_score_can_be_chosen_and_is_recorded() {
    let folder = folder();
    write(&folder, "a.txt", TEXT);
    for (score, recorded) in [
        ("count", serde_json::json!("count")),
        ("count-length", serde_json::json!("count-length")),
        ("conditional:2,1,0", serde_json::json!({ "conditional": { "p": 2, "q": 1, "r": 0 } })),
    ] {
        let train = ["train", "a.txt", "-o", "made", "--merges", "5", "--score", score];
        assert_eq!(ended(&folder, &train).0, Some(0), "{score}");
        assert_eq!(setting(&folder, "made", "score"), recorded);
    }
    refuses(&folder, &train("a.txt", &["--score", "conditional:4,1,1"]), 2, &["conditional:4,1,1", "0 to 3"]);
}
