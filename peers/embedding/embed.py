"""all-MiniLM-L6-v2 by onnxruntime, from the same files: the peer of `cargo xtask bench knowledge`.

usage: embed.py MODEL_FOLDER THREADS BATCH < texts, one JSON string a line
Prints one JSON object: how long the second of two passes took, and the vectors.
"""

import json
import sys
import time

import numpy as np
import onnxruntime
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from minilm import WINDOW, graph_of


def main():
    folder, threads, batch = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    model = graph_of(load_file(f"{folder}/model.safetensors"), pooled=True).SerializeToString()
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
