"""Small random encoders of each architecture, and what they make of texts: the reference of the product's own loader.

usage: reference.py FOLDER ARCHITECTURE HEAD < texts, one JSON string a line, or [question, passage] for a head
  ARCHITECTURE is bert, bert-unigram (as multilingual-e5 is), roberta, xlm-roberta or modernbert; HEAD is none or reranker
Makes the folder with the files that a model on the hub has, and prints one JSON object: the vectors or judgements.

The forward passes follow Hugging Face's transformers (modeling_bert.py, modeling_xlm_roberta.py, modeling_modernbert.py) line
by line in numpy with 64-bit floats; PyTorch itself would be a gigabyte. Texts go one by one, so nothing is padded.
"""

import json
import math
import os
import sys

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

WIDTH, WIDE, LAYERS, HEADS, PLACES = 48, 80, 4, 4, 96
CORPUS = [
    "The heron stands in the shallow water and waits for a fish.",
    "Die Verbindung wird geschlossen, wenn sie niemand benutzt.",
    "def read_file(path): return open(path).read()",
    "La connexion est fermée; naïve café déjà vu.",
    "接続は閉じられます。 你好世界",
] * 4
gelu = np.vectorize(lambda x: 0.5 * x * (1 + math.erf(x / math.sqrt(2))))


def tokenizer_of(kind):
    if kind == "bert":
        tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special)
        first, last, between = "[CLS]", "[SEP]", "[SEP]"
    elif kind in ("xlm-roberta", "bert-unigram"):
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(" {2,}", " ")])
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
        special = ["<s>", "<pad>", "</s>", "<unk>"]
        trainer = trainers.UnigramTrainer(vocab_size=200, special_tokens=special, unk_token="<unk>", show_progress=False)
        first, last, between = "<s>", "</s>", "</s> </s>"
    else:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
        first, last, between = "[CLS]", "[SEP]", "[SEP]"
        if kind == "roberta":
            special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
            first, last, between = "<s>", "</s>", "</s> </s>"
        trainer = trainers.BpeTrainer(
            vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
        )
    tokenizer.train_from_iterator(CORPUS, trainer)
    second = 1 if kind == "bert" else 0
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}",
        pair=f"{first} $A {between} $B:{second} {last}:{second}",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in {first, last}],
    )
    # What a published file may have and a reader must not use.
    tokenizer.enable_truncation(11)
    tokenizer.enable_padding(length=13, pad_token=special[0])
    return tokenizer


def bert_weights(random, vocabulary, segments, prefix):
    weights = {}

    def linear(name, inputs, outputs):
        weights[f"{name}.weight"] = random.normal(0, 0.2, (outputs, inputs))
        weights[f"{name}.bias"] = random.normal(0, 0.1, outputs)

    def norm(name):
        weights[f"{name}.weight"] = random.normal(1, 0.2, WIDTH)
        weights[f"{name}.bias"] = random.normal(0, 0.1, WIDTH)

    for name, rows in (("word", vocabulary), ("position", PLACES), ("token_type", segments)):
        weights[f"{prefix}embeddings.{name}_embeddings.weight"] = random.normal(0, 0.5, (rows, WIDTH))
    norm(f"{prefix}embeddings.LayerNorm")
    for layer in range(LAYERS):
        base = f"{prefix}encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            linear(f"{base}.attention.self.{part}", WIDTH, WIDTH)
        linear(f"{base}.attention.output.dense", WIDTH, WIDTH)
        norm(f"{base}.attention.output.LayerNorm")
        linear(f"{base}.intermediate.dense", WIDTH, WIDE)
        linear(f"{base}.output.dense", WIDE, WIDTH)
        norm(f"{base}.output.LayerNorm")
    return weights, linear


