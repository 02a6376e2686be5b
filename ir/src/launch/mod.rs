//! The plan level: what every device launches, at which addresses, in which order.
//!
//! A [`LaunchPlan`] belongs to the local program of one phase and refers to it by the names of
//! functions and values: operators, attributes and types stand there, addresses, streams, events
//! and rank lists here. Layers are not unrolled: a [`Routine`] is one function of the program, and
//! [`Action::Repeat`] runs routines again and again in one frame of scratch memory.
//!
//! `docs/plan.md` has the rules that hold between the parts; the crate `check` holds a plan to
//! them.

pub mod codes;
mod groups;
pub mod storage;
mod text;

pub use crate::json::fingerprint;
pub use groups::{GroupSet, Pattern};

use serde::{Deserialize, Serialize};

/// Version of the schema; grows when keys change their meaning.
pub const VERSION: u64 = 1;

/// Bytes that the offset of every buffer is a multiple of.
pub const ALIGNMENT: u64 = 256;

/// What the devices of all pipeline stages launch in one step of one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchPlan {
    /// [`VERSION`] of the writer.
    pub version: u64,
    /// `prefill` or `decode`.
    pub phase: String,
    /// The local program that this plan launches.
    pub source: Source,
    /// Largest values of the symbols, for which buffers have room.
    pub dims: Vec<Bound>,
    /// Names of the streams; a step names one by its number.
    pub streams: Vec<String>,
    /// Who communicates with whom; a collective names one by its number.
    pub groups: Vec<GroupSet>,
    /// What the ranks run. The ranks of a stage are neighbours, and every rank stands in one.
    pub programs: Vec<Program>,
    /// Routines of layers and of programs, by their names.
    pub routines: Vec<Routine>,
}

/// The local program behind a launch plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Path of the dump from the root of the plan's directory.
    pub file: String,
    /// [`fingerprint`] of its text.
    pub sha256: String,
}

/// How large a symbol may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// Name without `%`.
    pub name: String,
    /// Largest value in a step of this phase.
    pub max: u64,
    /// Value at which caches are laid out, at least `max`: they hold the requests and the context
    /// of both phases, and a step sees a part of them.
    pub held: u64,
}

/// What a range of ranks of one stage runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// Pipeline stage.
    pub stage: u64,
    /// First rank, and how many. The device of a rank in the mesh is `rank % devices of the mesh`.
    pub ranks: [u64; 2],
    /// The routine that a step runs.
    pub routine: String,
    /// Bytes of each arena of a rank.
    pub arenas: Arenas,
    /// Bytes that the memory figures of the plan promise each rank of this stage at most.
    pub promised: Promised,
}

/// Bytes of the three arenas of a rank. Both phases have the same weights and caches at the same
/// offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arenas {
    /// Weights.
    pub weights: u64,
    /// Caches.
    pub caches: u64,
    /// Inputs, outputs and everything between, frames of layers included.
    pub scratch: u64,
}

/// Memory figures of the plan for one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Promised {
    /// Weights.
    pub weights: u64,
    /// Caches at the bounds that they are held at.
    pub caches: u64,
    /// Largest sum of live activations of either phase.
    pub activations: u64,
    /// Scratch space of kernels, and what alignment and gaps between buffers cost.
    pub workspace: u64,
}

/// One function of the local program: its buffers and its steps in order of issue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routine {
    /// Name in the plan.
    pub name: String,
    /// Name of the function that it implements.
    pub function: String,
    /// Bytes of the frame that a layer's scratch buffers lie in; 0 for a program, whose buffers
    /// lie in the scratch arena itself.
    pub frame: u64,
    /// A buffer for every value of the function.
    pub buffers: Vec<Buffer>,
    /// The steps.
    pub steps: Vec<Step>,
}

/// Where a value of the function lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Buffer {
    /// Name of the value without `%`.
    pub value: String,
    /// What it is for.
    pub kind: BufferKind,
    /// Its type as in the program, the share of one device.
    #[serde(rename = "type")]
    pub ty: String,
    /// Bytes at the bounds: at `max`, of a cache at `held`. See [`storage`].
    pub bytes: u64,
    /// Where it lies.
    pub place: Place,
    /// First step that writes it, or 0 where it is there at the start; last step that uses it.
    pub live: [usize; 2],
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// A parameter of the model; of a layer, the slice of one layer.
    Weight,
    /// A KV cache; of a layer, the slice of one layer.
    Cache,
    /// A parameter of a program that each step is given: token ids, positions.
    Input,
    /// A value that a program returns and that is no cache.
    Output,
    /// A parameter of a layer that its caller gives it: what layers hand on, or share.
    Argument,
    /// Everything else.
    Scratch,
}

