"""all-MiniLM-L6-v2 as an ONNX graph, made from its checkpoint."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, WIDTH, WINDOW = 6, 12, 384, 256


def graph_of(weights, pooled):
    """The whole network, as an export from PyTorch has it: with pooling, or with the names that Transformers.js expects."""
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

    tokens, attention = ("tokens", "mask") if pooled else ("input_ids", "attention_mask")
    words = op("Gather", constant(weights["embeddings.word_embeddings.weight"]), tokens)
    positions = constant(weights["embeddings.position_embeddings.weight"])
    if pooled:
        places = op("Gather", positions, "places")
        segment = constant(weights["embeddings.token_type_embeddings.weight"][0])
    else:
        zero, one, two = (constant(np.array([number], dtype=np.int64)) for number in range(3))
        places = op("Slice", positions, zero, op("Slice", op("Shape", tokens), one, two), zero)
        segment = op("Gather", constant(weights["embeddings.token_type_embeddings.weight"]), "token_type_ids")
    state = norm("embeddings.LayerNorm", op("Add", op("Add", words, places), segment))
    mask = op("Cast", attention, to=TensorProto.FLOAT)
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
    if not pooled:
        nodes.append(helper.make_node("Identity", [state], ["last_hidden_state"]))
        names = ["input_ids", "attention_mask", "token_type_ids"]
        inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "length"]) for name in names]
        outputs = [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["texts", "length", WIDTH])]
        return model_of(helper.make_graph(nodes, "minilm", inputs, outputs, constants))
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
    return model_of(helper.make_graph(nodes, "minilm", inputs, outputs, constants))


def model_of(graph):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
