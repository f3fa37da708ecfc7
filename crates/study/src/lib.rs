//! The HyLog study: what users do. What is compared follows.

pub mod workload;
