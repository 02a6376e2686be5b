//! Error codes of the interpreter.

use shardc_ir::codes;

codes! {
    /// The inputs are not those of the program.
    INPUTS = "U201", User, "the inputs of a program do not fit its parameters";
    /// The program is refused by the verifier, or stands at a level that cannot run so.
    PROGRAM = "U202", User, "a program cannot be run";
    /// An operator reads what a device does not hold, or gives what it should not.
    EXECUTION = "X301", Internal, "a device cannot do what its program says";
    /// Devices that hold copies hold different numbers.
    COPIES = "X302", Internal, "devices that should hold equal copies hold different numbers";
}
