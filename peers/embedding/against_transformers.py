"""Holds reference.py against Hugging Face's own models: run by hand, because PyTorch takes 5 GB of packages.

usage: python3 -m venv V && V/bin/pip install torch transformers safetensors tokenizers numpy && V/bin/python against_transformers.py
Prints the largest difference for each architecture and head, and fails where it is above 1e-6.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file
from tokenizers import Tokenizer

REFERENCE = pathlib.Path(__file__).with_name("reference.py")
QUESTION = "What does a heron eat?"
TEXTS = [
    "passage: The heron waits for a fish.",
    "naïve café déjà vu — ½ ﬁ",
    "接続は閉じられます 你好",
    "x",
    "def read_file(path): return open(path).read()",
    "the quick brown fox jumps over the lazy dog " * 20,
]


def model_of(folder, judges):
    """Hugging Face's model with the checkpoint's weights, all of them, as 64-bit floats."""
    config = json.loads((folder / "config.json").read_text())
    kind = config.pop("model_type")
    weights = {name: value.double() for name, value in load_file(folder / "model.safetensors").items()}
    vocabulary = next(len(value) for name, value in weights.items() if "word_embeddings" in name or "tok_embeddings" in name)
    rest = {"pad_token_id": 3} if kind == "modernbert" else {"type_vocab_size": 2 if kind == "bert" else 1}
    config = transformers.AutoConfig.for_model(kind, vocab_size=vocabulary, num_labels=1, **config, **rest)
    make = transformers.AutoModelForSequenceClassification if judges else transformers.AutoModel
    model = make.from_config(config, attn_implementation="eager").eval().double()
    if not judges and kind != "modernbert":
        model.pooler = None
    left = model.load_state_dict(weights, strict=False)
    missing = [name for name in left.missing_keys if "_ids" not in name]
    assert not missing and not left.unexpected_keys, left
    return kind, model


def computed(kind, model, encoding, judges):
    inputs = {"input_ids": torch.tensor([encoding.ids]), "attention_mask": torch.ones(1, len(encoding.ids), dtype=torch.long)}
    if kind == "bert":
        inputs["token_type_ids"] = torch.tensor([encoding.type_ids])
    with torch.no_grad():
        output = model(**inputs)
    if judges:
        return output.logits[0]
    tokens = output.last_hidden_state[0]
    pooled = tokens[0] if kind in ("roberta", "xlm-roberta") else tokens.mean(0)
    return pooled / pooled.norm()


def main():
    print(f"PyTorch {torch.__version__}, transformers {transformers.__version__}")
    for architecture in ["bert", "bert-unigram", "roberta", "xlm-roberta", "modernbert"]:
        for head in ["none", "reranker"]:
            judges = head == "reranker"
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                lines = [json.dumps([QUESTION, text] if judges else text) for text in TEXTS]
                told = subprocess.run(
                    [sys.executable, REFERENCE, folder, architecture, head],
                    input="\n".join(lines), capture_output=True, text=True, check=True,
                )
                kind, model = model_of(folder, judges)
                tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
                tokenizer.no_padding()
                tokenizer.enable_truncation(96 - (2 if kind in ("roberta", "xlm-roberta") else 0))
            worst = 0.0
            for text, known in zip(TEXTS, json.loads(told.stdout)):
                encoding = tokenizer.encode(QUESTION, text) if judges else tokenizer.encode(text)
                difference = computed(kind, model, encoding, judges) - torch.tensor(known, dtype=torch.double)
                worst = max(worst, difference.abs().max().item())
            print(f"{architecture}, {head}: {worst:.1e}")
            assert worst < 1e-6, "the reference is not Hugging Face's model"


main()
