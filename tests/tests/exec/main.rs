//! Programs run: every level computes what the model computes.

#![allow(clippy::unwrap_used, reason = "a test stops where the project is wrong")]

mod case;
mod faults;
mod golden;
mod kernels;
mod launched;
mod mapped;
mod mutants;
mod pinned;
mod programs;
mod quantised;
mod searched;
mod sharded;
mod sharding;

datatest_stable::harness! {
    { test = golden::golden, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = golden::stored, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = faults::faults, root = "../examples/golden", pattern = r"(llama|mixtral)-tiny/config\.json$" },
    { test = launched::launched, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = quantised::quantised, root = "../examples/golden", pattern = r"^(llama|qwen3_moe|deepseek_v3)-tiny/config\.json$" },
    { test = quantised::packed, root = "../examples/golden", pattern = r"^gpt_oss-tiny/config\.json$" },
    { test = mapped::mapped, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = mapped::accepted, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
    { test = searched::searched, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = programs::program, root = "files/exec", pattern = r"\.sir$" },
    { test = mutants::mutants_die, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = kernels::kernels, root = "files/sharding", pattern = r"\.sir$" },
    { test = sharding::sharding, root = "files/sharding", pattern = r"\.sir$" },
    { test = pinned::pinned, root = "../examples/golden", pattern = r"/config\.json$" },
    { test = sharded::sharded, root = "../examples/golden", pattern = r"/config\.json$" },
}