/// Where a buffer lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// At an offset: of weights and caches of a program in their arenas, of its other buffers in the
    /// scratch arena, of scratch buffers of a layer in the layer's frame.
    At(u64),
    /// Where the caller of a layer says: at the buffer that it hands to the layer, or at the
    /// current layer's slice of it.
    Caller,
    /// It is a view of another buffer of the routine: the same bytes, seen as the instruction says
    /// that makes it (`reshape`, `slice`, `kv_read`, `constraint`). Nothing is launched for it.
    View(String),
    /// It takes the bytes of another buffer of the routine, which nothing reads afterwards: a
    /// written cache, an operator in place, what a layer hands on.
    Over(String),
}

/// A step of a routine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What is done.
    #[serde(rename = "do")]
    pub action: Action,
    /// Operator of the instruction; `copy` and `return` have none of their own and are named so.
    pub op: String,
    /// Number of the instruction in the body of the function; for `copy` and `return` how many
    /// instructions the body has.
    pub inst: usize,
    /// Buffers that are read: the operands, in order.
    pub reads: Vec<String>,
    /// Buffers that are written: the results, in order.
    pub writes: Vec<String>,
    /// Stream on which it runs, after everything issued there before. A `repeat` and a `return`
    /// wait for all streams, and what follows them waits for them.
    pub stream: usize,
    /// Events that it waits for besides, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<usize>,
    /// Event that it records when it is done; each is recorded once in a routine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<usize>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Runs the operator of an instruction on this device.
    Launch,
    /// Runs the operator of an instruction together with the other ranks of a group.
    Collective {
        /// Number of the group set.
        groups: usize,
        /// Its place among the communicating steps of the routine, counted from 0.
        order: usize,
        /// Elements of the operand and of the result on one device at the bounds.
        elements: [u64; 2],
    },
    /// Hands its operand to a rank of another stage.
    Send {
        /// That rank's number less this one's.
        by: i64,
        /// Its place among the communicating steps of the routine, counted from 0.
        order: usize,
        /// Elements at the bounds.
        elements: u64,
    },
    /// Takes its result from a rank of another stage.
    Recv {
        /// That rank's number less this one's.
        by: i64,
        /// Its place among the communicating steps of the routine, counted from 0.
        order: usize,
        /// Elements at the bounds.
        elements: u64,
    },
    /// Runs the routines of layers. The k-th run of a function gets the k-th slice of its stacked
    /// weights and caches. What layers hand on lies in the result's buffer all the time, which is
    /// the operand's.
    Repeat {
        /// The layers, in order.
        layers: Vec<Run>,
        /// Offset of the layers' frames in the scratch arena.
        frame: u64,
    },
    /// Copies the bytes of one buffer to another.
    Copy,
    /// Ends the routine: what it reads is complete.
    Return,
}

/// `trips` times a sequence of routines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// How often.
    pub trips: u64,
    /// Routines of one trip, in order.
    pub body: Vec<String>,
}

impl LaunchPlan {
    /// The routine of that name.
    pub fn routine(&self, name: &str) -> Option<&Routine> {
        self.routines.iter().find(|r| r.name == name)
    }

    /// The program of a rank.
    pub fn program_of(&self, rank: u64) -> Option<&Program> {
        self.programs.iter().find(|p| p.runs_on(rank))
    }

    /// Number of ranks of all stages.
    pub fn ranks(&self) -> u64 {
        self.programs.iter().map(|p| p.end()).max().unwrap_or(0)
    }
}

impl Program {
    /// One past the last rank.
    pub fn end(&self) -> u64 {
        self.ranks[0].saturating_add(self.ranks[1])
    }

    /// Whether a rank runs it.
    pub fn runs_on(&self, rank: u64) -> bool {
        (self.ranks[0]..self.end()).contains(&rank)
    }
}

impl Routine {
    /// The buffer of a value.
    pub fn buffer(&self, value: &str) -> Option<&Buffer> {
        self.buffers.iter().find(|b| b.value == value)
    }

    /// The buffer whose place decides where `value` lies, past views and reuse; `None` where names
    /// lead nowhere or in a circle.
    pub fn root(&self, value: &str) -> Option<&Buffer> {
        let mut buffer = self.buffer(value)?;
        for _ in 0..=self.buffers.len() {
            match &buffer.place {
                Place::View(of) | Place::Over(of) => buffer = self.buffer(of)?,
                Place::At(_) | Place::Caller => return Some(buffer),
            }
        }
        None
    }
}

impl Action {
    /// The word for it in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Action::Launch => "launch",
            Action::Collective { .. } => "collective",
            Action::Send { .. } => "send",
            Action::Recv { .. } => "recv",
            Action::Repeat { .. } => "repeat",
            Action::Copy => "copy",
            Action::Return => "return",
        }
    }

    /// Its place among the communicating steps, if it communicates.
    pub fn order(&self) -> Option<usize> {
        match self {
            Action::Collective { order, .. }
            | Action::Send { order, .. }
            | Action::Recv { order, .. } => Some(*order),
            _ => None,
        }
    }
}
