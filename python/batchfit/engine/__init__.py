# SPDX-License-Identifier: Apache-2.0
"""Inference of one model in several engines, each launched by `batchfit bench --engine`: python -m batchfit.engine.

    prepare.py       once: inputs, the reference's outputs, weights, the ONNX file and its half-precision twin
    torch_engine.py  torch, torch-compile
    onnx_engine.py   onnxruntime, onnxruntime-tensorrt
    trtexec.py       TensorRT's own program
    onnx_file.py     what an ONNX file wants to be fed, read without the onnx package
    compare.py       how far outputs are from the reference's
    report.py        what leaves the process, in the steps protocol

Recipe for another engine: a class with the members of torch_engine.Torch, a row in ENGINES of __main__.py, its name in
src/job/grid/engine.c, a line in doc/engines.md, and a test in tests/torch/test_engine.py that runs it."""
