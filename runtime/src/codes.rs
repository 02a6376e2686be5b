//! Error codes of loading and running.

use shardc_ir::codes;

codes! {
    /// A checkpoint cannot be read.
    UNREADABLE = "W001", Missing, "a checkpoint cannot be read";
    /// A file of a checkpoint is not what its header says.
    DAMAGED = "W002", User, "a file of a checkpoint is damaged";
    /// A tensor is missing.
    NO_TENSOR = "W003", User, "a checkpoint lacks a tensor";
    /// A tensor has another shape.
    SHAPE = "W004", User, "a tensor of a checkpoint has another shape";
    /// A tensor's numbers are in a format that is not read.
    FORMAT = "W005", User, "a tensor of a checkpoint is in a format that is not read";
    /// A weight is no number.
    NOT_A_NUMBER = "W006", User, "a weight of a checkpoint is not a number";
    /// Another rank failed, and this one stopped.
    STOPPED = "W101", User, "a rank stopped, since another one failed";
    /// Ranks wait for one another.
    STUCK = "W102", User, "ranks wait for what no rank sends";
    /// Ranks meet at different steps.
    OUT_OF_STEP = "W103", User, "ranks that communicate are at different steps, or have different plans";
    /// A launch plan does not fit its program.
    UNFIT = "W104", User, "a launch plan names what its program lacks";
    /// A value has no room in its buffer, or a buffer lies outside its arena.
    ROOM = "W105", User, "a value does not fit its buffer, or a buffer its arena";
    /// An operator reads what its rank does not hold.
    OPERATOR = "W106", Internal, "an operator cannot compute from what its rank holds";
    /// A value is no number.
    NO_NUMBER = "W107", User, "a value of a run is not a number";
    /// What is asked for is more than the plan has room for.
    REQUEST = "W108", User, "requests do not fit what a plan has room for";
    /// A rank ended by a mistake of the program.
    RANK = "W109", Internal, "a rank ended by a mistake of the program";
    /// A plan's directory is damaged.
    PLAN = "W110", User, "a plan's directory is damaged";
    /// The ranks that were started are not those of the plan.
    RANKS = "W111", User, "as many ranks were started as the plan does not have";
    /// A file with tokens cannot be read.
    FILE = "W112", Missing, "a file with the tokens of a run cannot be read";
    /// Logits, weights or standard output cannot be written.
    UNWRITABLE = "W113", Missing, "the output of a run cannot be written";
    /// A tokenizer cannot be read.
    TOKENIZER = "W115", Missing, "the tokenizer of a checkpoint cannot be read";
    /// MPI cannot be used.
    MPI = "W114", Missing, "MPI cannot be used";
}
