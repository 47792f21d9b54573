"""Ollama's protocol in front of a real llama.cpp server with a tiny model of random weights.

Prints its address and that of llama.cpp's own server, which speaks OpenAI's protocol, then serves until its standard input ends. The model is made anew each time: two layers of nothing, which
speak nonsense, but through the same code as any other model.
"""

import json
import os
import sys
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import gguf
import numpy
import xllamacpp

MODEL = "tiny:latest"
WIDTH, LAYERS, HEADS, INNER = 32, 1, 2, 64


def make_model(path):
    """A llama of random weights whose tokens are bytes."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)] + ["▁", "a", "e", "t"]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
    kinds += [gguf.TokenType.BYTE] * 256 + [gguf.TokenType.NORMAL] * 4
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(4096)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * len(tokens))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m['content'] }}\n{% endfor %}")
    chance = numpy.random.default_rng(7)

    def tensor(name, *shape):
        writer.add_tensor(name, chance.normal(0, 0.5, shape).astype(numpy.float32))

    tensor("token_embd.weight", len(tokens), WIDTH)
    for layer in range(LAYERS):
        tensor(f"blk.{layer}.attn_norm.weight", WIDTH)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            tensor(f"blk.{layer}.{part}.weight", WIDTH, WIDTH)
        tensor(f"blk.{layer}.ffn_norm.weight", WIDTH)
        tensor(f"blk.{layer}.ffn_gate.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_up.weight", INNER, WIDTH)
        tensor(f"blk.{layer}.ffn_down.weight", WIDTH, INNER)
    tensor("output_norm.weight", WIDTH)
    tensor("output.weight", len(tokens), WIDTH)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def start_llama(path):
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = 4096
    params.n_predict = 24
    params.cpuparams.n_threads = 1
    return xllamacpp.Server(params)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/api/tags":
            return self.answer({"error": "not found"}, 404)
        size = os.path.getsize(self.server.model)
        self.answer({"models": [{"name": MODEL, "size": size, "digest": "tiny"}]})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if asked.get("model") != MODEL:
            return self.answer({"error": f"model '{asked.get('model')}' not found"}, 404)
        if self.path == "/api/show":
            return self.answer({"capabilities": ["completion"], "model_info": {"llama.embedding_length": WIDTH}})
        if self.path != "/api/chat":
            return self.answer({"error": "not found"}, 404)
        self.chat(asked["messages"])

    def chat(self, messages):
        request = {"messages": messages, "stream": True, "max_tokens": 24, "stream_options": {"include_usage": True}}
        request = urllib.request.Request(
            self.server.llama + "/v1/chat/completions",
            json.dumps(request).encode(),
            {"Content-Type": "application/json"},
        )
        self.send_response(200)
        self.send_header("Content-Type", "application/x-ndjson")
        self.send_header("Connection", "close")
        self.end_headers()
        usage = {}
        with urllib.request.urlopen(request) as stream:
            for line in stream:
                if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
                    continue
                event = json.loads(line[6:])
                usage = event.get("usage") or usage
                for choice in event.get("choices", []):
                    text = choice.get("delta", {}).get("content")
                    if text:
                        self.line({"message": {"role": "assistant", "content": text}, "done": False})
        self.line({
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "prompt_eval_count": usage.get("prompt_tokens", 0),
            "eval_count": usage.get("completion_tokens", 0),
        })
        self.close_connection = True

    def line(self, value):
        self.wfile.write(json.dumps({"model": MODEL, **value}).encode() + b"\n")
        self.wfile.flush()


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tiny.gguf")
        make_model(path)
        llama = start_llama(path)
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.model, server.llama = path, llama.listening_address
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"http://127.0.0.1:{server.server_address[1]}")
        print(f"{llama.listening_address}/v1", flush=True)
        sys.stdin.read()
    # The server has threads of its own that nobody waits for.
    os._exit(0)


main()
