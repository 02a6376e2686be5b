//! The scheduler of one replica: which requests the next step serves, and what it leaves behind.
//!
//! Requests are admitted first come, first served while their prompts' blocks are free. A running
//! request that finds no block for its next token takes those of the request admitted last, which
//! goes back to the head of the queue and computes its cache anew.

use std::collections::VecDeque;

use super::kv::{KvSizes, Usage};
use super::{Histogram, Phase, Policy, Request, Work};

/// What holds for every replica of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules<'a> {
    policy: Policy,
    pub kv: &'a KvSizes,
    /// Pipeline stages.
    pub stages: u64,
    /// Whether decoding is another pool's work.
    prefill_only: bool,
    /// Bytes that admission leaves free.
    spare: u64,
}

impl<'a> Rules<'a> {
    /// The rules of a pool; numbers that would stop it count as 1.
    pub fn new(policy: &Policy, kv: &'a KvSizes, stages: u64, prefill_only: bool) -> Self {
        let chunk = policy.chunk.map(|tokens| tokens.max(1));
        let max_batch = policy.max_batch.clamp(1, chunk.unwrap_or(u64::MAX));
        let spare = u128::from(kv.capacity()) * u128::from(policy.watermark.min(1000)) / 1000;
        Rules {
            policy: Policy { chunk, max_batch, ..*policy },
            kv,
            stages: stages.max(1),
            prefill_only,
            spare: spare as u64,
        }
    }

    /// Tokens of a prompt of which `left` are to be computed that a step with `work` still takes.
    fn share(&self, work: &Work, left: u64) -> u64 {
        match self.policy.chunk {
            Some(most) => left.min(most.saturating_sub(work.decodes + work.tokens)),
            None if work.chunks == 0 => left,
            None if work.tokens.saturating_add(left) <= self.policy.prefill_tokens => left,
            None => 0,
        }
    }
}

/// A part of a prompt in a step.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    request: u32,
    /// Whether it ends the prompt, and so yields a token.
    last: bool,
}

/// One replica's part of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Step {
    pub work: Work,
    decodes: Vec<u32>,
    chunks: Vec<Chunk>,
}

impl Step {
    pub fn clear(&mut self) {
        self.work = Work::default();
        self.decodes.clear();
        self.chunks.clear();
    }

    fn add_chunk(&mut self, id: u32, request: &mut Request, new: u64) {
        self.work.add_chunk(new, u64::from(request.cached));
        request.cached += new as u32;
        request.in_flight += 1;
        let last = request.cached == request.prompt_tokens();
        self.chunks.push(Chunk { request: id, last });
    }

    fn add_decode(&mut self, id: u32, request: &mut Request) {
        request.cached += 1;
        request.in_flight += 1;
        self.work.add_decode(u64::from(request.cached));
        self.decodes.push(id);
    }
}

/// A replica's queue, batch and memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    /// Requests to prefill, first to come first.
    pub waiting: VecDeque<u32>,
    /// Requests whose cache waits at a prefill replica, and which one.
    pub incoming: VecDeque<(u32, u32)>,
    /// Requests whose cache is on its way, with blocks of their own here.
    pub receiving: u64,
    /// Requests that run, in order of admission.
    pub running: Vec<u32>,
    pub kv: Usage,
    pub preemptions: u64,
    pub lost_tokens: u64,
    /// Those of `running` that decode.
    decoding: u64,
}

impl Replica {
    /// Requests here, waiting and running.
    pub fn load(&self) -> u64 {
        self.queued() + self.receiving + self.running.len() as u64
    }

    /// Requests that wait.
    pub fn queued(&self) -> u64 {
        (self.waiting.len() + self.incoming.len()) as u64
    }

    /// Chooses the work of the next step, and takes its blocks; the step is empty if nothing can
    /// run.
    pub fn plan(&mut self, rules: &Rules<'_>, requests: &mut [Request], step: &mut Step) {
        step.clear();
        if rules.policy.chunk.is_none() {
            self.admit(rules, requests, step);
            if step.work.is_empty() {
                self.decode(rules, requests, step);
            }
            return;
        }
        let undisturbed = self.decode(rules, requests, step);
        self.continue_prompts(rules, requests, step);
        if undisturbed {
            self.admit(rules, requests, step);
        }
    }

    /// Admits from the head of the queue while the batch, the step and memory have room.
    fn admit(&mut self, rules: &Rules<'_>, requests: &mut [Request], step: &mut Step) {
        while let Some(&id) = self.waiting.front() {
            let request = &mut requests[id as usize];
            let tokens = u64::from(request.prompt_tokens());
            let new = rules.share(&step.work, tokens);
            if new == 0 || !self.take_blocks(rules, request, tokens) {
                return;
            }
            self.waiting.pop_front();
            self.running.push(id);
            request.phase = Phase::Prefill;
            step.add_chunk(id, request, new);
        }
    }

    /// Takes the blocks of a request that is to run here, if there is room for it.
    fn take_blocks(&mut self, rules: &Rules<'_>, request: &mut Request, tokens: u64) -> bool {
        let batch = self.running.len() as u64 + self.receiving;
        let blocks = rules.kv.blocks(tokens);
        let spare = if self.kv.bytes == 0 { 0 } else { rules.spare };
        if batch >= rules.policy.max_batch || !self.kv.grow(rules.kv, 0, blocks, spare) {
            return false;
        }
        (request.blocks, request.cached) = (blocks as u32, 0);
        true
    }

