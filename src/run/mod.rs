//! Knows the order of the stages: from a recipe to a plan, from a plan to a tokenizer and token ids.
