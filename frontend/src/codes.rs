//! Every error code of this crate.

shardc_ir::codes! {
    /// The text is not JSON.
    SYNTAX = "F001", User, "the text is not well-formed JSON";
    /// The text is larger, deeper or longer than any configuration.
    TOO_LARGE = "F002", User, "the JSON text exceeds a size, depth or value limit";
    /// The text is JSON, but its top is not an object.
    NOT_OBJECT = "F003", User, "the top of the file is not a JSON object";
    /// One object has the same key twice.
    DUPLICATE_KEY = "F004", User, "one object holds the same key twice";
    /// The bytes are not UTF-8.
    NOT_UTF8 = "F005", User, "the bytes are not UTF-8 text";

    /// A key that the family needs is absent.
    MISSING_KEY = "F101", User, "a key that the model family needs is missing";
    /// A key holds a value of the wrong JSON type.
    WRONG_TYPE = "F102", User, "a key holds a value of the wrong type";
    /// A number lies outside its range.
    OUT_OF_RANGE = "F103", User, "a number is negative, zero, fractional or too large for its key";
    /// A key that nobody reads looks like one that was looked for in vain.
    MISSPELT_KEY = "F104", User, "an unknown key looks like a misspelling of a known one";
    /// Two keys contradict each other.
    CONTRADICTION = "F105", User, "two keys contradict each other";

    /// No family reads this architecture.
    UNKNOWN_FAMILY = "F201", User, "no supported model family reads this architecture";
    /// The model has a block that the compiler has no operator for.
    UNSUPPORTED_BLOCK = "F202", User, "a layer holds a block that the compiler has no operator for";
    /// The weights are stored in a way that is not supported.
    UNSUPPORTED_QUANTISATION = "F203", User, "the quantisation method is not supported";
    /// A key selects a feature that is not supported.
    UNSUPPORTED_VALUE = "F204", User, "a key selects a feature that is not supported";

    /// The index lacks tensors of the model, or holds others.
    INDEX_NAMES = "F301", User, "the index's tensor names differ from the model's weights";
    /// The index's total size is not that of the model's weights.
    INDEX_BYTES = "F302", User, "the index's total size differs from the model's weights";
    /// The index has no `weight_map` of strings.
    INDEX_FORM = "F303", User, "the file is not a safetensors index";

    /// A part of the model is left out.
    IGNORED = "F310", User, "a part of the model is left out; the plan goes on without it";

    /// A key is absent that the class in `transformers` has a value for.
    DEFAULTED = "F311", User, "a key is absent; the value of the class in transformers is taken";

    /// The architecture's name is not one of the family that reads it.
    READ_AS = "F312", User, "an architecture is read as a family whose list does not name it";

    /// A key that changes other models is not read by this family.
    UNREAD = "F313", User, "a key that changes other models has no meaning for this family";

    /// The model's name says a format, and no file describes it.
    UNDESCRIBED = "F314", User, "a model's name says that weights are quantised, and no file says how";

    /// A count exceeds 64 bits.
    OVERFLOW = "F401", User, "a parameter count does not fit in 64 bits";

    /// The graph and the weight list disagree.
    GRAPH = "X201", Internal, "building a model's graph met a weight, cache or layer that it did not declare";
}
