"""The network inside other frameworks: a module in `torch`, `flax`, `equinox` and `keras`, a graph in `onnx`.

Each is imported by itself, and importing one loads no other framework.
"""
