"""Random instances of every architecture: config.json, tensors, and the logits
that reference.py computes."""

import json
import os
import random
import struct

import golden
import reference

CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM", "internlm2": "InternLM2ForCausalLM",
    "qwen2": "Qwen2ForCausalLM", "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM", "qwen3_moe": "Qwen3MoeForCausalLM",
    "gemma": "GemmaForCausalLM", "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM", "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM", "phimoe": "PhimoeForCausalLM",
}
MOE = ("mixtral", "qwen2_moe", "qwen3_moe", "phimoe")
WINDOWED = ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe",
            "gemma2", "gemma3_text", "phi3", "phimoe")
ORIGINAL = 12  # tokens of the contexts that scalings begin with


def rope_of(r, kind, config, rotated):
    """An object of rope_scaling; None: no scaling."""
    kinds = ["default", "linear", "llama3", "yarn", "dynamic"]
    if kind in ("phi3", "phimoe"):
        kinds = ["default", "longrope"]
    name = r.choice(kinds)
    if name == "default":
        return None
    rope = {"rope_type": name, "factor": r.choice([2.0, 4.0, 8.0])}
    if name in ("llama3", "yarn"):
        rope["original_max_position_embeddings"] = ORIGINAL
    if name == "llama3":
        rope["low_freq_factor"], rope["high_freq_factor"] = 1.0, 4.0
    if name == "longrope":
        del rope["factor"]
        config["original_max_position_embeddings"] = (
            ORIGINAL if kind == "phi3" else 256)
        rope["original_max_position_embeddings"] = config[
            "original_max_position_embeddings"]
        for key in ("short_factor", "long_factor"):
            rope[key] = [1 + 3 * r.random() for _ in range(rotated // 2)]
        if kind == "phimoe":
            rope["short_mscale"] = rope["long_mscale"] = 1.2
    return rope


def put_rope(r, kind, config, rotated):
    theta = r.choice([100.0, 10000.0, 500000.0])
    rope = rope_of(r, kind, config, rotated)
    if r.random() < 0.5:  # the older style
        config["rope_theta"] = theta
        if kind == "gemma3_text":
            config["rope_local_base_freq"] = 300.0
        if rope:
            if r.random() < 0.5:
                rope["type"] = rope.pop("rope_type")
            config["rope_scaling"] = rope
        return
    rope = dict(rope or {"rope_type": "default"}, rope_theta=theta)
    if kind == "gemma3_text":
        rope = {"full_attention": rope, "sliding_attention": {
            "rope_type": "default", "rope_theta": 300.0}}
    config["rope_parameters"] = rope


def make_config(r, kind):
    groups, kv = r.choice([1, 2, 3]), r.choice([1, 2, 3])
    dim = r.choice([4, 6, 8, 16])
    heads = groups * kv
    layers = r.choice([2, 3, 4])
    c = {
        "architectures": [CLASSES[kind]], "model_type": kind,
        "vocab_size": r.choice([17, 40]), "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv,
        "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2,
        "hidden_size": heads * dim, "intermediate_size": r.choice([12, 20]),
        "tie_word_embeddings": r.random() < 0.4,
    }
    c["layer_norm_eps" if kind == "phi" else "rms_norm_eps"] = r.choice(
        [1e-5, 1e-6])
    if kind == "phi":
        c["hidden_act"] = "gelu_new"
    elif kind.startswith("gemma"):
        c["hidden_act" if kind == "gemma" else "hidden_activation"] = \
            "gelu_pytorch_tanh"
    else:
        c["hidden_act"] = "silu"
    if kind not in ("internlm2", "phi", "phi3", "phimoe") and (
            r.random() < 0.5 or kind.startswith(("gemma", "qwen3"))):
        c["head_dim"] = dim
        c["hidden_size"] = r.choice([heads * dim, 20, 24])
    rotated = dim
    if kind in ("phi", "phi3"):
        share = r.choice([0.5, 1.0])
        c["partial_rotary_factor"] = share
        rotated = int(dim * share)
        if rotated % 2:
            c["partial_rotary_factor"], rotated = 1.0, dim
    put_rope(r, kind, c, rotated)
    if kind in ("llama", "qwen3", "qwen3_moe", "gemma", "gemma2",
                "gemma3_text", "phimoe"):
        c["attention_bias"] = r.random() < 0.5
    if kind == "llama":
        c["mlp_bias"] = r.random() < 0.5
    if kind == "internlm2":
        c["bias"] = r.random() < 0.5
    if kind == "phimoe":
        c["lm_head_bias"] = r.random() < 0.5
        c["router_jitter_noise"] = r.choice([0.01, 0.2])
    put_windows(r, kind, c)
    if kind in MOE:
        put_experts(r, kind, c)
    if kind in ("gemma2", "gemma3_text"):
        c["query_pre_attn_scalar"] = r.choice([dim, 5, 12])
        c["attn_logit_softcapping"] = r.choice([None, 2.0, 50.0])
        c["final_logit_softcapping"] = r.choice([None, 1.5, 30.0])
    return c


def put_windows(r, kind, c):
    if kind not in WINDOWED:
        return
    c["sliding_window"] = r.choice([3, 5])
    if kind.startswith("qwen"):
        c["use_sliding_window"] = r.random() < 0.6
        if kind != "qwen3_moe":
            c["max_window_layers"] = r.choice([0, 1, 2])
    elif kind[:5] != "gemma" and r.random() < 0.4:
        c["sliding_window"] = None
    if kind == "gemma3_text":
        c["sliding_window_pattern"] = r.choice([2, 3, 6])
    if kind in ("qwen2", "qwen3", "gemma2", "gemma3_text") and \
            r.random() < 0.4:
        c["layer_types"] = [r.choice(["sliding_attention", "full_attention"])
                            for _ in range(c["num_hidden_layers"])]


def put_experts(r, kind, c):
    n = r.choice([3, 4, 6])
    c["num_local_experts" if kind in ("mixtral", "phimoe")
      else "num_experts"] = n
    c["num_experts_per_tok"] = 2 if kind == "phimoe" else r.choice([1, 2, 3])
    if not kind.startswith("qwen"):
        return
    c["moe_intermediate_size"] = r.choice([7, 10])
    c["norm_topk_prob"] = r.random() < 0.5
    c["decoder_sparse_step"] = r.choice([1, 1, 2])
    c["mlp_only_layers"] = r.choice([[], [], [0]])
    if kind == "qwen2_moe":
        c["shared_expert_intermediate_size"] = r.choice([9, 14])
        c["qkv_bias"] = r.random() < 0.7


def shapes(c):
    """Name -> shape of every tensor."""
    kind, h, ff = c["model_type"], c["hidden_size"], c["intermediate_size"]
    heads, kv = c["num_attention_heads"], c["num_key_value_heads"]
    d = c.get("head_dim") or h // heads
    bias = c.get("attention_bias", kind in ("qwen2", "phi"))
    out = {}

    def matrix(name, rows, columns, bias=False):
        out[name + ".weight"] = [rows, columns]
        if bias:
            out[name + ".bias"] = [rows]

    def norm(name, n=h):
        out[name + ".weight"] = [n]
        if kind in ("phi", "phimoe"):
            out[name + ".bias"] = [n]

    def gated(p, names, width, b=False):
        for name in names:
            down = name in ("w2", "down_proj")
            matrix(p + name, *((h, width) if down else (width, h)), b)
    old = kind == "internlm2"
    matrix("model.tok_embeddings" if old else "model.embed_tokens",
           c["vocab_size"], h)
    norm("model.final_layernorm" if kind == "phi" else "model.norm")
    matrix("output" if old else "lm_head", c["vocab_size"], h,
           kind == "phi" or c.get("lm_head_bias", False))
    if c["tie_word_embeddings"]:
        del out["output.weight" if old else "lm_head.weight"]
    three = ("gate_proj", "up_proj", "down_proj")
    for i in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % i
        norm(p + ("attention_norm" if old else "input_layernorm"))
        if kind != "phi":
            norm(p + ("ffn_norm" if old else "post_attention_layernorm"))
        if kind in ("gemma2", "gemma3_text"):
            norm(p + "pre_feedforward_layernorm")
            norm(p + "post_feedforward_layernorm")
        if old:
            matrix(p + "attention.wqkv", (heads + 2 * kv) * d, h, c["bias"])
            matrix(p + "attention.wo", h, heads * d, c["bias"])
            gated(p + "feed_forward.", ("w1", "w2", "w3"), ff)
            continue
        if kind == "phi3":
            matrix(p + "self_attn.qkv_proj", (heads + 2 * kv) * d, h)
        else:
            b = c.get("qkv_bias", bias)
            matrix(p + "self_attn.q_proj", heads * d, h, b)
            matrix(p + "self_attn.k_proj", kv * d, h, b)
            matrix(p + "self_attn.v_proj", kv * d, h, b)
        matrix(p + ("self_attn.dense" if kind == "phi" else "self_attn.o_proj"),
               h, heads * d, bias and kind != "qwen2")
        if kind in ("qwen3", "qwen3_moe", "gemma3_text"):
            norm(p + "self_attn.q_norm", d)
            norm(p + "self_attn.k_norm", d)
        n = c.get("num_local_experts", c.get("num_experts", 0))
        sparse = i not in c.get("mlp_only_layers", []) and \
            (i + 1) % c.get("decoder_sparse_step", 1) == 0
        if kind == "phi":
            matrix(p + "mlp.fc1", ff, h, True)
            matrix(p + "mlp.fc2", h, ff, True)
        elif kind == "phi3":
            matrix(p + "mlp.gate_up_proj", 2 * ff, h)
            matrix(p + "mlp.down_proj", h, ff)
        elif kind in ("mixtral", "phimoe"):
            matrix(p + "block_sparse_moe.gate", n, h)
            for e in range(n):
                gated(p + "block_sparse_moe.experts.%d." % e,
                      ("w1", "w2", "w3"), ff)
        elif n and sparse:
            matrix(p + "mlp.gate", n, h)
            for e in range(n):
                gated(p + "mlp.experts.%d." % e, three,
                      c["moe_intermediate_size"])
            if kind == "qwen2_moe":
                matrix(p + "mlp.shared_expert_gate", 1, h)
                gated(p + "mlp.shared_expert.", three,
                      c["shared_expert_intermediate_size"])
        else:
            gated(p + "mlp.", three, ff, c.get("mlp_bias", False))
    return out


def single(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def make(directory, kind, seed):
    """Writes an instance with its golden.safetensors; returns its config."""
    r = random.Random("%s %d" % (kind, seed))
    config = make_config(r, kind)
    tensors = {}
    for name, shape in shapes(config).items():
        n = shape[0] * (shape[1] if len(shape) > 1 else 1)
        deviation = 1.5 / shape[1] ** 0.5 if len(shape) > 1 else 0.3
        centre = 1 if "norm" in name and name.endswith("weight") and \
            not kind.startswith("gemma") else 0
        if "embed" in name:
            deviation = 1
        tensors[name] = (shape, [single(r.gauss(centre, deviation))
                                 for _ in range(n)])
    pack = lambda kind, x: struct.pack("<%d%s" % (len(x), kind), *x)
    golden.write(os.path.join(directory, "model.safetensors"), {
        name: ("F32", shape, pack("f", x))
        for name, (shape, x) in tensors.items()})
    with open(os.path.join(directory, "config.json"), "w") as f:
        json.dump(config, f)
    model, arrays = reference.Model(config, tensors), {}
    for case, n in enumerate((1, 9, 2 * ORIGINAL)):
        ids = [r.randrange(config["vocab_size"]) for _ in range(n)]
        logits = [x for row in model.run(ids) for x in row]
        arrays["ids%d" % case] = ("I32", [n], pack("i", ids))
        arrays["logits%d" % case] = (
            "F32", [n, config["vocab_size"]], pack("f", logits))
        if case == 1:  # a text that grows past the original context
            for _ in range(ORIGINAL - n + 2):
                row = logits[-config["vocab_size"]:]
                ids.append(row.index(max(row)))
                logits = model.run(ids)[-1]
            arrays["greedy"] = ("I32", [len(ids)], pack("i", ids))
    golden.write(os.path.join(directory, "golden.safetensors"), arrays)
    return config
