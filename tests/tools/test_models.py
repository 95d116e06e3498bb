"""Every architecture against reference.py: random instances from Hugging Face
directories, from GGUF files made of them, and the reference models.

    CLEAVE_TEST_LONG=50 meson test -C build cli-models -t 20

takes 50 instances of each in place of two."""

import json
import os
import shutil
import unittest

import cli
import golden
import instances

COUNT = int(cli.LONG) if (cli.LONG or "").isdigit() else 2
# Always: a long rope, a bias of the output matrix whose weights are tied.
MORE = [("phi3", 4), ("phi", 2)]


class Instances(cli.Case):
    def verify(self, directory, model, *options):
        result = self.cleave("verify", directory, "-m", model, "--tolerance",
                               "2e-5", *options)
        self.assertEqual(result.code, 0, result.text + result.err)

    def check(self, kind, seed):
        directory = self.path("%s-%d" % (kind, seed))
        os.mkdir(directory)
        config = instances.make(directory, kind, seed)
        self.verify(directory, directory)
        rope = config.get("rope_scaling") or config.get("rope_parameters")
        if "longrope" not in str(rope):  # whose logits depend on what follows
            self.verify(directory, directory, "-b", 4)
        gguf = self.path("m.gguf")
        result = self.cleave("convert", directory, "-o", gguf)
        mixed = config.get("mlp_only_layers") or \
            config.get("decoder_sparse_step", 1) > 1
        if mixed:
            self.assertEqual(result.code, 1)
            self.assertIn("layers without experts", result.err)
        else:
            self.assertEqual(result.code, 0, result.err)
            self.verify(directory, gguf)
        shutil.rmtree(directory)

    def test_instances(self):
        all = {(kind, seed) for kind in instances.CLASSES
               for seed in range(COUNT)}
        for kind, seed in sorted(all.union(MORE)):
            with self.subTest(kind=kind, seed=seed):
                self.check(kind, seed)


def as_internlm2(name):
    """The name of a Llama's tensor in an InternLM2."""
    for old, new in (("embed_tokens", "tok_embeddings"), ("lm_head", "output"),
                     ("input_layernorm", "attention_norm"),
                     ("post_attention_layernorm", "ffn_norm"),
                     ("self_attn.o_proj", "attention.wo"),
                     ("mlp.gate_proj", "feed_forward.w1"),
                     ("mlp.down_proj", "feed_forward.w2"),
                     ("mlp.up_proj", "feed_forward.w3")):
        name = name.replace(old, new)
    return name


def grouped(config, q, k, v):
    """Rows of q, k and v as InternLM2 has them, by groups of heads."""
    head = config["head_dim"] * config["hidden_size"] * 4
    per = config["num_attention_heads"] // config["num_key_value_heads"]
    return b"".join(q[g * per * head:(g + 1) * per * head] +
                    k[g * head:(g + 1) * head] + v[g * head:(g + 1) * head]
                    for g in range(config["num_key_value_heads"]))


@cli.needs_shared
class Goldens(cli.Case):
    def verify(self, directory, *options):
        self.good("verify", directory, *options)

    def test_from_gguf(self):
        for name in sorted(os.listdir(cli.shared("goldens"))):
            with self.subTest(name):
                gguf = self.path("m.gguf")
                self.good("convert", cli.shared("goldens", name), "-o", gguf)
                self.verify(cli.shared("goldens", name), "-m", gguf)

    def test_internlm2_is_a_llama_in_another_layout(self):
        source, target = cli.shared("goldens", "llama"), self.path("internlm2")
        os.mkdir(target)
        with open(os.path.join(source, "config.json")) as f:
            config = json.load(f)
        old = golden.read(os.path.join(source, "model.safetensors"))
        new = {as_internlm2(name): array for name, array in old.items()
               if name.split(".")[-2] not in ("q_proj", "k_proj", "v_proj")}
        for i in range(config["num_hidden_layers"]):
            p = "model.layers.%d." % i
            rows = [old[p + "self_attn.%s_proj.weight" % w] for w in "qkv"]
            new[p + "attention.wqkv.weight"] = (
                "F32", [sum(r[1][0] for r in rows), config["hidden_size"]],
                grouped(config, *(r[2] for r in rows)))
        config["architectures"] = ["InternLM2ForCausalLM"]
        config["bias"] = False
        with open(os.path.join(target, "config.json"), "w") as f:
            json.dump(config, f)
        golden.write(os.path.join(target, "model.safetensors"), new)
        shutil.copy(os.path.join(source, "golden.safetensors"), target)
        self.verify(target)
        self.good("convert", target, "-o", self.path("m.gguf"))
        self.verify(target, "-m", self.path("m.gguf"))

    def test_on_the_simulated_phone(self):
        for name in ("mixtral", "gemma2"):
            self.verify(cli.shared("goldens", name), "--conf", os.path.join(
                cli.SOURCE, "conf", "soc", "snapdragon-8gen3.ini"),
                "--devices", "npu_sim", "--tolerance", "0.005")


class Refused(cli.Case):
    def changed(self, kind, change):
        """An instance with other keys or tensors."""
        directory = self.path(kind)
        shutil.rmtree(directory, ignore_errors=True)
        os.mkdir(directory)
        config = instances.make(directory, kind, 0)
        path = os.path.join(directory, "model.safetensors")
        arrays = golden.read(path)
        change(config, arrays)
        golden.write(path, arrays)
        with open(os.path.join(directory, "config.json"), "w") as f:
            json.dump(config, f)
        return directory

    def refused(self, kind, change, *says):
        result = self.cleave("verify", self.changed(kind, change), "-q")
        self.assertEqual(result.code, 1)
        for word in says:
            self.assertIn(word, result.err)

    def test_tensors(self):
        q = "model.layers.0.self_attn.q_proj.bias"
        self.refused("qwen2", lambda c, t: t.pop(q), q)
        self.refused("qwen2", lambda c, t: c.update(num_hidden_layers=1),
                     "model.layers.1.", "no part of a model")
        self.refused("gemma", lambda c, t: t.update({"x.weight": t.pop(
            "model.norm.weight")}), "model.norm.weight")

    def test_settings(self):
        def rope(**keys):
            def change(c, t):
                c.pop("rope_parameters", None)
                c["rope_scaling"] = keys
            return change
        self.refused("llama", rope(type="ntk", factor=2.0), "'ntk'",
                     "supported: default")
        self.refused("phi3", rope(type="longrope", short_factor=[1.0],
                                  long_factor=[1.0]), "short_factor")
        self.refused("qwen3", lambda c, t: c.update(hidden_act="relu"),
                     "hidden_act 'relu'")
        self.refused("gemma2", lambda c, t: c.update(layer_types=["x"] * c[
            "num_hidden_layers"]), "layer 0 is of type 'x'")
        self.refused("phi", lambda c, t: c.update(qk_layernorm=True),
                     "qk_layernorm")
        self.refused("gemma3_text", lambda c, t: c.update(
            use_bidirectional_attention=True), "use_bidirectional_attention")
        self.refused("phimoe", lambda c, t: c.update(num_experts_per_tok=1),
                     "SparseMixer")

    def test_long_contexts(self):
        def dynamic(c, t):
            c.pop("rope_parameters", None)
            c["rope_scaling"] = {"type": "dynamic", "factor": 2.0}
            c["max_position_embeddings"] = 16
        self.refused("llama", dynamic, "context of 24 tokens", "up to 16")


if __name__ == "__main__":
    cli.main()
