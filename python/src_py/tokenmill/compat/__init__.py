"""Tokenizers of other packages from those of tokenmill, and the reverse."""
