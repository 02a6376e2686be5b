//! A request as far as it can be asked otherwise, and the demands that a user can drop.

use super::super::Method;
use crate::strategy::Degrees;
use shardc_cost::serving::Load;

/// What is asked of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Devices.
    pub devices: u64,
    /// Whether weights are stored in 8 bits, whatever the model says.
    pub weights_f8: bool,
    /// Whether the KV cache is stored in 8 bits.
    pub cache_f8: bool,
    /// Longest context that memory must hold, in tokens.
    pub max_len: u64,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
    /// The load and its limits.
    pub load: Load,
    /// The search.
    pub method: Method,
    /// Degrees that the user forces.
    pub forced: Option<Degrees>,
    /// Whether the user's pins hold.
    pub pins: bool,
}

impl Asked {
    /// Tokens of one request of the load.
    pub(super) fn request(&self) -> u64 {
        self.load.isl.saturating_add(self.load.osl)
    }

    /// The same with contexts of at most `tokens`: memory for fewer, and shorter prompts where the
    /// load itself is longer.
    pub(super) fn with_context(&self, tokens: u64) -> Self {
        let mut asked = Asked { max_len: tokens, ..self.clone() };
        if tokens < self.request() {
            let osl = self.load.osl.min(tokens / 2).max(1);
            asked.load.osl = osl;
            asked.load.isl = tokens.saturating_sub(osl).max(1);
        }
        asked
    }
}

/// A demand that the user made and can drop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Tpot,
    Ttft,
    Concurrency,
    Layout,
    Pins,
    Search,
    MemFraction,
    MaxLen,
}

impl Demand {
    const ALL: [Demand; 8] = [
        Demand::Pins,
        Demand::Search,
        Demand::Layout,
        Demand::MemFraction,
        Demand::MaxLen,
        Demand::Concurrency,
        Demand::Tpot,
        Demand::Ttft,
    ];

    /// The demands of a request.
    pub(super) fn of(asked: &Asked) -> Vec<Demand> {
        Self::ALL.into_iter().filter(|d| d.dropped(asked) != *asked).collect()
    }

    /// The request without the demand.
    pub(super) fn dropped(self, asked: &Asked) -> Asked {
        let mut asked = asked.clone();
        match self {
            Demand::Tpot => asked.load.tpot_limit = None,
            Demand::Ttft => asked.load.ttft_limit = None,
            Demand::Concurrency => asked.load.concurrency = None,
            Demand::Layout => asked.forced = None,
            Demand::Pins => asked.pins = false,
            Demand::Search => asked.method = Method::Degrees,
            Demand::MemFraction => asked.mem_fraction = 1.0,
            Demand::MaxLen => asked.max_len = asked.request(),
        }
        asked
    }

    /// The option that makes the demand.
    pub(super) fn option(self) -> &'static str {
        match self {
            Demand::Tpot => "--tpot",
            Demand::Ttft => "--ttft",
            Demand::Concurrency => "--concurrency",
            Demand::Layout => "--layout",
            Demand::Pins => "--pin",
            Demand::Search => "--search",
            Demand::MemFraction => "--mem-fraction",
            Demand::MaxLen => "--max-len",
        }
    }

    /// The demand with its value, for the list of what conflicts.
    pub(super) fn describe(self, asked: &Asked) -> String {
        let load = &asked.load;
        let value = match self {
            Demand::Tpot => load.tpot_limit.map(|l| l.as_ms().to_string()),
            Demand::Ttft => load.ttft_limit.map(|l| l.as_ms().to_string()),
            Demand::Concurrency => load.concurrency.map(|c| c.to_string()),
            Demand::Layout => asked.forced.map(|d| d.flag()),
            Demand::Pins | Demand::Search => None,
            Demand::MemFraction => Some(asked.mem_fraction.to_string()),
            Demand::MaxLen => Some(asked.max_len.to_string()),
        };
        value.map_or(self.option().to_string(), |v| format!("{} {v}", self.option()))
    }
}
