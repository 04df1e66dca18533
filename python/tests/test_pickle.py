"""Pickled tokenizers."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tokenmill import Tokenizer, errors, train_from_iterator


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_keeps_everything(folder: Path, texts: list[str], protocol: int) -> None:
    tokenizer = Tokenizer.from_file(folder, special="allow")
    again = pickle.loads(pickle.dumps(tokenizer, protocol))
    assert again.fingerprint == tokenizer.fingerprint
    assert again.encode_batch(texts, eos=True) == tokenizer.encode_batch(texts, eos=True)
    assert (again.special, again.eos_token_id) == ("allow", tokenizer.eos_token_id)
    assert again.encode("<|end|>") == [tokenizer.eos_token_id]


def test_a_process_makes_a_tokenizer_once(folder: Path) -> None:
    pickled = pickle.dumps(Tokenizer.from_file(folder))
    assert pickle.loads(pickled) is pickle.loads(pickled)
    assert pickle.loads(pickle.dumps(Tokenizer.from_file(folder, special="forbid"))).special == "forbid"
    assert pickle.loads(pickled).special == "text"


def test_copies_encode_alike(tokenizer: Tokenizer, texts: list[str]) -> None:
    for again in [copy.copy(tokenizer), copy.deepcopy(tokenizer)]:
        assert again.encode_batch(texts) == tokenizer.encode_batch(texts)


def test_a_pickle_is_read_by_another_process(tokenizer: Tokenizer, tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.pickle"
    file.write_bytes(pickle.dumps(tokenizer))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).encode('the quick fox'))"
    said = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True).stdout
    assert said.strip() == str(tokenizer.encode("the quick fox"))


def test_templates_and_settings_are_kept(folder: Path, tmp_path: Path) -> None:
    copied = tmp_path / "with-template"
    Tokenizer.from_file(folder).save_pretrained(copied)
    config = copied / "tokenizer_config.json"
    more = '{"chat_template": "{{ messages }}", "model_max_length": 77,'
    config.write_text(config.read_text().replace("{", more, 1))
    again = pickle.loads(pickle.dumps(Tokenizer.from_file(copied)))
    again.save_pretrained(tmp_path / "again")
    written = (tmp_path / "again" / "tokenizer_config.json").read_text()
    assert all(setting in written for setting in ["{{ messages }}", "77", "<|end|>"])


def test_damaged_parts_are_an_error() -> None:
    function, (json, settings) = train_from_iterator(["ab"], 257).__reduce__()
    for parts in [(json[:-9], settings), (json, settings[:-9])]:
        with pytest.raises(errors.TokenmillError):
            function(*parts)
