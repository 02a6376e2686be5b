//! A timeline of steps in the trace-event format, which Perfetto and chrome://tracing read.

use super::Simulated;
use serde_json::{Value, json};
use shardc_cost::simulate::StepRecord;

/// Most steps of a timeline; further ones are left out.
const MOST_STEPS: usize = 100_000;
/// Most requests of a timeline.
const MOST_REQUESTS: usize = 10_000;

/// The first steps of a simulation.
#[derive(Debug, Default)]
pub struct Timeline {
    steps: Vec<StepRecord>,
    /// Steps that were left out.
    left_out: u64,
}

impl Timeline {
    /// Adds a step.
    pub fn add(&mut self, step: &StepRecord) {
        match self.steps.len() < MOST_STEPS {
            true => self.steps.push(*step),
            false => self.left_out += 1,
        }
    }

    /// The file: a process for each pool with a thread for each pipeline slot of a replica,
    /// counters for each replica, and one process for requests.
    pub fn to_json(&self, simulated: &Simulated<'_>) -> String {
        let mut events = self.names(simulated);
        let mut launched: Vec<Vec<u64>> =
            simulated.served.pools.iter().map(|p| vec![0; p.replicas as usize]).collect();
        for step in &self.steps {
            let (pool, replica) = (step.pool as usize, step.replica as usize);
            let stages = simulated.plan(pool).service.degrees.pp.max(1);
            let slot = launched[pool][replica] % stages;
            launched[pool][replica] += 1;
            events.push(slice(step, u64::from(step.replica) * stages + slot));
            events.push(counters(step));
        }
        self.requests(simulated, &mut events);
        let lines: Vec<String> = events.iter().map(Value::to_string).collect();
        let note = json!({"steps_left_out": self.left_out});
        format!(
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{note},\"traceEvents\":[\n{}\n]}}\n",
            lines.join(",\n")
        )
    }

    fn names(&self, simulated: &Simulated<'_>) -> Vec<Value> {
        let name = |what: &str, pid: usize, tid: u64, name: String| json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}});
        let pools = &simulated.served.pools;
        let mut events = vec![name("process_name", pools.len(), 0, "requests".to_string())];
        for (pid, pool) in pools.iter().enumerate() {
            events.push(name("process_name", pid, 0, pool_name(pools.len(), pid).to_string()));
            let stages = simulated.plan(pid).service.degrees.pp.max(1);
            let used = self.steps.iter().filter(|s| s.pool as usize == pid).map(|s| s.replica);
            let most = used.max().map_or(0, |last| u64::from(last) + 1).min(pool.replicas);
            for thread in 0..most * stages {
                let (replica, slot) = (thread / stages, thread % stages);
                let slot = if stages > 1 { format!(", slot {slot}") } else { String::new() };
                events.push(name("thread_name", pid, thread, format!("replica {replica}{slot}")));
            }
        }
        events
    }

    /// Waiting and decoding of requests, up to the last step that is kept.
    fn requests(&self, simulated: &Simulated<'_>, events: &mut Vec<Value>) {
        let pid = simulated.served.pools.len();
        let end = match self.left_out {
            0 => u64::MAX,
            _ => self.steps.last().map_or(0, |step| step.start),
        };
        let requests = simulated.served.requests.iter().enumerate();
        let shown = requests.filter(|(_, r)| r.is_done() && r.last <= end).take(MOST_REQUESTS);
        for (id, request) in shown {
            let args = json!({"prompt": request.isl, "answer": request.osl,
                "pre-emptions": request.preemptions});
            let mut span = |name: &str, from: u64, to: u64| {
                for (ph, at) in [("b", from), ("e", to)] {
                    events.push(json!({"ph": ph, "cat": "request", "name": name, "id": id,
                        "pid": pid, "tid": 0, "ts": us(at), "args": args}));
                }
            };
            span("first token", request.arrival, request.first);
            if request.osl > 1 {
                span("decode", request.first, request.last);
            }
        }
    }
}

/// The name of a pool of one or two.
pub fn pool_name(pools: usize, pool: usize) -> &'static str {
    match (pools, pool) {
        (1, _) => "engine",
        (_, 0) => "prefill pool",
        _ => "decode pool",
    }
}

fn slice(step: &StepRecord, thread: u64) -> Value {
    let work = &step.work;
    let name = match (work.chunks > 0, work.decodes > 0) {
        (true, true) => "mixed",
        (true, false) => "prefill",
        _ => "decode",
    };
    json!({
        "ph": "X",
        "name": name,
        "pid": step.pool,
        "tid": thread,
        "ts": us(step.start),
        "dur": us(step.end - step.start),
        "args": {
            "prompts": work.chunks,
            "prompt tokens": work.tokens,
            "decoding": work.decodes,
            "context": work.context,
        },
    })
}

fn counters(step: &StepRecord) -> Value {
    json!({
        "ph": "C",
        "name": format!("replica {}", step.replica),
        "pid": step.pool,
        "ts": us(step.start),
        "args": {
            "running": step.running,
            "waiting": step.waiting,
            "KV MiB": step.kv_bytes >> 20,
        },
    })
}

/// Microseconds, to the nanosecond.
fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}
