"""Files of safetensors by hand, right or not."""

# The index and its shards
ONE, TWO = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
