//! Multi-token-prediction layers: no part of the model that is planned, and said so.

use super::Cx;
use super::fields::MAX_LAYERS;
use crate::codes;
use shardc_ir::diag::Result;

/// Keys that count them (DeepSeek V3 and its kin; MiniMax M2; Qwen 3.5; Sarvam).
const KEYS: [&str; 4] =
    ["num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers", "num_mtp_layers"];

/// Warns where the configuration counts such layers.
pub(super) fn warn(cx: &Cx) -> Result<()> {
    for key in KEYS {
        let Some(n) = cx.opt_whole(key, 0, MAX_LAYERS)?.filter(|n| *n > 0) else { continue };
        let layers = if n == 1 { "layer is" } else { "layers are" };
        let message =
            format!("{n} multi-token-prediction {layers} left out of parameters, memory and time");
        cx.warn(codes::IGNORED, key, message);
    }
    Ok(())
}
