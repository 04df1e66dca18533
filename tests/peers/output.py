"""Checks that datasets, pyarrow, DuckDB and numpy load the output with the documented rows, types and columns."""

import json
import logging.handlers
import queue
import struct
from collections import Counter
from pathlib import Path

import datasets
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer

from program import SPECIAL

REPOSITORY = Path(__file__).resolve().parents[2]

TAKE = 20_000

# Tokens per packed row.
LENGTH = 64

RECIPE = """
[source]
uri = {uri}
column = "line"

[sample]
take = {take}

[train]
vocab_size = 2_000
special_tokens = ["{special}"]

[encode]
columns = ["gutenberg_id"]
eos = "{special}"

[output]
dir = "output"
"""


def check_ids(setting):
    """Checks the same rows in the formats `bin` and `megatron`, read as nanoGPT and Megatron-LM read them."""
    recipe = setting.scratch / "output.toml"
    promised = promised_ids(setting.scratch / "output")
    for name in ["bin", "megatron"]:
        text = recipe.read_text(encoding="utf-8").replace('columns = ["gutenberg_id"]\n', "")
        other = setting.scratch / f"output-{name}.toml"
        text = text.replace('dir = "output"', f'dir = "output-{name}"\nformat = "{name}"')
        other.write_text(text, encoding="utf-8")
        setting.run("run", other, "--quiet")
        [data] = sorted((setting.scratch / f"output-{name}" / "data").glob("*.bin"))
        rows = (with_offsets if name == "bin" else with_mmididx)(data)
        assert len(rows) == len(promised), (len(rows), len(promised))
        assert all(np.array_equal(row, ids) for row, ids in zip(rows, promised, strict=True))
        yield f"numpy: {len(rows)} documents of {name}, {rows[0].dtype}"


def check_nanogpt(setting):
    """Checks `one_file` with the code in docs/formats.md that reads each split as nanoGPT does."""
    recipe = (setting.scratch / "output.toml").read_text(encoding="utf-8").replace('columns = ["gutenberg_id"]\n', "")
    other = setting.scratch / "output-one.toml"
    keys = 'dir = "output-one"\nformat = "bin"\none_file = true'
    other.write_text(recipe.replace('dir = "output"', keys), encoding="utf-8")
    setting.run("run", other, "--quiet")
    promised = promised_ids(setting.scratch / "output")
    text = setting.texts[1].path
    folder = setting.scratch / "output-one"
    setting.run("encode", text, "--column", "line", "-t", folder / "tokenizer", "-o", folder, "--eos", SPECIAL,
                "--take", "100", "--output-format", "bin", "--one-file", "--split-name", "val", "--quiet")  # fmt: skip
    _, section = (REPOSITORY / "docs/formats.md").read_text(encoding="utf-8").split("### nanoGPT\n")
    code = section.split("```python\n")[1].split("```")[0]
    found = {}
    exec(code.replace('"tokens/data"', repr(str(folder / "data"))), found)  # noqa: S102
    ids = np.concatenate(promised)
    assert found["train"].dtype == np.uint16 and np.array_equal(found["train"], ids)
    assert np.array_equal(found["val"], np.concatenate(promised[:100]))
    yield f"numpy: {len(ids)} ids of train.bin, as docs/formats.md reads it for nanoGPT"


def check_packed(setting):
    """Checks packed rows loaded by datasets: no token is missing, and best-fit cuts no document that fits a row."""
    recipe = (setting.scratch / "output.toml").read_text(encoding="utf-8")
    documents = [tuple(ids) for ids in promised_ids(setting.scratch / "output")]
    for rule in ["concat", "best-fit"]:
        other = setting.scratch / f"output-{rule}.toml"
        text = recipe.replace('columns = ["gutenberg_id"]', f'pack = "{rule}"\nlength = {LENGTH}')
        other.write_text(text.replace('dir = "output"', f'dir = "output-{rule}"'), encoding="utf-8")
        setting.run("run", other, "--quiet")
        cache = str(setting.scratch / f"datasets-{rule}")
        rows = datasets.load_dataset(str(setting.scratch / f"output-{rule}"), split="train", cache_dir=cache)
        assert str(rows.features["seq_lengths"]) == "List(Value('int32'))", rows.features
        parts = []
        for row in rows:
            ids, ends = row["input_ids"], np.cumsum(row["seq_lengths"])
            assert len(ids) == row["length"] == ends[-1] <= LENGTH, row
            parts += [tuple(ids[start:end]) for start, end in zip([0, *ends], ends)]
        if rule == "concat":
            assert all(length == LENGTH for length in rows["length"][:-1])
            assert [id for part in parts for id in part] == [id for ids in documents for id in ids]
        else:
            short = [ids for ids in documents if len(ids) <= LENGTH]
            assert not Counter(short) - Counter(parts), "a document that fits is cut"
            assert Counter(id for part in parts for id in part) == Counter(id for ids in documents for id in ids)
        used = sum(rows["length"]) / LENGTH / rows.num_rows
        yield f"datasets: {rows.num_rows} rows packed by {rule}, {used:.2%} used"


