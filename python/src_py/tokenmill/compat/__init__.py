"""tokenmill in place of other packages, in programs written for them.

- ``from tokenmill.compat import tiktoken`` in place of ``import tiktoken``.
- ``compat.hf.accelerate(tok)`` makes a tokenizer of transformers encode with tokenmill.
"""
