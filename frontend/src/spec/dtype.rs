//! Element formats: those of the IR.

pub use shardc_ir::dtype::DType;
