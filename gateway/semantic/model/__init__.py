"""Texts come in. One vector of length 1 for each goes out, from an ONNX model in this process or an HTTP endpoint."""
