//! Knows the order of the stages: from a recipe to a plan, from a plan to a tokenizer and token ids.

pub mod recipe;
pub mod plan;

pub use plan::{EncodePlan, Plan, Surroundings, TrainPlan, plan};
pub use recipe::{Mistakes, Recipe};
