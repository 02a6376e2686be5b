//! The rules of the verifier, in the order in which they are checked.

crate::codes! {
    /// Ids, definitions and uses of a module built in memory contradict each other.
    BOOKKEEPING = "V101", Internal, "every id lies in its table, and every definition names its value";
    /// A name is taken twice, or is empty.
    NAMES = "V102", User, "functions, symbols, and the values of a function have distinct names that are not empty";
    /// A symbol's range is empty or holds 0.
    SYMBOL_RANGE = "V103", User, "a symbol ranges from at least 1 to at least its lower bound";
    /// An axis has a name that the text cannot carry.
    AXIS_NAME = "V104", User, "names of axes consist of letters, digits, `_`, `.` and `-`";
    /// A value is used before it is defined.
    USE_BEFORE_DEF = "V105", User, "a value is defined before it is used";
    /// A type is malformed.
    TYPE = "V106", User, "a type has at most 26 extents of 1 or more, scales that fit its rank, and routed rows of 1 to all experts";
    /// An operator is not allowed at the module's level.
    LIFESPAN = "V107", User, "every operator may appear at the level of the module";
    /// An operator has too few or too many operands.
    ARITY = "V108", User, "an operator has as many operands as its row in the table says";
    /// An attribute is out of range.
    ATTRIBUTE = "V109", User, "attributes are in range: counts of 1 or more, finite constants, positive bases and factors";
    /// Operands do not fit the operator, or results have other types than it gives.
    RESULT_TYPE = "V110", User, "operands fit their operator, and results have the types that it gives";
    /// A layer function is missing, or comes after its use.
    LAYER_MISSING = "V111", User, "`repeat` runs functions that come before it in the module, so that none runs itself";
    /// `repeat` runs nothing, or too much.
    LAYER_COUNT = "V112", User, "`repeat` runs 1 to 65536 layers, every run at least once";
    /// A layer function cannot be repeated.
    LAYER_SIGNATURE = "V113", User, "a layer function returns what it carries, then its caches, in the types in which it takes them, and carries and shares what the others do";
    /// Operands or results of `repeat` do not fit its layer functions.
    REPEAT_TYPES = "V114", User, "`repeat` takes carried and shared values, then weights and caches stacked per layer, and returns carried values, then stacked caches";
    /// A program stands above local level, or a function that nothing runs at it.
    PROGRAMS = "V115", User, "`program` stands at local level only, and there for every function that no `repeat` runs";

    /// A layout without a mesh.
    NO_MESH = "V201", User, "a module with layouts, and every module from sharded level on, has a mesh";

    /// A value has no decided layout.
    UNDECIDED = "V301", User, "from sharded level on every value has a layout that is closed, without priorities and without `replicated`";
    /// Two dimensions share a factor but not its axes.
    DISAGREE = "V302", User, "dimensions that share a factor are split by the same axes";
    /// One axis splits two factors.
    TWO_FACTORS = "V303", User, "an axis splits one factor of an operator at most";
    /// A factor that must stay whole is split.
    NOT_WHOLE = "V304", User, "a factor that the operator needs whole is not split";
    /// A split is not legal.
    BAD_SPLIT = "V305", User, "heads, groups and blocks are split into whole, equal parts";
    /// An axis straddles factors.
    STRADDLES = "V306", User, "the axes of a dimension of several factors end where its factors end";
    /// An operator is not linear in a partial operand.
    NOT_LINEAR = "V307", User, "a partial sum is an operand only where the operator is linear in it; partial maxima and the like are completed first";
    /// Two partial operands meet.
    TWO_PARTIALS = "V308", User, "at most one factor of a product is a partial sum";
    /// A partial operand meets a complete one.
    PARTIAL_AND_COMPLETE = "V309", User, "the terms of a sum are partial along the same axes, or all complete";
    /// An axis pends on one operand and splits another.
    PENDING_AXIS_SPLITS = "V310", User, "an axis along which an operand is a partial sum splits nothing in the operator";
    /// A result has another layout than the operator leaves.
    RESULT_LAYOUT = "V311", User, "a result pends exactly along the axes of reduced factors and those that pass through, and is split as its factors are";
    /// An operator without factors has split or partial values.
    NO_FACTORS = "V312", User, "an operator without factors works on whole, complete values; a constant is complete";
    /// A reshard adds a pending reduction.
    RESHARD = "V313", User, "`reshard` completes pending reductions and adds none; `constraint` keeps the layout";
    /// `to_partial` does not fit its operand or its result.
    TO_PARTIAL = "V314", User, "`to_partial` takes a value that is neither split nor pending along its axes, and leaves it pending along them";
    /// Layouts around `repeat` differ from those inside.
    REPEAT_LAYOUT = "V315", User, "values around `repeat` have the layouts of the layer functions, with `{}` for the layers";
    /// A layer function hands on another layout than it takes.
    LAYER_LAYOUT = "V316", User, "a layer function returns carried values and caches in the layouts in which it takes them";
    /// The model takes or returns a partial value.
    BOUNDARY = "V317", User, "parameters and results of a function that no `repeat` runs are complete";

    /// A collective changes the type.
    COLLECTIVE_TYPE = "V401", User, "a collective keeps the kind, the global extents and the elements of its operand";
    /// A collective has arguments of the wrong form.
    COLLECTIVE_ARGS = "V402", User, "a collective has one axis list per dimension, names axes of the mesh and existing dimensions, and each dimension takes part in one move";
    /// Axes are not where a collective takes them from.
    NOT_AT_MINOR_END = "V403", User, "`all_gather` and `all_to_all` take axes from the minor end of a dimension";
    /// Axes are not free where a collective puts them.
    NOT_FREE = "V404", User, "`all_slice` splits by axes that neither split the value nor pend";
    /// A reduction completes what does not pend.
    NOT_PENDING = "V405", User, "`all_reduce` and `reduce_scatter` complete axes that pend under their kind, outermost kinds last";
    /// A result has another layout than its collective leaves.
    COLLECTIVE_RESULT = "V406", User, "the result of a collective has the layout that the collective leaves";
    /// A permute changes the parts.
    PERMUTE_PARTS = "V407", User, "`collective_permute` keeps the parts of every dimension and what pends";
    /// Parts do not lie inside one another.
    PARTS_DO_NOT_NEST = "V408", User, "gathers, slices, scatters and exchanges join parts to larger ones, or cut them, also where a size does not divide";

    /// A local extent is no share.
    NOT_A_SHARE = "V501", User, "every local extent is the share of a global one under the layout of its value";
    /// An operator's local values are parts of different global tensors.
    OTHER_GLOBAL = "V502", User, "the global tensors behind the local values of an operator fit the operator too";
    /// A program is not a stage.
    STAGE_NAME = "V503", User, "the programs are `@stage_0`, `@stage_1`, … without gaps";
    /// A transfer names no other stage.
    NO_STAGE = "V504", User, "`send` and `recv` name another stage that exists";
    /// Transfers do not pair up.
    UNPAIRED = "V505", User, "between two stages there are as many `recv` as `send`, in the same order, with the same types and layouts";
}
