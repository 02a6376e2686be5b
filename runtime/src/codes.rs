//! Error codes of loading.

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
}
