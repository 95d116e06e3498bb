"""cleave run -cnv: conversations, by a script and in a terminal."""

import json
import os
import re
import unittest

import cli
from terminal import Terminal

TEMPLATES = cli.shared("templates")
# libedit keeps the names of functions that are added to it.
LEAKS = "print_suppressions=0:suppressions=" + os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "libedit.supp")
FAST = ("-n", "6", "--temp", "0", "-c", "4096")


class Chat(cli.Case):
    def open(self, *args, template="chatml"):
        terminal = Terminal(
            [cli.TOOL, "run", "-cnv", "--chat-template", template, *FAST, "-v",
             *args],
            dict(self.environment({"SOURCE_DATE_EPOCH": "1721998800",
                                   "LSAN_OPTIONS": LEAKS}),
                 TERM="xterm"))
        self.addCleanup(terminal.kill)
        return terminal

    def turn(self, terminal, line):
        """Says a line; how many tokens were evaluated, and reused."""
        terminal.line(line)
        shown = terminal.until(" generated")
        terminal.until("> ")
        found = re.search(r"turn: (\d+) tokens evaluated, (\d+) of", shown)
        return int(found[1]), int(found[2])

    def script(self, lines, *args, **kwargs):
        return self.good("run", "-cnv", "--chat-template", "chatml", *FAST, "-q",
                         *args, stdin="".join(lines).encode(), **kwargs)

    @unittest.skipUnless(os.path.isdir(TEMPLATES), "no templates")
    def test_ten_turns_by_each_template(self):
        for name in sorted(os.listdir(TEMPLATES)):
            if not name.endswith(".jinja"):
                continue
            with self.subTest(name):
                terminal = self.open(template=os.path.join(TEMPLATES, name))
                terminal.until("> ")
                for i in range(10):
                    evaluated, reused = self.turn(terminal, "say %d" % i)
                    self.assertGreater(evaluated, 0)
                terminal.end_of_input()
                self.assertEqual(terminal.end()[1], 0)

    def test_a_turn_evaluates_what_is_new(self):
        terminal = self.open()
        terminal.until("> ")
        held = 0
        for i in range(4):
            evaluated, reused = self.turn(terminal, "x" + " y" * i)
            # The answer's last token was not evaluated yet.
            self.assertEqual(reused, held)
            self.assertLess(evaluated, 80)
            held += evaluated + 5
        evaluated, reused = self.turn(terminal, "/regen")
        self.assertEqual(evaluated, 1)
        terminal.line("/clear")
        terminal.until("> ")
        evaluated, reused = self.turn(terminal, "x")
        self.assertGreater(reused, 5)  # the template's own beginning
        terminal.line("/exit")
        self.assertEqual(terminal.end()[1], 0)

    def test_answers_are_those_of_the_whole_text(self):
        """With reuse as without it, greedily."""
        talk = self.path("talk.json")
        self.script(["a b\n", "c d\n", "e f\n", "/save %s\n" % talk])
        with open(talk) as f:
            messages = json.load(f)
        self.assertEqual([m["role"] for m in messages],
                         ["user", "assistant"] * 3)
        with open(talk, "w") as f:
            json.dump(messages[:-1], f)
        answer = self.script(["/load %s\n" % talk, "/regen\n"]).text
        self.assertEqual(answer, messages[-1]["content"] + "\n")

    def test_system_and_first_message(self):
        talk = self.path("talk.json")
        self.script(["/save %s\n" % talk], "-sys", "S", "-p", "P")
        with open(talk) as f:
            messages = json.load(f)
        self.assertEqual([(m["role"], m["content"]) for m in messages[:2]],
                         [("system", "S"), ("user", "P")])
        self.assertEqual(len(messages), 3)
        out = self.script(["never read\n"], "-sys", "S", "-p", "P",
                          "--single-turn").text
        self.assertEqual(out, messages[2]["content"] + "\n")

    def test_lines(self):
        talk = self.path("talk.json")
        self.script(["one\\\n", "two\n", " /exit\n", "\n", "ü\n",
                     "/save %s\n" % talk])
        with open(talk) as f:
            said = [m["content"] for m in json.load(f) if m["role"] == "user"]
        self.assertEqual(said, ["one\ntwo", " /exit", "ü"])

    def test_paste_history_and_editing(self):
        talk = self.path("talk.json")
        terminal = self.open()
        terminal.until("> ")
        self.turn(terminal, "\x1b[200~first\rsecond\x1b[201~ third")
        self.turn(terminal, "abd\x7fc")
        self.turn(terminal, "\x1b[A!")  # the line before
        terminal.line("/save " + talk)
        terminal.until("> ")
        terminal.end_of_input()
        self.assertEqual(terminal.end()[1], 0)
        with open(talk) as f:
            said = [m["content"] for m in json.load(f) if m["role"] == "user"]
        self.assertEqual(said, ["first\nsecond third", "abc", "abc!"])

    def test_interrupt_ends_the_answer_only(self):
        terminal = self.open("-n", "-1", "--ignore-eos")
        terminal.until("> ")
        terminal.line("go")
        terminal.until("\x1b[?2004l")
        terminal.until("|")
        terminal.interrupt()
        terminal.until(" generated")
        terminal.until("> ")
        terminal.line("again")
        terminal.until("|")
        terminal.interrupt()
        terminal.until("> ")
        terminal.wait_for_keys()
        terminal.write("half a line\x03")
        terminal.until("> ")
        terminal.line("/help")
        terminal.until("/regen")
        terminal.until("> ")
        terminal.end_of_input()
        self.assertEqual(terminal.end()[1], 0)

    def test_wrong_commands_do_not_end_a_terminal(self):
        terminal = self.open()
        for line, says in (("/nothing", "/help"), ("/save", "name a file"),
                           ("/load /absent", "/absent"), ("/regen", "write"),
                           ("/exit now", "nothing behind")):
            terminal.until("> ")
            terminal.line(line)
            terminal.until(says)
        terminal.until("> ")
        terminal.end_of_input()
        self.assertEqual(terminal.end()[1], 0)

    def test_wrong_commands_end_a_script(self):
        self.bad("run", "-cnv", "--chat-template", "chatml", *FAST, "-q",
                 stdin=b"/nothing\n", says="/nothing")

    def test_full_context(self):
        self.bad("run", "-cnv", "--chat-template", "chatml", "-n", "4", "-c",
                 "64", "-q", "--temp", "0", stdin=b"x " * 100 + b"\n",
                 says=["64 positions", "-c"])

    def test_without_template(self):
        self.bad("run", "-cnv", "-q", stdin=b"x\n",
                 says=["no chat template", "--chat-template"])
        out = self.good("run", "-i", "-p", "def f(", *FAST, "-q",
                        stdin=b"x\n").text
        plain = self.good("run", "-p", "def f(", *FAST, "-q").text
        self.assertTrue(out.startswith(plain), (out, plain))
        self.assertGreater(len(out), len(plain) + 1)

    def test_reverse_prompt(self):
        plain = self.good("run", "-p", "def f(", *FAST, "-q").text
        stop = plain[2:4]
        out = self.good("run", "-p", "def f(", *FAST, "-q", "-r", stop,
                        stdin=b"").text
        self.assertIn(stop, out)
        self.assertLess(len(out.rstrip("\n")), len(plain))

    def test_template_that_refuses(self):
        path = self.write("t.jinja", "{{ raise_exception('not now') }}")
        self.bad("run", "-cnv", "--chat-template", path, *FAST, "-q",
                 stdin=b"x\n", says=["not now", "--chat-template"])

    def test_options(self):
        self.bad("run", code=2, says=["-p", "-cnv"])
        self.bad("run", "-no-cnv", "--chat-template", "chatml", code=2,
                 says="-p")
        self.bad("run", "-cnv", "--chat-template", "chatml", "--context-shift",
                 "-q", stdin=b"", says="--context-shift")


if __name__ == "__main__":
    cli.main()
