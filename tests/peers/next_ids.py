"""Encodes strings with tokenizers 1.0, which cannot be installed in one environment with version 0.

    python tests/peers/next_ids.py tokenizer.json strings.json ids.json
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

file, strings, ids = sys.argv[1:]
texts = json.loads(Path(strings).read_text(encoding="utf-8"))
encoded = Tokenizer.from_file(file).encode_batch(texts, add_special_tokens=False)
Path(ids).write_text(json.dumps([encoding.ids for encoding in encoded]), encoding="utf-8")