def promised_ids(folder):
    files = sorted((folder / "data").glob("*.parquet"))
    column = pa.concat_tables(pq.read_table(file, columns=["input_ids"]) for file in files)["input_ids"]
    return [np.array(ids) for ids in column.to_pylist()]


def with_offsets(data):
    tokens = np.memmap(data, dtype="<u2", mode="r")
    starts = np.fromfile(data.with_suffix(".idx"), dtype="<u8").astype(np.int64)
    assert starts[0] == 0 and starts[-1] == len(tokens)
    return [tokens[start:end] for start, end in zip(starts[:-1], starts[1:], strict=True)]


def with_mmididx(data):
    index = data.with_suffix(".idx").read_bytes()
    assert index[:9] == b"MMIDIDX\0\0" and struct.unpack("<Q", index[9:17]) == (1,)
    code, sequences, documents = struct.unpack("<BQQ", index[17:34])
    assert code == 8, code
    sizes = np.frombuffer(index, dtype="<i4", count=sequences, offset=34)
    pointers = np.frombuffer(index, dtype="<i8", count=sequences, offset=34 + 4 * sequences)
    ends = np.frombuffer(index, dtype="<i8", count=documents, offset=34 + 12 * sequences)
    assert len(index) == 34 + 12 * sequences + 8 * documents
    assert ends[0] == 0 and ends[-1] == sequences == documents - 1 and np.all(np.diff(ends) == 1)
    ids = data.read_bytes()
    return [np.frombuffer(ids, dtype="<u2", count=size, offset=at) for size, at in zip(sizes, pointers, strict=True)]


def check(setting):
    text = setting.texts[1]
    recipe = setting.scratch / "output.toml"
    uri = json.dumps(str(text.path))
    recipe.write_text(RECIPE.format(uri=uri, take=TAKE, special=SPECIAL), encoding="utf-8")
    setting.run("run", recipe, "--quiet")
    folder = setting.scratch / "output"
    promised = pq.read_table(text.path, columns=["line", "gutenberg_id"]).slice(0, TAKE)
    yield f"pyarrow: {with_pyarrow(folder, promised)}"
    yield f"datasets: {with_datasets(folder, promised)}"
    yield f"DuckDB: {with_duckdb(folder, promised)}"
    yield from check_ids(setting)
    yield from check_nanogpt(setting)
    yield from check_packed(setting)


def with_pyarrow(folder, promised):
    table = pa.concat_tables(pq.read_table(file) for file in sorted((folder / "data").glob("*.parquet")))
    element = table.schema.field("input_ids").type
    assert pa.types.is_list(element) and element.value_type == pa.int32(), element
    assert element.value_field.name == "element", element
    assert table.schema.field("length").type == pa.int32(), table.schema
    assert table.schema.field("gutenberg_id").type == pa.int64(), table.schema
    rows = table.to_pydict()
    assert rows["gutenberg_id"] == promised["gutenberg_id"].to_pylist()
    assert rows["length"] == list(map(len, rows["input_ids"]))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    end = tokenizer.token_to_id(SPECIAL)
    assert all(ids[-1] == end for ids in rows["input_ids"])
    bodies = [ids[:-1] for ids in rows["input_ids"]]
    assert tokenizer.decode_batch(bodies) == promised["line"].to_pylist()
    tokens = json.loads((folder / "report.json").read_text(encoding="utf-8"))["encoding"]["tokens"]
    assert tokens == sum(rows["length"]), tokens
    return f"{len(bodies)} rows decode to the lines they come from"


def with_datasets(folder, promised):
    datasets.disable_progress_bars()
    said = queue.SimpleQueue()
    handler = logging.handlers.QueueHandler(said)
    logging.getLogger("datasets").addHandler(handler)
    dataset = datasets.load_dataset(str(folder), split="train", cache_dir=str(folder.parent / "datasets"))
    logging.getLogger("datasets").removeHandler(handler)
    # datasets only logs a warning if it cannot parse the dataset card.
    assert said.empty(), said.get().getMessage()
    features = {name: str(feature) for name, feature in dataset.features.items()}
    assert features == {
        "input_ids": "List(Value('int32'))", "length": "Value('int32')", "gutenberg_id": "Value('int64')",
    }, features  # fmt: skip
    assert dataset.num_rows == promised.num_rows, dataset.num_rows
    assert list(dataset["gutenberg_id"]) == promised["gutenberg_id"].to_pylist()
    return f"{dataset.num_rows} rows, {', '.join(features)}"


def with_duckdb(folder, promised):
    relation = duckdb.sql(f"from '{folder}/data/*.parquet'")
    types = dict(zip(relation.columns, map(str, relation.types), strict=True))
    assert types == {"input_ids": "INTEGER[]", "length": "INTEGER", "gutenberg_id": "BIGINT"}, types
    summed = "count(*), sum(len(input_ids)) - sum(length), sum(gutenberg_id)"
    [(rows, difference, numbers)] = relation.aggregate(summed).fetchall()
    assert (rows, difference) == (promised.num_rows, 0), (rows, difference)
    assert numbers == sum(promised["gutenberg_id"].to_pylist()), numbers
    return f"{rows} rows, lengths and columns add up"
