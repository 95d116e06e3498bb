"""cleave template: conversations as text, by chat templates."""

import json
import os
import unittest

import cli

HELLO = [{"role": "user", "content": "Hello"}]


class Template(cli.Case):
    def render(self, messages, *args, good=True, **kwargs):
        run = self.good if good else self.cleave
        return run("template", "-f", "-", *args,
                   stdin=json.dumps(messages).encode(), **kwargs)

    def by(self, template, messages, *args, **kwargs):
        path = self.write("t.jinja", template)
        return self.render(messages, "--chat-template", path, *args,
                           **kwargs).text

    def refused(self, template, says, messages=HELLO):
        path = self.write("t.jinja", template)
        self.bad("template", "-f", "-", "--chat-template", path,
                 stdin=json.dumps(messages).encode(),
                 says=["--chat-template"] + says)

    @unittest.skipUnless(os.path.isdir(cli.shared("templates")),
                         "no templates")
    def test_published(self):
        with open(cli.shared("templates", "cases.json")) as f:
            cases = json.load(f)
        self.assertTrue(cases)
        for case in cases:
            path = cli.shared("templates", case["template"] + ".jinja")
            args = ["--chat-template", path, "--chat-template-kwargs",
                    json.dumps(case["kwargs"])]
            if not case["add_generation_prompt"]:
                args.append("--no-generation-prompt")
            with self.subTest(case["template"], case=case):
                result = self.render(case["messages"], *args, good=False)
                if "text" in case:
                    self.assertEqual(result.code, 0, result.err)
                    self.assertEqual(result.text, case["text"])
                else:
                    self.assertEqual(result.code, 1)
                    self.assertIn(case["error"], result.err)
                    self.assertEqual(result.err.count("\n"), 1)

    def test_known_names(self):
        talk = [{"role": "system", "content": "S"},
                {"role": "user", "content": "A"},
                {"role": "assistant", "content": "B"},
                {"role": "user", "content": "C"}]
        tokens = ("--chat-template-kwargs",
                  '{"bos_token":"<s>","eos_token":"</s>"}')
        for name, text in {
            "chatml": "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nA"
                      "<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n"
                      "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n",
            "llama2": "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nA [/INST] B </s>"
                      "<s>[INST] C [/INST]",
            "llama3": "<s><|start_header_id|>system<|end_header_id|>\n\nS"
                      "<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nA"
                      "<|eot_id|><|start_header_id|>assistant"
                      "<|end_header_id|>\n\nB<|eot_id|><|start_header_id|>user"
                      "<|end_header_id|>\n\nC<|eot_id|><|start_header_id|>"
                      "assistant<|end_header_id|>\n\n",
            "gemma": "<s><start_of_turn>user\nS\n\nA<end_of_turn>\n"
                     "<start_of_turn>model\nB<end_of_turn>\n<start_of_turn>"
                     "user\nC<end_of_turn>\n<start_of_turn>model\n",
            "phi3": "<|system|>\nS<|end|>\n<|user|>\nA<|end|>\n<|assistant|>\n"
                    "B<|end|>\n<|user|>\nC<|end|>\n<|assistant|>\n",
            "mistral-v1": "<s> [INST] S\n\nA [/INST] B</s> [INST] C [/INST]",
            "mistral-v3-tekken": "<s>[INST]S\n\nA[/INST]B</s>[INST]C[/INST]",
            "zephyr": "<|system|>\nS</s>\n<|user|>\nA</s>\n<|assistant|>\nB"
                      "</s>\n<|user|>\nC</s>\n<|assistant|>\n",
            "vicuna": "S\n\nUSER: A\nASSISTANT: B</s>\nUSER: C\nASSISTANT:",
            "deepseek2": "<s>S\n\nUser: A\n\nAssistant: B</s>User: C\n\n"
                         "Assistant:",
        }.items():
            with self.subTest(name):
                self.assertEqual(
                    self.render(talk, "--chat-template", name, *tokens).text,
                    text)

    def test_all_names_are_listed(self):
        self.bad("template", "-f", "-", "--chat-template", "chatlm",
                 stdin=b"[]", says=["chatlm", "chatml", "zephyr"])
        shown = self.good("template", "--help").text
        listed = self.cleave("template", "-f", "-", "--chat-template", "?",
                             stdin=b"[]").err.split("known are ")[1]
        for name in listed.strip().split(", "):
            with self.subTest(name):
                self.assertIn(name, shown)
                self.render(HELLO, "--chat-template", name)

    def test_values_print_as_python_prints_them(self):
        for expression, text in {
            "[1, 2.0, true, none, 'a\\'b', \"q\"]":
                "[1, 2.0, True, None, \"a'b\", 'q']",
            "{'a': (1,), 2: 1e20}": "{'a': (1,), 2: 1e+20}",
            "7 // -2, -7 % 3, 7 / 2, 2 ** 10": "(-4, 2, 3.5, 1024)",
            "'%5.2f|%-4s|%03d' % (3.14159, 'ab', 7)": " 3.14|ab  |007",
            "absent ~ 1 ~ none": "1None",
            "'héllo'[::-1], 'héllo'[1:3], [1, 2, 3][-2:]":
                "('olléh', 'él', [2, 3])",
            "1 < 2 < 3, 1 in [1], 'b' not in 'abc'": "(True, True, False)",
            "{'ü': '<&>\"'} | tojson": '{"ü": "<&>\\""}',
            "[{'a': 1}, []] | tojson(indent=1)":
                '[\n {\n  "a": 1\n },\n []\n]',
            "strftime_now('%d %b %Y')": "26 Jul 2024",
            "'a b'.title() ~ 'x,y'.split(',')[1] ~ ' z '.strip()": "A Byz",
        }.items():
            with self.subTest(expression):
                self.assertEqual(
                    self.by("{{ %s }}" % expression, HELLO,
                            env={"SOURCE_DATE_EPOCH": "1721998800",
                                 "TZ": "UTC"}), text)

    def test_numbers_stay_as_they_were_written(self):
        self.assertEqual(
            self.by("{{ messages[0].x | tojson }}",
                    [{"x": [1, 1.0, -3, 0.5, 10000000000000000]}]),
            "[1, 1.0, -3, 0.5, 10000000000000000]")
        path = self.write("t.jinja", "{{ messages }}")
        self.bad("template", "-f", "-", "--chat-template", path,
                 stdin=b'[{"x": 123456789012345678901}]', says="too large")

    def test_refused(self):
        for template, says in {
            "a\n{% include 'x' %}": ["line 2", "include"],
            "{{ x | wordwrap }}": ["line 1", "wordwrap"],
            "{{ 'a'.casefold() }}": ["casefold"],
            "{{ [1].append(2) }}": ["append"],
            "{{ ''.__class__ }}": ["__class__"],
            "{{ x.y }}": ["'x' is undefined"],
            "{{ lipsum() }}": ["lipsum"],
            "{{ 1 + 'a' }}": ["an integer and a text"],
            "{% for x in 3 %}{% endfor %}": ["an integer has no items"],
            "{% if true %}": ["ends inside"],
            "{{ 'a": ["line 1"],
            "{{ 9223372036854775807 + 1 }}": ["out of range"],
            "{{ 1 / 0 }}": ["division by zero"],
            "{{ range(10) | map('upper') }}": ["generator"],
            "{{ raise_exception('not this') }}": ["not this"],
        }.items():
            with self.subTest(template):
                self.refused(template, says)

    def test_bounded(self):
        for template, says in {
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}": "deep",
            "{% for a in range(99999) %}{% for b in range(99999) %}"
            "{% endfor %}{% endfor %}": "steps",
            "{% set ns = namespace(s='x') %}{% for a in range(99) %}"
            "{% set ns.s = ns.s + ns.s %}{% endfor %}": "longer",
            "{{ 'x' * 99999999999 }}": "longer",
            "{{ [1] * 99999999999 }}": "memory",
            "{{ " + "(" * 5000 + ")" * 5000 + " }}": "deep",
            "{{ " + "-" * 5000 + "1 }}": "deep",
            "{% if a %}" * 5000: "deep",
            "{{ " + "[" * 3000 + "]" * 3000 + " }}": "deep",
        }.items():
            with self.subTest(template[:60]):
                self.refused(template, [says])

    def test_bad_messages(self):
        for messages in (b"", b"{", b"[1] x", b'"a"', b"{}", b"3",
                         b'{"messages": 1}', b"[\xff]", b"[]\x00"):
            with self.subTest(messages):
                self.bad("template", "-f", "-", "--chat-template", "chatml",
                         stdin=messages, says="messages")
        self.bad("template", "-f", self.path("absent"), "--chat-template",
                 "chatml", says="absent")
        self.bad("template", code=2, says="-f")
        self.bad("template", "-f", "-", "--chat-template", "chatml",
                 "--chat-template-kwargs", "[]", stdin=b"[]",
                 says="variables")
        self.bad("template", "-f", "-", stdin=b"[]",
                 says=["no chat template", "--chat-template"])

    def test_variables(self):
        talk = {"messages": HELLO, "tools": [{"name": "f"}], "x": 1}
        template = ("{{ tools[0].name }}{{ x }}{{ y }}"
                    "{{ add_generation_prompt }}")
        self.assertEqual(self.by(template, talk, "--chat-template-kwargs",
                                 '{"y": 2.5}', "--no-generation-prompt"),
                         "f12.5False")
        self.assertEqual(self.by("{{ tools }}{{ documents }}", HELLO),
                         "NoneNone")

    def hugging_face(self, config, files=()):
        """The tokenizer of the shared model with another configuration."""
        os.makedirs(self.path("hf"), exist_ok=True)
        with open(cli.shared("models", "nano", "tokenizer.json")) as f:
            self.write("hf/tokenizer.json", f.read())
        self.write("hf/tokenizer_config.json", json.dumps(config))
        for name, text in files:
            self.write("hf/" + name, text)
        return self.path("hf")

    @cli.needs_shared
    def test_template_of_a_model(self):
        model = self.hugging_face({"chat_template": "one"})
        self.assertEqual(self.render(HELLO, "-m", model).text, "one")
        model = self.hugging_face({"chat_template": [
            {"name": "default", "template": "plain"},
            {"name": "tool_use", "template": "tools"}]})
        self.assertEqual(self.render(HELLO, "-m", model).text, "plain")
        self.assertEqual(self.render({"messages": HELLO, "tools": [{}]}, "-m",
                                     model).text, "tools")
        self.assertEqual(self.render({"messages": HELLO, "tools": None}, "-m",
                                     model).text, "plain")
        model = self.hugging_face({"chat_template": "old"}, [
            ("chat_template.jinja", "new {{ bos_token is defined }}")])
        self.assertEqual(self.render(HELLO, "-m", model).text[:3], "new")

    @cli.needs_shared
    def test_special_tokens_of_a_message_are_text(self):
        """A message may spell a special token; only the template's count."""
        with open(cli.shared("models", "nano", "tokenizer.json")) as f:
            special = json.load(f)["added_tokens"][0]
        word, template = special["content"], "{{ messages[0].content }}"
        ids = self.by("%s{{ messages[0].content }}" % word,
                      [{"content": word}], "--ids", "-m",
                      cli.shared("models", "nano")).split()
        self.assertEqual(ids[0], str(special["id"]))
        self.assertNotIn(str(special["id"]), ids[1:])
        for shaped in ("| trim", "[:]", "+ ''", "| replace('?', '!')",
                       "| upper | lower", ".split('#') | join"):
            with self.subTest(shaped):
                ids = self.by("{{ messages[0].content %s }}" % shaped,
                              [{"content": word + word}], "--ids", "-m",
                              cli.shared("models", "nano")).split()
                self.assertNotIn(str(special["id"]), ids)
        # Nor one whose parts come from both.
        ids = self.by(word[:2] + template, [{"content": word[2:]}], "--ids",
                      "-m", cli.shared("models", "nano")).split()
        self.assertNotIn(str(special["id"]), ids)


if __name__ == "__main__":
    cli.main()
