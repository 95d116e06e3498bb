"""Chat templates: what cleave makes of them, and what Jinja2 makes of them.

Random templates and conversations, and with FILE... those templates too: the
texts are equal, or cleave refuses. Needs the Python package jinja2; settings
are those of the transformers library.

chat_differential.py [--runs N] [--seed N] [--verbose] CHAT_RENDER [FILE...]"""

import argparse
import datetime
import functools
import json
import os
import random
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("no jinja2")
    sys.exit(77)

import chat_random

NOW = 1721998800  # 26 July 2024


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what the model said."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("say"), [], [],
                                      body).set_lineno(line)

    def say(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.fromtimestamp(
        NOW, datetime.timezone.utc).strftime(f)
    return env


ENV = environment()


@functools.lru_cache(maxsize=4)
def compiled(template):
    return ENV.from_string(template)


def expected(template, conversation):
    """The text, or the error."""
    variables = {"tools": None, "documents": None,
                 "add_generation_prompt": True, **conversation}
    try:
        return compiled(template).render(**variables), None
    except Exception as e:
        return None, e


class Renderer:
    """The program chat_render."""

    def __init__(self, program):
        self.process = subprocess.Popen(
            [program, str(NOW)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "TZ": "UTC"})

    def render(self, template, conversation):
        """Text, or None; and the error."""
        data = json.dumps(conversation).encode()
        self.process.stdin.write(b"%d %s\n%s\n" % (
            len(data), json.dumps(template).encode(), data))
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer.get("text"), answer.get("error")


class Count:
    def __init__(self, renderer):
        self.renderer = renderer
        self.equal = self.both = self.refused = self.wrong = 0
        self.reasons = {}

    def compare(self, name, template, conversation):
        want, error = expected(template, conversation)
        text, refusal = self.renderer.render(template, conversation)
        if text is not None and text == want:
            self.equal += 1
        elif text is not None:
            self.report(name, template, conversation,
                        "%r instead of %r" % (text, want or error))
        elif "--chat-template" not in refusal:
            self.report(name, template, conversation, refusal)
        elif error is not None:
            self.both += 1
        else:
            self.refused += 1
            reason = refusal.split(": ", 1)[-1]
            self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def report(self, name, template, conversation, what):
        self.wrong += 1
        if self.wrong <= 10:
            print("%s: %s\n  template %r\n  conversation %s" %
                  (name, what, template[:2000], json.dumps(conversation)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("renderer", help="the program chat_render")
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    count = Count(Renderer(args.renderer))
    rng = random.Random(args.seed)
    for i in range(args.runs):
        count.compare("random %d" % i, chat_random.template(rng),
                      chat_random.conversation(rng))
    for name in args.files:
        with open(name, encoding="utf-8", newline="") as f:
            template = f.read()
        for conversation in chat_random.CONVERSATIONS:
            count.compare(name, template, conversation)
        for _ in range(10):
            count.compare(name, template, chat_random.conversation(rng))
    print("%d equal, %d errors of both, %d refused, %d wrong" %
          (count.equal, count.both, count.refused, count.wrong))
    if args.verbose:
        for reason, n in sorted(count.reasons.items(), key=lambda r: -r[1]):
            print("%6d  %s" % (n, reason))
    sys.exit(count.wrong != 0)


if __name__ == "__main__":
    main()
