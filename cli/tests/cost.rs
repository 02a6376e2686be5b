//! `shardc cost` from outside: columns of every kind of table, and tables that make no sense.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a run fails")]

mod common;

use common::{Run, file, scratch, shardc};

fn cost(test: &str, op: &str, table: &str) -> Run {
    let csv = file(&scratch(test), "table.csv", table);
    shardc(&["cost", "--op", op, "--machine", "h100", "--csv", &csv])
}

/// Cells of a column of a printed table.
fn cells(run: &Run, column: &str) -> Vec<String> {
    assert_eq!(run.code, 0, "{}", run.stderr);
    let mut lines = run.stdout.lines();
    let at = lines.next().unwrap().split(',').position(|c| c == column).unwrap();
    lines.map(|line| line.split(',').nth(at).unwrap().to_string()).collect()
}

const MOE: &str = "kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,\
                   moe_tp_size,moe_ep_size,distribution\n";
const ATTENTION: &str = "batch_size,isl,num_heads,num_key_value_heads,head_dim,kv_cache_dtype\n";

#[test]
fn every_kind_of_table_is_priced() {
    let moe = format!("{MOE}moe_torch_flow_cutlass,fp8,64,4096,1536,8,128,1,8,power_law_1.2\n");
    let context = format!("{ATTENTION}4,1024,32,8,128,bfloat16\n");
    let nccl = "op_name,nccl_dtype,num_gpus,message_size\n";
    let tables = [
        ("gemm", "m,n,k,gemm_dtype\n64,4096,4096,fp8_block\n".to_string()),
        ("attention_context", context.clone()),
        ("attention_generation", context.replace("isl", "step")),
        ("mla_context", "num_heads,batch_size,isl,kv_cache_dtype\n16,2,512,fp8\n".to_string()),
        ("mla_generation", "num_heads,batch_size,step,kv_cache_dtype\n16,2,9,fp8\n".to_string()),
        ("moe", moe),
        ("all_reduce", format!("{nccl}all_reduce,half,3,4096\n")),
        ("all_gather", format!("{nccl}all_gather,half,8,4096\n")),
        ("reduce_scatter", format!("{nccl}reduce_scatter,int8,4,4096\n")),
        ("all_to_all", format!("{nccl}alltoall,half,2,4096\n")),
        ("send_recv", "devices_per_node,size\n1,65536\n".to_string()),
        ("deepep", "node_num,hidden_size,num_token,num_topk\n1,7168,128,8\n".to_string()),
    ];
    for (op, table) in tables {
        let run = cost(&format!("cost_{op}"), op, &table);
        let ms: f64 = cells(&run, "predicted_ms")[0].parse().unwrap();
        assert!((0.001..10.0).contains(&ms), "{op}: {ms} ms");
        let error: f64 = cells(&run, "predicted_error")[0].parse().unwrap();
        assert!(error > 0.0 && error <= 0.5, "{op}: {error}");
    }
}

#[test]
fn cells_that_make_no_sense_are_named() {
    let moe = |row: &str| format!("{MOE}{row}\n");
    for (op, table, cell) in [
        ("gemm", "m,n,k,gemm_dtype\n0,1,1,bfloat16\n".to_string(), "`m` is `0`"),
        ("gemm", "m,n,k,gemm_dtype\n1,1e3,1,bfloat16\n".to_string(), "`n` is `1e3`"),
        ("gemm", "m,n,k,gemm_dtype\n1,1,1,fp6\n".to_string(), "`gemm_dtype` is `fp6`"),
        ("gemm", "m,n,gemm_dtype\n1,1,fp8\n".to_string(), "no column `k`"),
        (
            "attention_context",
            format!("{ATTENTION}1,10,2,4,64,fp8\n"),
            "`num_key_value_heads` is `4`",
        ),
        ("moe", moe("x,fp8,1,64,64,9,8,1,1,balanced"), "`topk` is `9`"),
        ("moe", moe("x,fp8,1,64,64,2,8,1,1,zipf"), "`distribution` is `zipf`"),
        (
            "all_reduce",
            "op_name,num_gpus,message_size\nbroadcast,8,1024\n".to_string(),
            "`op_name` is `broadcast`",
        ),
    ] {
        let run = cost("cost_strange", op, &table);
        assert_ne!(run.code, 0, "{op} {table}: {}", run.stdout);
        assert!(run.stderr.contains(cell) && run.stdout.is_empty(), "{op}: {}", run.stderr);
    }
}

#[test]
fn runs_that_were_not_tuned_are_priced_as_they_ran() {
    let row =
        |load: &str| format!("moe_torch_flow_cutlass,bfloat16,512,5120,8192,1,16,1,1,{load}\n");
    let table = format!("{MOE}{}{}", row("balanced"), row("power_law_1.01"));
    let ms: Vec<f64> = cells(&cost("cost_untuned", "moe", &table), "predicted_ms")
        .iter()
        .map(|cell| cell.parse().unwrap())
        .collect();
    assert!(ms[1] > 3.0 * ms[0], "{ms:?}");
    let csv = file(&scratch("cost_untuned_h200"), "table.csv", table);
    let run = shardc(&["cost", "--op", "moe", "--machine", "h200", "--csv", &csv]);
    let ms: Vec<f64> =
        cells(&run, "predicted_ms").iter().map(|cell| cell.parse().unwrap()).collect();
    assert!(ms[1] < 2.0 * ms[0], "the list is of one machine: {ms:?}");
}