def modern_weights(random, vocabulary, prefix):
    weights = {}

    def linear(name, inputs, outputs):
        weights[f"{name}.weight"] = random.normal(0, 0.2, (outputs, inputs))

    def norm(name):
        weights[f"{name}.weight"] = random.normal(1, 0.2, WIDTH)

    weights[f"{prefix}embeddings.tok_embeddings.weight"] = random.normal(0, 0.5, (vocabulary, WIDTH))
    norm(f"{prefix}embeddings.norm")
    for layer in range(LAYERS):
        base = f"{prefix}layers.{layer}"
        if layer:
            norm(f"{base}.attn_norm")
        linear(f"{base}.attn.Wqkv", WIDTH, 3 * WIDTH)
        linear(f"{base}.attn.Wo", WIDTH, WIDTH)
        norm(f"{base}.mlp_norm")
        linear(f"{base}.mlp.Wi", WIDTH, 2 * WIDE)
        linear(f"{base}.mlp.Wo", WIDE, WIDTH)
    norm(f"{prefix}final_norm")
    return weights, linear, norm


class Network:
    def __init__(self, weights, epsilon):
        self.weights = {name: value.astype(np.float64) for name, value in weights.items()}
        self.epsilon = epsilon

    def linear(self, name, x):
        y = x @ self.weights[f"{name}.weight"].T
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        y = (x - mean) / np.sqrt(variance + self.epsilon) * self.weights[f"{name}.weight"]
        bias = self.weights.get(f"{name}.bias")
        return y if bias is None else y + bias

    @staticmethod
    def attention(query, key, value, mask=None):
        """Each of shape (heads, tokens, width of a head)."""
        scores = query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        shares = scores / scores.sum(-1, keepdims=True)
        return (shares @ value).transpose(1, 0, 2).reshape(query.shape[1], -1)

    @staticmethod
    def heads(x):
        return x.reshape(len(x), HEADS, WIDTH // HEADS).transpose(1, 0, 2)

    def bert(self, ids, segments, first_place, prefix):
        table = lambda name: self.weights[f"{prefix}embeddings.{name}_embeddings.weight"]
        places = np.arange(len(ids)) + first_place
        x = table("word")[ids] + table("position")[places] + table("token_type")[segments]
        x = self.norm(f"{prefix}embeddings.LayerNorm", x)
        for layer in range(LAYERS):
            base = f"{prefix}encoder.layer.{layer}"
            parts = [self.heads(self.linear(f"{base}.attention.self.{part}", x)) for part in ("query", "key", "value")]
            mixed = self.linear(f"{base}.attention.output.dense", self.attention(*parts))
            x = self.norm(f"{base}.attention.output.LayerNorm", mixed + x)
            wide = gelu(self.linear(f"{base}.intermediate.dense", x))
            x = self.norm(f"{base}.output.LayerNorm", self.linear(f"{base}.output.dense", wide) + x)
        return x

    def modern(self, ids, prefix, config):
        x = self.norm(f"{prefix}embeddings.norm", self.weights[f"{prefix}embeddings.tok_embeddings.weight"][ids])
        width = WIDTH // HEADS
        places = np.arange(len(ids))
        for layer in range(LAYERS):
            base = f"{prefix}layers.{layer}"
            sees_all = layer % config["global_attn_every_n_layers"] == 0
            theta = config["global_rope_theta"] if sees_all else config["local_rope_theta"]
            frequencies = places[:, None] / theta ** (np.arange(0, width, 2) / width)
            angles = np.concatenate([frequencies, frequencies], -1)

            def turn(part):
                half = np.concatenate([-part[..., width // 2 :], part[..., : width // 2]], -1)
                return part * np.cos(angles) + half * np.sin(angles)

            y = self.norm(f"{base}.attn_norm", x) if layer else x
            query, key, value = np.split(self.linear(f"{base}.attn.Wqkv", y), 3, -1)
            near = np.abs(places[:, None] - places[None, :]) <= config["local_attention"] // 2
            mask = None if sees_all else near
            mixed = self.attention(turn(self.heads(query)), turn(self.heads(key)), self.heads(value), mask)
            x = x + self.linear(f"{base}.attn.Wo", mixed)
            inner, gate = np.split(self.linear(f"{base}.mlp.Wi", self.norm(f"{base}.mlp_norm", x)), 2, -1)
            x = x + self.linear(f"{base}.mlp.Wo", gelu(inner) * gate)
        return self.norm(f"{prefix}final_norm", x)


def main():
    folder, kind, head = sys.argv[1:4]
    tokenizer = tokenizer_of(kind)
    kind = "bert" if kind == "bert-unigram" else kind
    # Where the pooling is described is only told by modules.json.
    pooling_folder = "1_Pooling" if kind == "bert" else "2_How"
    os.makedirs(f"{folder}/{pooling_folder}", exist_ok=True)
    random = np.random.default_rng(20250607)
    vocabulary = tokenizer.get_vocab_size()
    judges = head == "reranker"
    if kind == "modernbert":
        config = {
            "model_type": kind, "hidden_size": WIDTH, "intermediate_size": WIDE, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "max_position_embeddings": PLACES, "norm_eps": 1e-5, "hidden_activation": "gelu",
            "global_attn_every_n_layers": 3, "local_attention": 6, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0,
            "classifier_pooling": "mean",
        }
        prefix = "model." if judges else ""
        weights, linear, norm = modern_weights(random, vocabulary, prefix)
        if judges:
            linear("head.dense", WIDTH, WIDTH)
            norm("head.norm")
            linear("classifier", WIDTH, 1)
            weights["classifier.bias"] = random.normal(0, 0.1, 1)
    else:
        roberta = kind in ("roberta", "xlm-roberta")
        config = {
            "model_type": kind, "hidden_size": WIDTH, "intermediate_size": WIDE, "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS, "max_position_embeddings": PLACES, "layer_norm_eps": 1e-5 if roberta else 1e-12,
            "hidden_act": "gelu", "pad_token_id": 1 if roberta else 0,
        }
        prefix = ("roberta." if roberta else "bert.") if judges else ""
        weights, linear = bert_weights(random, vocabulary, 1 if roberta else 2, prefix)
        if judges and roberta:
            linear("classifier.dense", WIDTH, WIDTH)
            linear("classifier.out_proj", WIDTH, 1)
        elif judges:
            linear(f"{prefix}pooler.dense", WIDTH, WIDTH)
            linear("classifier", WIDTH, 1)
    # RoBERTa's in half precision, as many published checkpoints are: what is computed with is what is written.
    precision = np.float16 if kind == "xlm-roberta" else np.float32
    weights = {name: value.astype(precision) for name, value in weights.items()}
    save_file(weights, f"{folder}/model.safetensors")
    tokenizer.save(f"{folder}/tokenizer.json")
    json.dump(config, open(f"{folder}/config.json", "w"))
    first = kind in ("roberta", "xlm-roberta")
    pooling = {"pooling_mode_cls_token": first, "pooling_mode_mean_tokens": not first}
    json.dump(pooling, open(f"{folder}/{pooling_folder}/config.json", "w"))
    modules = [("", "Transformer"), (pooling_folder, "Pooling"), ("3_Normalize", "Normalize")]
    modules = [{"path": path, "type": f"sentence_transformers.models.{name}"} for path, name in modules]
    json.dump(modules, open(f"{folder}/modules.json", "w"))
    json.dump({"prompts": {"query": "query: ", "passage": "passage: "}}, open(f"{folder}/config_sentence_transformers.json", "w"))

    network = Network(weights, config.get("norm_eps", config.get("layer_norm_eps")))
    first_place = 2 if kind in ("roberta", "xlm-roberta") else 0
    window = PLACES - first_place
    tokenizer.no_padding()
    tokenizer.enable_truncation(window)
    results = []
    for line in sys.stdin:
        text = json.loads(line)
        encoding = tokenizer.encode(*text) if judges else tokenizer.encode(text)
        ids, segments = np.array(encoding.ids), np.array(encoding.type_ids)
        if kind == "modernbert":
            x = network.modern(ids, prefix, config)
        else:
            x = network.bert(ids, segments, first_place, prefix)
        if not judges:
            pooled = x[0] if first else x.mean(0)
            results.append((pooled / np.linalg.norm(pooled)).tolist())
        elif kind == "modernbert":
            inner = network.norm("head.norm", gelu(network.linear("head.dense", x.mean(0))))
            results.append(network.linear("classifier", inner).item())
        elif kind in ("roberta", "xlm-roberta"):
            results.append(network.linear("classifier.out_proj", np.tanh(network.linear("classifier.dense", x[0]))).item())
        else:
            results.append(network.linear("classifier", np.tanh(network.linear(f"{prefix}pooler.dense", x[0]))).item())
    print(json.dumps(results))


main()
