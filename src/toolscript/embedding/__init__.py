"""Texts to vectors: encoders, the models they run, and the cache of vectors."""

import os

# Read by ONNX Runtime as it is imported, which any module of this package may do: without it,
# it keeps an id of the machine in the home directory and sends usage data to its makers.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
