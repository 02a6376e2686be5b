//! A checkpoint's `model.safetensors.index.json` against the model's weights.
