"""Language models computed by the definitions of the papers, in plain Python
and double precision: what the C code is compared with. It shares nothing with
it but config.json and the names of tensors in Hugging Face files.

    logits = reference.Model(config, tensors).run(ids)

tensors: name -> (shape, list of numbers). Slow: for models of a few thousand
weights and a few dozen tokens."""

import math


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def softmax(x):
    top = max(x)
    e = [math.exp(v - top) for v in x]
    total = sum(e)
    return [v / total for v in e]


def silu(x):
    return x / (1 + math.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) *
                                    (x + 0.044715 * x ** 3)))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def sparse_mixer(scores, jitter):
    """{expert: factor} of the two that are chosen."""
    chosen = {}
    rest = dict(enumerate(scores))
    for _ in range(2):
        best = max(rest, key=lambda e: (rest[e], -e))
        top = rest[best]
        near = [s for e, s in rest.items()
                if not (top - s) / max(abs(s), top) > 2 * jitter]
        chosen[best] = 1 / sum(math.exp(s - top) for s in near)
        del rest[best]
    return chosen


# ---------------------------------------------------------------------------
# Rotary frequencies


def yarn(freqs, rope, base, dim):
    original = rope["original_max_position_embeddings"]

    def channel(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (
            2 * math.log(base))
    low = max(math.floor(channel(rope.get("beta_fast") or 32)), 0)
    high = min(math.ceil(channel(rope.get("beta_slow") or 1)), dim - 1)
    if low == high:
        high += 0.001
    out = []
    for j, f in enumerate(freqs):
        ramp = min(max((j - low) / (high - low), 0), 1)
        out.append(f / rope["factor"] * ramp + f * (1 - ramp))
    return out


def llama3(f, rope):
    old = rope["original_max_position_embeddings"]
    low, high = rope["low_freq_factor"], rope["high_freq_factor"]
    wave = 2 * math.pi / f
    if wave < old / high:
        return f
    if wave > old / low:
        return f / rope["factor"]
    smooth = (old / wave - low) / (high - low)
    return (1 - smooth) * f / rope["factor"] + smooth * f


def frequencies(config, rope, head_dim, n):
    """Frequencies, and the factor of sine and cosine, for n tokens."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if config["model_type"] == "phi3" and kind in ("su", "yarn"):
        kind = "longrope"
    base = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    share = rope.get("partial_rotary_factor",
                     config.get("partial_rotary_factor", 1.0))
    dim = int(head_dim * share)
    freqs = [base ** (-2 * j / dim) for j in range(dim // 2)]
    if kind == "linear":
        return [f / rope["factor"] for f in freqs], 1
    if kind == "llama3":
        return [llama3(f, rope) for f in freqs], 1
    if kind == "yarn":
        factor = rope.get("attention_factor")
        return (yarn(freqs, rope, base, dim),
                factor or 0.1 * math.log(rope["factor"]) + 1)
    if kind == "longrope":
        old = config.get("original_max_position_embeddings",
                         rope.get("original_max_position_embeddings"))
        factor = rope.get("factor") or config["max_position_embeddings"] / old
        attention = rope.get("attention_factor") or (
            math.sqrt(1 + math.log(factor) / math.log(old))
            if factor > 1 else 1)
        divisors = rope["long_factor" if n > old else "short_factor"]
        return ([f / d for f, d in zip(freqs, divisors)],
                rope.get("short_mscale", attention))
    assert kind in ("default", "dynamic"), kind
    return freqs, 1


def rotate(head, freqs, factor, position):
    half = len(freqs)
    out = list(head)
    for j, f in enumerate(freqs):
        s, c = math.sin(position * f) * factor, math.cos(position * f) * factor
        a, b = head[j], head[j + half]
        out[j], out[j + half] = a * c - b * s, a * s + b * c
    return out


# ---------------------------------------------------------------------------
# Models


class Model:
    def __init__(self, config, tensors):
        self.c, self.t = config, tensors
        self.kind = config["model_type"]
        self.gemma = self.kind.startswith("gemma")
        self.layer_norm = self.kind in ("phi", "phimoe")
        self.eps = config.get("layer_norm_eps" if self.kind == "phi"
                              else "rms_norm_eps", 1e-5)
        self.heads = config["num_attention_heads"]
        self.kv = config.get("num_key_value_heads") or self.heads
        self.dim = (config.get("head_dim") or
                    config["hidden_size"] // self.heads)
        self.act = gelu if self.gemma or self.kind == "phi" else silu

    # --- weights

    def vector(self, name):
        return self.t[name][1]

    def linear(self, name, x, weight=None):
        shape, w = self.t[(weight or name) + ".weight"]
        n = shape[-1]
        bias = self.t.get(name + ".bias", (0, [0] * shape[0]))[1]
        return [dot(x, w[o * n:(o + 1) * n]) + bias[o]
                for o in range(shape[0])]

    def norm(self, name, x):
        w = self.vector(name + ".weight")
        if self.gemma:
            w = [v + 1 for v in w]
        mean = sum(x) / len(x) if self.layer_norm else 0
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) +
                              self.eps)
        y = [(v - mean) * scale * a for v, a in zip(x, w)]
        return add(y, self.vector(name + ".bias")) if self.layer_norm else y

    # --- attention

    def window(self, i):
        c = self.c
        size = c.get("sliding_window")
        if self.kind.startswith("qwen") and not c.get("use_sliding_window"):
            return None
        if "layer_types" in c:
            return size if c["layer_types"][i] == "sliding_attention" else None
        if self.kind in ("qwen2", "qwen3"):
            return size if i >= c["max_window_layers"] else None
        if self.kind == "qwen2_moe":
            odd = i % 2 == 0 and i < c["max_window_layers"]
            return size if odd else None
        if self.kind == "gemma2":
            return size if (i + 1) % 2 else None
        if self.kind == "gemma3_text":
            return size if (i + 1) % c.get("sliding_window_pattern", 6) else None
        if self.kind in ("mistral", "mixtral", "phi3", "phimoe", "qwen3_moe"):
            return size
        return None

    def rope(self, i, n):
        c = self.c
        rope = c.get("rope_scaling") or c.get("rope_parameters") or {}
        if self.kind == "gemma3_text":
            full = rope.get("full_attention", rope)
            local = rope.get("sliding_attention", {
                "rope_theta": c.get("rope_local_base_freq", 10000.0)})
            rope = local if self.window(i) else dict(
                {"rope_theta": c.get("rope_theta", 1e6)}, **full)
        return frequencies(c, rope, self.dim, n)

    def qkv(self, p, x):
        """Heads of q, k and v of one token."""
        d, groups = self.dim, self.heads // self.kv
        split = lambda y: [y[j:j + d] for j in range(0, len(y), d)]
        if self.kind == "internlm2":
            all = split(self.linear(p + "attention.wqkv", x))
            q, k, v = [], [], []
            for g in range(0, len(all), groups + 2):
                q += all[g:g + groups]
                k.append(all[g + groups])
                v.append(all[g + groups + 1])
            return q, k, v
        if self.kind == "phi3":
            all = split(self.linear(p + "self_attn.qkv_proj", x))
            return (all[:self.heads], all[self.heads:self.heads + self.kv],
                    all[self.heads + self.kv:])
        q, k, v = (split(self.linear(p + "self_attn.%s_proj" % w, x))
                   for w in "qkv")
        if p + "self_attn.q_norm.weight" in self.t:
            q = [self.norm(p + "self_attn.q_norm", h) for h in q]
            k = [self.norm(p + "self_attn.k_norm", h) for h in k]
        return q, k, v

    def attention(self, i, rows):
        c, p = self.c, "model.layers.%d." % i
        freqs, factor = self.rope(i, len(rows))
        scale = c.get("query_pre_attn_scalar", self.dim) ** -0.5
        cap, window = c.get("attn_logit_softcapping"), self.window(i)
        turn = lambda heads, at: [rotate(h, freqs, factor, at) for h in heads]
        q, k, v = zip(*(self.qkv(p, x) for x in rows))
        q = [turn(h, at) for at, h in enumerate(q)]
        k = [turn(h, at) for at, h in enumerate(k)]
        out = []
        for at in range(len(rows)):
            first = max(0, at + 1 - window) if window else 0
            y = []
            for h in range(self.heads):
                g = h // (self.heads // self.kv)
                s = [dot(q[at][h], k[j][g]) * scale
                     for j in range(first, at + 1)]
                if cap:
                    s = [cap * math.tanh(a / cap) for a in s]
                share = softmax(s)
                y += [sum(a * v[first + j][g][d] for j, a in enumerate(share))
                      for d in range(self.dim)]
            out.append(self.linear(p + {
                "internlm2": "attention.wo", "phi": "self_attn.dense"}.get(
                    self.kind, "self_attn.o_proj"), y))
        return out

    # --- feed-forward

    def gated(self, gate, up, down, x):
        y = [self.act(a) * b for a, b in zip(self.linear(gate, x),
                                             self.linear(up, x))]
        return self.linear(down, y)

    def experts(self, p, x):
        c = self.c
        block = "block_sparse_moe." if self.kind in ("mixtral", "phimoe") \
            else "mlp."
        names = ("w1", "w3", "w2") if block[0] == "b" else (
            "gate_proj", "up_proj", "down_proj")
        scores = self.linear(p + block + "gate", x)
        if self.kind == "phimoe":
            chosen = sparse_mixer(scores, c.get("router_jitter_noise", 0.01))
        else:
            scores = softmax(scores)
            best = sorted(range(len(scores)), key=lambda e: (-scores[e], e))
            chosen = {e: scores[e] for e in best[:c["num_experts_per_tok"]]}
            if self.kind == "mixtral" or c.get("norm_topk_prob"):
                total = sum(chosen.values())
                chosen = {e: s / total for e, s in chosen.items()}
        y = [0] * len(x)
        for e, share in chosen.items():
            names_of = [p + block + "experts.%d.%s" % (e, n) for n in names]
            y = add(y, [share * v for v in self.gated(*names_of, x)])
        if self.kind == "qwen2_moe":
            gate = sigmoid(self.linear(p + "mlp.shared_expert_gate", x)[0])
            shared = self.gated(*(p + "mlp.shared_expert." + n for n in names),
                                x)
            y = add(y, [gate * v for v in shared])
        return y

    def feed_forward(self, i, x):
        p = "model.layers.%d." % i
        if self.kind == "internlm2":
            return self.gated(*(p + "feed_forward." + n
                                for n in ("w1", "w3", "w2")), x)
        if self.kind == "phi":
            y = [gelu(a) for a in self.linear(p + "mlp.fc1", x)]
            return self.linear(p + "mlp.fc2", y)
        if self.kind == "phi3":
            y = self.linear(p + "mlp.gate_up_proj", x)
            half = len(y) // 2
            y = [silu(a) * b for a, b in zip(y[:half], y[half:])]
            return self.linear(p + "mlp.down_proj", y)
        if self.kind in ("mixtral", "phimoe") or (
                self.kind in ("qwen2_moe", "qwen3_moe") and
                i not in self.c.get("mlp_only_layers", []) and
                (i + 1) % self.c.get("decoder_sparse_step", 1) == 0):
            return self.experts(p, x)
        return self.gated(*(p + "mlp." + n for n in
                            ("gate_proj", "up_proj", "down_proj")), x)

    # --- all

    def layer(self, i, rows):
        p = "model.layers.%d." % i
        old = self.kind == "internlm2"
        first = p + ("attention_norm" if old else "input_layernorm")
        normed = [self.norm(first, x) for x in rows]
        mixed = self.attention(i, normed)
        if self.kind == "phi":
            return [add(x, add(y, self.feed_forward(i, z)))
                    for x, y, z in zip(rows, mixed, normed)]
        second = p + ("ffn_norm" if old else "post_attention_layernorm")
        both = self.kind in ("gemma2", "gemma3_text")
        if both:
            mixed = [self.norm(second, y) for y in mixed]
            second = p + "pre_feedforward_layernorm"
        rows = [add(x, y) for x, y in zip(rows, mixed)]
        parts = [self.feed_forward(i, self.norm(second, x)) for x in rows]
        if both:
            parts = [self.norm(p + "post_feedforward_layernorm", y)
                     for y in parts]
        return [add(x, y) for x, y in zip(rows, parts)]

    def run(self, ids):
        """The logits of every token."""
        c, old = self.c, self.kind == "internlm2"
        table = "model.tok_embeddings" if old else "model.embed_tokens"
        shape, w = self.t[table + ".weight"]
        n = shape[1]
        scale = math.sqrt(n) if self.gemma else 1
        rows = [[v * scale for v in w[t * n:(t + 1) * n]] for t in ids]
        for i in range(c["num_hidden_layers"]):
            rows = self.layer(i, rows)
        last = "model.final_layernorm" if self.kind == "phi" else "model.norm"
        output = weight = "output" if old else "lm_head"
        if c.get("tie_word_embeddings", self.gemma):
            weight = table
        cap = c.get("final_logit_softcapping")
        out = []
        for x in rows:
            y = self.linear(output, self.norm(last, x), weight)
            out.append([cap * math.tanh(v / cap) for v in y] if cap else y)
        return out