    /// Goes on with prompts that earlier steps began.
    fn continue_prompts(&self, rules: &Rules<'_>, requests: &mut [Request], step: &mut Step) {
        if self.running.len() as u64 == self.decoding {
            return;
        }
        for &id in &self.running {
            let request = &mut requests[id as usize];
            let left = u64::from(request.prompt_tokens() - request.cached);
            if request.phase == Phase::Prefill && left > 0 {
                let new = rules.share(&step.work, left);
                if new == 0 {
                    return;
                }
                step.add_chunk(id, request, new);
            }
        }
    }

    /// Lets requests decode, of a pipeline's micro-batches a fair part. Whether each one found its
    /// blocks without taking another's.
    fn decode(&mut self, rules: &Rules<'_>, requests: &mut [Request], step: &mut Step) -> bool {
        let quota = self.decoding.div_ceil(rules.stages);
        let mut undisturbed = true;
        let mut at = 0;
        while at < self.running.len() && step.work.decodes < quota {
            let id = self.running[at];
            let request = &mut requests[id as usize];
            if request.phase != Phase::Decode || request.in_flight > 0 {
                at += 1;
            } else if self.extend(rules, request) {
                step.add_decode(id, request);
                at += 1;
            } else {
                undisturbed = false;
                let victim = self.victim(at, requests);
                self.preempt(rules, requests, victim);
            }
        }
        undisturbed
    }

    /// Takes the block of a request's next token, if it needs one.
    fn extend(&mut self, rules: &Rules<'_>, request: &mut Request) -> bool {
        let (held, needed) =
            (u64::from(request.blocks), rules.kv.blocks(u64::from(request.cached) + 1));
        if needed > held && !self.kv.grow(rules.kv, held, needed, 0) {
            return false;
        }
        request.blocks = needed as u32;
        true
    }

    /// Where the request stands that gives its blocks to the one at `at`: the last that no step
    /// carries, or that one itself.
    fn victim(&self, at: usize, requests: &[Request]) -> usize {
        let idle = |id: &u32| requests[*id as usize].in_flight == 0;
        self.running[at + 1..].iter().rposition(idle).map_or(at, |after| at + 1 + after)
    }

    /// Sends a running request back to the head of the queue without its cache.
    fn preempt(&mut self, rules: &Rules<'_>, requests: &mut [Request], at: usize) {
        let id = self.running.remove(at);
        let request = &mut requests[id as usize];
        self.decoding -= u64::from(request.phase == Phase::Decode);
        self.kv.release(rules.kv, u64::from(request.blocks));
        self.preemptions += 1;
        self.lost_tokens += u64::from(request.cached);
        request.phase = Phase::Waiting;
        request.preemptions += 1;
        (request.blocks, request.cached) = (0, 0);
        self.waiting.push_front(id);
    }

    /// Notes the tokens of a step that ends; requests that leave the replica are added to `left`,
    /// done or ready for transfer.
    pub fn complete(
        &mut self,
        rules: &Rules<'_>,
        requests: &mut [Request],
        step: &Step,
        now: u64,
        (gaps, left): (&mut Histogram, &mut Vec<u32>),
    ) {
        let before = left.len();
        for &id in &step.decodes {
            let request = &mut requests[id as usize];
            request.in_flight -= 1;
            gaps.add(now - request.last);
            if request.token(now) {
                self.decoding -= 1;
                self.finish(rules, request);
                left.push(id);
            }
        }
        for chunk in &step.chunks {
            let request = &mut requests[chunk.request as usize];
            request.in_flight -= 1;
            if chunk.last && self.end_prompt(rules, request, now, gaps) {
                left.push(chunk.request);
            }
        }
        if left.len() > before {
            let stays =
                |id: &u32| matches!(requests[*id as usize].phase, Phase::Prefill | Phase::Decode);
            self.running.retain(stays);
        }
    }

    /// Notes the token that ends a prompt; whether the request leaves.
    fn end_prompt(
        &mut self,
        rules: &Rules<'_>,
        request: &mut Request,
        now: u64,
        gaps: &mut Histogram,
    ) -> bool {
        if request.produced > 0 {
            gaps.add(now - request.last);
        }
        if request.token(now) {
            self.finish(rules, request);
            return true;
        }
        if rules.prefill_only {
            request.phase = Phase::Transfer;
            return true;
        }
        self.start_decoding(request);
        false
    }

    fn start_decoding(&mut self, request: &mut Request) {
        request.phase = Phase::Decode;
        self.decoding += 1;
    }

    fn finish(&mut self, rules: &Rules<'_>, request: &mut Request) {
        request.phase = Phase::Done;
        self.release(rules, request);
    }

    /// Frees a request's blocks.
    fn release(&mut self, rules: &Rules<'_>, request: &mut Request) {
        self.kv.release(rules.kv, u64::from(request.blocks));
        request.blocks = 0;
    }

    /// Takes blocks for the cache of the first request in `incoming`, if there is room: the
    /// request, the replica it comes from, and the blocks that it holds there.
    pub fn accept(
        &mut self,
        rules: &Rules<'_>,
        requests: &mut [Request],
    ) -> Option<(u32, u32, u64)> {
        let (id, from) = *self.incoming.front().filter(|_| self.waiting.is_empty())?;
        let request = &mut requests[id as usize];
        let (held, cached) = (u64::from(request.blocks), request.cached);
        if !self.take_blocks(rules, request, u64::from(cached)) {
            return None;
        }
        request.cached = cached;
        self.incoming.pop_front();
        self.receiving += 1;
        Some((id, from, held))
    }

    /// Starts to decode a request whose cache has come.
    pub fn receive(&mut self, id: u32, requests: &mut [Request]) {
        self.receiving -= 1;
        self.running.push(id);
        self.start_decoding(&mut requests[id as usize]);
    }
}
