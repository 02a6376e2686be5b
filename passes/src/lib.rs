//! Passes from logical to local IR, and the search over layouts.
