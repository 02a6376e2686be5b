//! Error codes of machine descriptions.

shardc_ir::codes! {
    /// The cluster file cannot be read as TOML.
    CLUSTER_SYNTAX = "M001", User, "a cluster file is not valid TOML, or is too large";
    /// A key is not part of the schema.
    CLUSTER_UNKNOWN_KEY = "M002", User, "a cluster file sets a key that does not exist";
    /// A value has another type than its key wants.
    CLUSTER_TYPE = "M003", User, "a value in a cluster file has the wrong type";
    /// A value is outside the range of its key, or contradicts another one.
    CLUSTER_RANGE = "M004", User, "a value in a cluster file is out of range";
    /// A key without a default is missing.
    CLUSTER_MISSING_KEY = "M005", User, "a cluster file lacks a key that has no default";
    /// No preset has this name.
    PRESET_UNKNOWN = "M006", User, "a cluster preset does not exist";
    /// The number of devices cannot be taken from this cluster.
    DEVICE_COUNT = "M007", User, "a number of devices is neither part of a node nor whole nodes";
    /// Times grow beyond what can be counted.
    TOO_SLOW = "M008", User, "a step on a cluster takes longer than can be counted";
    /// A key has a value that its own schema row excludes.
    SCHEMA = "X020", Internal, "the schema of cluster files contradicts its reader";
}
