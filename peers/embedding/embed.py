"""all-MiniLM-L6-v2 by onnxruntime, from the same files: the peer of `cargo xtask bench knowledge`.

usage: embed.py MODEL_FOLDER THREADS BATCH < texts, one JSON string a line
Prints one JSON object: how long the second of two passes took, and the vectors.
"""

import json
import sys
import time

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file
from tokenizers import Tokenizer

LAYERS, HEADS, WIDTH, WINDOW = 6, 12, 384, 256


def graph_of(weights):
    """The whole network with pooling, as an export from PyTorch has it."""
    nodes, constants = [], []

    def constant(value):
        name = f"c{len(constants)}"
        constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(kind, *inputs, **attributes):
        name = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def dense(name, x):
        product = op("MatMul", x, constant(weights[f"{name}.weight"].T))
        return op("Add", product, constant(weights[f"{name}.bias"]))

    def norm(name, x):
        scale, shift = constant(weights[f"{name}.weight"]), constant(weights[f"{name}.bias"])
        return op("LayerNormalization", x, scale, shift, axis=-1, epsilon=1e-12)

    def heads(name, x, order):
        split = op("Reshape", dense(name, x), constant(np.array([0, 0, HEADS, WIDTH // HEADS], dtype=np.int64)))
        return op("Transpose", split, perm=order)

    words = op("Gather", constant(weights["embeddings.word_embeddings.weight"]), "tokens")
    places = op("Gather", constant(weights["embeddings.position_embeddings.weight"]), "places")
    segment = constant(weights["embeddings.token_type_embeddings.weight"][0])
    state = norm("embeddings.LayerNorm", op("Add", op("Add", words, places), segment))
    mask = op("Cast", "mask", to=TensorProto.FLOAT)
    ignored = op("Mul", op("Sub", constant(np.float32(1)), mask), constant(np.float32(-1e9)))
    ignored = op("Unsqueeze", ignored, constant(np.array([1, 2], dtype=np.int64)))
    for layer in range(LAYERS):
        name = f"encoder.layer.{layer}"
        queries = heads(f"{name}.attention.self.query", state, [0, 2, 1, 3])
        keys = heads(f"{name}.attention.self.key", state, [0, 2, 3, 1])
        values = heads(f"{name}.attention.self.value", state, [0, 2, 1, 3])
        scores = op("Div", op("MatMul", queries, keys), constant(np.float32((WIDTH / HEADS) ** 0.5)))
        shares = op("Softmax", op("Add", scores, ignored), axis=-1)
        mixed = op("Transpose", op("MatMul", shares, values), perm=[0, 2, 1, 3])
        joined = op("Reshape", mixed, constant(np.array([0, 0, WIDTH], dtype=np.int64)))
        added = op("Add", dense(f"{name}.attention.output.dense", joined), state)
        state = norm(f"{name}.attention.output.LayerNorm", added)
        wide = op("Gelu", dense(f"{name}.intermediate.dense", state))
        state = norm(f"{name}.output.LayerNorm", op("Add", dense(f"{name}.output.dense", wide), state))
    weight = op("Unsqueeze", mask, constant(np.array([2], dtype=np.int64)))
    axis = constant(np.array([1], dtype=np.int64))
    mean = op("Div", op("ReduceSum", op("Mul", state, weight), axis, keepdims=0), op("ReduceSum", weight, axis, keepdims=0))
    nodes.append(helper.make_node("LpNormalization", [mean], ["vectors"], axis=-1, p=2))
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, ["texts", "length"]),
        helper.make_tensor_value_info("places", TensorProto.INT64, ["length"]),
        helper.make_tensor_value_info("mask", TensorProto.INT64, ["texts", "length"]),
    ]
    outputs = [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, ["texts", WIDTH])]
    graph = helper.make_graph(nodes, "minilm", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def main():
    folder, threads, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = graph_of(load_file(f"{folder}/model.safetensors")).SerializeToString()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    tokenizer = Tokenizer.from_file(f"{folder}/tokenizer.json")
    tokenizer.enable_truncation(WINDOW)
    tokenizer.no_padding()
    texts = [json.loads(line) for line in sys.stdin if line.strip()]

    def embed():
        encoded = tokenizer.encode_batch(texts)
        order = sorted(range(len(texts)), key=lambda text: len(encoded[text].ids))
        vectors = [None] * len(texts)
        for start in range(0, len(order), batch):
            part = order[start : start + batch]
            length = max(len(encoded[text].ids) for text in part)
            tokens = np.zeros((len(part), length), dtype=np.int64)
            mask = np.zeros((len(part), length), dtype=np.int64)
            for row, text in enumerate(part):
                ids = encoded[text].ids
                tokens[row, : len(ids)], mask[row, : len(ids)] = ids, 1
            inputs = {"tokens": tokens, "places": np.arange(length, dtype=np.int64), "mask": mask}
            for text, vector in zip(part, session.run(None, inputs)[0]):
                vectors[text] = vector.tolist()
        return vectors, [len(one.ids) for one in encoded]

    embed()
    begin, cpu = time.perf_counter(), time.process_time()
    vectors, lengths = embed()
    seconds, processor_seconds = time.perf_counter() - begin, time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "processor_seconds": processor_seconds, "tokens": lengths, "vectors": vectors}))


main()
