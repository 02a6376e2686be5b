//! Error codes of the checker.

shardc_ir::codes! {
    /// The plan does not fit its program.
    STRUCTURE = "K101", User, "a launch plan does not fit its program: names, instructions, operands or types differ";
    /// Ranks are missing or doubled.
    RANKS = "K102", User, "the ranks of a launch plan are not those of its stages, each once";
    /// Streams, events or the numbering of steps make no sense.
    EVENTS = "K103", User, "a step names a stream or an event that is not there before it";
    /// A buffer is not the size of its value, or may not lie where it does.
    BUFFER = "K111", User, "a buffer has not the size of its value, or may not share bytes as it does";
    /// A buffer lies outside.
    OUTSIDE = "K112", User, "a buffer is not aligned, or does not lie inside its arena or frame";
    /// Two live buffers overlap.
    OVERLAP = "K113", User, "two buffers that live in one step overlap";
    /// Something else lies where a value is read.
    UNWRITTEN = "K114", User, "a value is read where it was not written, or was overwritten";
    /// A step overwrites what it reads.
    IN_PLACE = "K115", User, "a step overwrites an operand that its operator may not work in place of";
    /// More memory than promised.
    MEMORY = "K116", User, "a rank takes more memory than the plan promises";
    /// Steps of different streams are not ordered.
    UNORDERED = "K121", User, "two steps of different streams use the same bytes, and no event orders them";
    /// A group is not the one that the axes say.
    GROUP = "K131", User, "a collective has other ranks than the axes of its operator say";
    /// Element counts differ.
    ELEMENTS = "K132", User, "a communicating step has another element count than its operand and result";
    /// A transfer has another partner.
    PARTNER = "K133", User, "a transfer names another rank than the stage of its operator says";
    /// Ranks wait for each other.
    DEADLOCK = "K141", User, "ranks wait for each other for ever";
    /// Members of a group bring different collectives.
    MISMATCH = "K142", User, "ranks that meet bring different operators or element counts";
    /// Phases store differently.
    PHASES = "K151", User, "the launch plans of two phases keep weights or caches in different places";
    /// A parameter's map does not fit it.
    WEIGHT = "K161", User, "a parameter has no map of weights, or one that does not fit it";
    /// Outputs of a tensor fill no parameter, or two.
    TENSOR = "K162", User, "the outputs of a tensor do not fill parameters once each";
    /// Layers are in another order.
    LAYERS = "K163", User, "the maps of weights have layers missing, doubled or in another order";
}
