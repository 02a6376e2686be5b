//! Machines, latency and memory models.
