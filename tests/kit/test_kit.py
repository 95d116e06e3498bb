"""cleave-plugin-check: what it reports, on plugins that are good and bad."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml

CHECK, CPU, HOSTILE, NEEDS = sys.argv[1:5]
FEW = ("--filter", "*/abi.fills.*", "--filter", "*/abi.query.*")


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.text = done.stdout.decode()
        self.errors = done.stderr.decode(errors="replace")

    def json(self):
        return json.loads(self.text)

    def cases(self):
        return {c["name"]: c for c in self.json()["cases"]}


def options(name):
    """A crash ends a sanitized process by its signal, as any other."""
    return ":".join(filter(None, [os.environ.get(name), "handle_segv=0"]))


PLAIN_CRASHES = {name: options(name) for name in
                 ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")}


class Kit(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)
        self.temporary = os.path.join(self.dir.name, "tmp")
        os.mkdir(self.temporary)

    def run_kit(self, *args, code=None, **env):
        done = subprocess.run([CHECK, *map(str, args)], capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=250,
                              env=dict(os.environ, TMPDIR=self.temporary,
                                       **PLAIN_CRASHES, **env))
        result = Result(done)
        self.assertEqual(os.listdir(self.temporary), [])
        if code is not None:
            self.assertEqual(result.code, code, result.text + result.errors)
        return result

    def hostile(self, mode, *args, code=None, **env):
        return self.run_kit(HOSTILE, "--set", "hostile.mode=" + mode, *args,
                            code=code, **env)

    def write(self, name, text):
        path = os.path.join(self.dir.name, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def usage(self, *args, says):
        result = self.run_kit(*args, code=2)
        self.assertEqual(result.text, "")
        self.assertEqual(len(result.errors.splitlines()), 1, result.errors)
        self.assertRegex(result.errors, says)


class Good(Kit):
    def test_text(self):
        text = self.run_kit(CPU, *FEW, code=0).text
        self.assertRegex(text, r"conforms, as far as \d+ cases can tell\n$")
        self.assertRegex(text, r"(?m)^plugin +abi +1\d +0 ")
        self.assertRegex(text, r"(?m)^cpu +abi +\d+ +0 ")
        self.assertNotIn("passed  ", text.split("device")[0])

    def test_verbose_has_a_line_a_case(self):
        text = self.run_kit(CPU, *FEW, "-v", code=0).text
        for name in ("plugin/kit.query", "plugin/abi.query.pure",
                     "plugin/abi.end", "cpu/abi.fills.op_caps.stride",
                     "cpu/abi.end"):
            self.assertRegex(text, r"(?m)^passed +" + re.escape(name) + r"  \(")

    def test_quiet(self):
        text = self.run_kit(CPU, *FEW, "-q", code=0).text
        self.assertEqual(len(text.splitlines()), 1)

    def test_filter_selects(self):
        cases = self.run_kit(CPU, "--filter", "*/abi.query.pure", "-o", "json",
                             code=0).cases()
        self.assertEqual(sorted(cases), ["plugin/abi.end",
                                         "plugin/abi.query.pure",
                                         "plugin/kit.query"])

    def test_list_needs_no_plugin(self):
        lines = self.run_kit("--list", code=0).text.splitlines()
        self.assertIn("plugin/abi.query.pure", lines)
        self.assertIn("DEVICE/abi.fills.op_caps.stride", lines)
        self.assertEqual(len(set(lines)), len(lines))
        groups = {line.split("/")[1].split(".")[0] for line in lines}
        for group in groups:
            some = self.run_kit("--list", "--group", group, code=0).text
            self.assertEqual({line.split("/")[1].split(".")[0]
                              for line in some.splitlines()}, {group})

    def test_absent_device_is_skipped(self):
        cases = self.run_kit(CPU, "--device", "cpu:9", *FEW, "-o", "json",
                             code=0).cases()
        self.assertEqual(cases["plugin/kit.device.cpu:9"]["outcome"],
                         "skipped")
        self.assertFalse([n for n in cases if n.startswith("cpu/")])

    def test_settings_reach_the_plugin(self):
        for threads in ("1", "2"):
            self.run_kit(CPU, "--set", "cpu.threads=" + threads, *FEW, code=0)

    def test_seed_decides_the_values(self):
        def note(*args):
            cases = self.run_kit(CPU, "--filter", "*/ops.matmul.*",
                                 *args, "-o", "json", code=0).cases()
            return {n: c["text"] for n, c in cases.items()}
        self.assertEqual(note("--seed", 5), note("--seed", 5))


class Formats(Kit):
    ARGS = ("--filter", "*/abi.fills.op_caps.*", "--filter",
            "*/abi.fills.enumerate.*", "--filter", "*/abi.manifest.processor")

    def outcomes(self):
        return self.hostile("crash:op_caps", *self.ARGS, "-o", "json",
                            code=1).cases()

    def test_json_counts(self):
        report = self.hostile("crash:op_caps", *self.ARGS, "-o", "json",
                              code=1).json()
        self.assertFalse(report["conforms"])
        self.assertEqual(report["plugin"], "hostile")
        outcomes = [c["outcome"] for c in report["cases"]]
        for outcome in ("passed", "crashed", "skipped"):
            self.assertGreater(report[outcome], 0)
            self.assertEqual(report[outcome], outcomes.count(outcome))

    def test_tap(self):
        text = self.hostile("crash:op_caps", *self.ARGS, "-o", "tap",
                            "--xfail", "hostile:0/abi.fills.op_caps.*",
                            code=1).text
        lines = text.splitlines()
        self.assertEqual(lines[0], "TAP version 13")
        points = [re.fullmatch(r"(not ok|ok) (\d+) - ([^#]*?)( # .*)?", line)
                  for line in lines if re.match(r"(not )?ok", line)]
        self.assertNotIn(None, points)
        self.assertEqual(lines[-1], "1..%d" % len(points))
        self.assertEqual([int(p[2]) for p in points],
                         list(range(1, len(points) + 1)))
        found = {p[3]: (p[1], p[4] or "") for p in points}
        want = self.outcomes()
        self.assertEqual(set(found), set(want))
        for name, case in want.items():
            ok, directive = found[name]
            failed = case["outcome"] == "crashed"
            self.assertEqual(ok, "not ok" if failed else "ok", name)
            if case["outcome"] == "skipped":
                self.assertIn("# SKIP", directive)
            self.assertEqual("# TODO" in directive,
                             failed and name.startswith("hostile:0"), name)

    def test_junit(self):
        text = self.hostile("crash:op_caps", *self.ARGS, "-o", "junit",
                            code=1).text
        root = xml.fromstring(text.encode())
        self.assertEqual(root.tag, "testsuites")
        found = {}
        for suite in root:
            cases = suite.findall("testcase")
            self.assertEqual(int(suite.get("tests")), len(cases))
            for kind, count in (("failure", "failures"), ("error", "errors"),
                                ("skipped", "skipped")):
                n = sum(c.find(kind) is not None for c in cases)
                self.assertEqual(int(suite.get(count)), n)
            for c in cases:
                self.assertEqual(c.get("classname"), suite.get("name"))
                device = c.get("classname").rsplit(".", 1)[0]
                found[device + "/" + c.get("name")] = c
        want = self.outcomes()
        self.assertEqual(set(found), set(want))
        for name, case in want.items():
            error = found[name].find("error")
            self.assertEqual(error is not None, case["outcome"] == "crashed")
            if error is not None:
                self.assertEqual(error.get("type"), "crashed")
                self.assertIn("SIGSEGV", error.get("message"))

    def test_what_a_plugin_prints_spoils_no_report(self):
        args = ("print:enumerate", "--filter", "*/abi.fills.enumerate.*")
        cases = self.hostile(*args, "-o", "json", code=1).cases()
        self.assertGreater(cases["plugin/kit.query"]["printed"], 0)
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "failed")
        self.assertIn("the plugin printed",
                      cases["hostile:0/abi.fills.enumerate.stride"]["text"])
        xml.fromstring(self.hostile(*args, "-o", "junit").text.encode())
        for line in self.hostile(*args, "-o", "tap").text.splitlines():
            self.assertRegex(line, r"^(TAP version|ok |not ok |# |1\.\.)")
        self.assertIn("hostile", self.hostile(*args).errors)

    def test_what_is_printed_once_is_a_note(self):
        for slot, case in (("op_caps", "hostile:0/abi.fills.op_caps.stride"),
                           ("enumerate", "plugin/kit.query"),
                           ("quiesce", "plugin/kit.query")):
            cache = os.path.join(self.dir.name, slot)
            os.mkdir(cache)
            result = self.hostile("warn:" + slot, "--filter",
                                  "*/abi.fills.op_caps.*", "-o", "json",
                                  code=0, XDG_CACHE_HOME=cache)
            self.assertIn("1 warning generated.", result.errors)
            names = [c["name"] for c in result.json()["cases"]]
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(len(result.json()["devices"]), 2)
            noted = {n: c for n, c in result.cases().items()
                     if "the first run printed 21 bytes" in c["text"]}
            self.assertEqual(list(noted), [case])
            self.assertEqual(noted[case]["printed"], 0)

    def test_devices_are_listed_once_whatever_is_printed(self):
        rows = [self.hostile(mode, "--support", "-o", "json", code=0).json()
                for mode in ("none", "print:op_caps")]
        self.assertEqual(*rows)

    def test_markup_in_texts_is_escaped(self):
        known = self.write("known", "xfail hostile:?/abi.fills.op_caps.* "
                           "a < b & \"c\" > d # e\n")
        args = ("crash:op_caps", *self.ARGS, "--expect", known)
        root = xml.fromstring(
            self.hostile(*args, "-o", "junit", code=0).text.encode())
        texts = [e.get("message") for e in root.iter("skipped")]
        self.assertTrue(any(t.startswith('a < b & "c" > d # e')
                            for t in texts), texts)
        for line in self.hostile(*args, "-o", "tap").text.splitlines():
            self.assertLessEqual(line.count("#"), 1)


class Endings(Kit):
    """A case that ends badly fails alone."""

    def check(self, mode, outcome, says, *args):
        cases = self.hostile(mode, "--filter", "*/abi.fills.*", "-o", "json",
                             *args, code=1).cases()
        for device in ("hostile:0", "hostile:1"):
            for case in ("op_caps.stride", "op_caps.larger"):
                case = cases["%s/abi.fills.%s" % (device, case)]
                self.assertEqual(case["outcome"], outcome)
                self.assertIn(says, case["text"])
            for case in ("fills.enumerate.stride", "fills.calibrate.larger",
                         "end"):
                self.assertEqual(
                    cases["%s/abi.%s" % (device, case)]["outcome"], "passed")
        return cases

    def test_crash(self):
        self.check("crash:op_caps", "crashed", "SIGSEGV")

    def test_abort(self):
        self.check("abort:op_caps", "crashed", "SIGABRT")

    def test_exit(self):
        self.check("exit:op_caps", "crashed",
                   "ended by itself in op_caps, with exit status 0")

    def test_hang(self):
        begin = time.monotonic()
        cases = self.check("hang:op_caps", "hung", "killed after 0.3 s",
                           "--timeout", "0.3", "--max-hangs", "0")
        hung = [c for c in cases.values() if c["outcome"] == "hung"]
        for case in hung:
            self.assertGreaterEqual(case["seconds"], 0.3)
        self.assertLess(time.monotonic() - begin, 5 + len(hung))

    def test_the_kit_s_own_work_is_not_limited(self):
        """The case passes in more than twice its limit. A loaded machine slows the
        plugin's share, which is a small one, too: by some limit it passes. Before,
        it hangs, or the kit's own wait for the plugin's work ends first."""
        name = "cpu/ops.matmul.f32.llama-1b.ffn_down"
        tried = []
        for limit in (0.1 * 2 ** n for n in range(8)):
            case = self.run_kit(CPU, "--thorough", "--timeout", limit,
                                "--filter", name, "-o", "json").cases()[name]
            if case["outcome"] == "failed":
                self.assertIn("timeline_wait: answered CLV_ERR_TIMEOUT",
                              case["text"])
            else:
                self.assertIn(case["outcome"], ("passed", "hung", "not run"))
            if case["outcome"] == "passed" and case["seconds"] > 2 * limit:
                return
            tried.append((limit, case["outcome"], case["seconds"]))
        self.fail(tried)

    def test_hangs_end_the_run(self):
        args = ("hang:op_caps", "--filter", "*/abi.fills.*", "--filter",
                "*/abi.query.*", "--timeout", "0.3", "--device", "hostile:0")
        whole = self.hostile(*args, "--max-hangs", 0, "-o", "json",
                             code=1).json()
        self.assertGreater(whole["hung"], 1)
        self.assertEqual(whole["not run"], 0)
        part = self.hostile(*args, "--max-hangs", 1, "-o", "json", code=1)
        hung = part.json()["hung"]
        left = {n for n, c in part.cases().items()
                if c["outcome"] == "not run"}
        self.assertEqual(hung, 1)
        names = {c["name"] for c in whole["cases"]
                 if not c["name"].endswith(".end")}
        self.assertEqual(names, {n for n in part.cases()
                                 if not n.endswith(".end")})
        self.assertIn("hostile:0/abi.fills.op_caps.larger", left)
        self.assertNotIn("plugin/abi.query.pure", left)
        text = self.hostile(*args, "--max-hangs", 1, code=1).text
        self.assertIn("%d cases were not run" % len(left), text)
        tap = self.hostile(*args, "--max-hangs", 1, "-o", "tap", code=1).text
        self.assertEqual(tap.count("# SKIP not run: "), len(left))
        expected = "hostile:0/abi.fills.op_caps.*"
        self.assertNotIn("not run", self.hostile(
            "hang:op_caps", "--timeout", "0.3", "--filter", expected,
            "--xfail", expected, "--max-hangs", 1, code=0).text)

    def test_error(self):
        self.check("error:op_caps", "failed", "op_caps")

    def test_silent_error(self):
        self.check("silent:op_caps", "failed", "it said nothing")

    def test_findings_of_one_reason_are_counted(self):
        for mode, outcome, filters in (
                ("crash:program_compile", "crashed", "hostile:?/ops.silu.*"),
                # The reasons differ in numbers.
                ("wrong_result", "failed", "hostile:0/ops.matmul.f32.*")):
            args = mode, "--filter", filters
            lines = self.hostile(*args, code=1).text.splitlines()
            named = [l.split()[1] for l in lines
                     if l.startswith(outcome + "  hostile:")
                     or l.startswith(outcome + "   hostile:")]
            summary = lines[lines.index(outcome):]
            for line in summary[1:summary.index("")]:
                count, names = line.split()[0], line.split(": ")[-1].split(", ")
                self.assertEqual(len(names), 4, line)
                self.assertEqual(names[3], "...")
                self.assertLessEqual(set(names[:3]), set(named))
            report = self.hostile(*args, "-o", "json", code=1).json()
            found = [c for c in report["cases"] if c["outcome"] == outcome]
            counted = sum(int(l.split()[0])
                          for l in summary[1:summary.index("")])
            self.assertGreater(counted, len(found) * 0.8)
            self.assertLess(len(named), len(found) / 2)
            shown = self.hostile(*args, "-v", code=1).text.splitlines()
            self.assertEqual(sum(l.startswith(outcome + " ") for l in shown),
                             len(found))

    def test_query_that_crashes_leaves_the_plugin_s_own_cases(self):
        cases = self.hostile("crash:mem_types", *FEW, "-o", "json",
                             code=1).cases()
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "crashed")
        self.assertEqual(cases["plugin/abi.query.pure"]["outcome"], "passed")
        self.assertFalse([n for n in cases if n.startswith("hostile")])

    def test_crash_at_unload(self):
        cases = self.hostile("crash_unload", "--filter", "*/abi.manifest.*",
                             "-o", "json", code=1).cases()
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "crashed")
        self.assertEqual(cases["plugin/abi.manifest.table"]["outcome"],
                         "passed")

    def test_query_cannot_be_expected_to_fail(self):
        cases = self.hostile("crash:quiesce", *FEW, "--xfail", "plugin/kit.*",
                             "-o", "json", code=1).cases()
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "crashed")

    def test_leak_past_the_host_is_a_warning(self):
        name = "hostile:0/lifecycle.resident"
        for mode, warned in (("none", False), ("leak_heap", True)):
            result = self.hostile(mode, "--filter", name, "-o", "json", code=0)
            case = result.cases()[name]
            if case["outcome"] == "skipped":
                self.skipTest(case["text"])
            self.assertEqual(case["warning"], warned, case["text"])
            self.assertEqual("resident memory grows by" in case["text"], warned)
            text = self.hostile(mode, "--filter", name, code=0).text
            self.assertEqual("warning  " + name in text, warned)

    def test_constructors_of_needed_libraries_are_a_warning(self):
        name = "plugin/abi.file.needs-no-constructors"
        for plugin, warned in ((CPU, False), (NEEDS, True)):
            case = self.run_kit(plugin, "--filter", name, "-o",
                                "json").cases()[name]
            self.assertEqual(case["outcome"], "passed")
            self.assertEqual(case["warning"], warned, case["text"])
            self.assertEqual("libneeded.so" in case["text"], warned)

    def test_leak_shows_at_the_end(self):
        cases = self.hostile("leak_block", "--filter", "*/abi.query.*", "-o",
                             "json", code=1).cases()
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "failed")
        self.assertIn("1 host allocations are not freed, 100 bytes",
                      cases["plugin/kit.query"]["text"])

    def test_interrupt_ends_all_processes(self):
        process = subprocess.Popen(
            [CHECK, HOSTILE, "--set", "hostile.mode=hang:op_caps", *FEW],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, TMPDIR=self.temporary))
        children = "/proc/%d/task/%d/children" % (process.pid, process.pid)
        deadline = time.monotonic() + 30
        while not os.listdir(self.temporary) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.3)
        with open(children) as f:
            workers = f.read().split()
        self.assertEqual(len(workers), 1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"interrupted", errors)
        self.assertFalse(os.path.exists("/proc/" + workers[0]))
        self.assertEqual(os.listdir(self.temporary), [])


class Expectations(Kit):
    ARGS = ("--filter", "*/abi.fills.op_caps.*", "-o", "json")
    CRASHES = "hostile:?/abi.fills.op_caps.*"

    def test_expected_failures_pass(self):
        cases = self.hostile("crash:op_caps", *self.ARGS, "--xfail",
                             self.CRASHES, code=0).cases()
        case = cases["hostile:0/abi.fills.op_caps.stride"]
        self.assertEqual(case["outcome"], "failed as expected")
        self.assertIn("SIGSEGV", case["text"])

    def test_unexpected_passes_fail(self):
        cases = self.run_kit(CPU, *self.ARGS, "--xfail",
                             "cpu/abi.fills.op_caps.stride", code=1).cases()
        self.assertEqual({n: c["outcome"] for n, c in cases.items()
                          if c["outcome"] != "passed"},
                         {"cpu/abi.fills.op_caps.stride":
                          "passed unexpectedly"})

    def test_excluded_cases_do_not_run(self):
        cases = self.hostile("crash:op_caps", *self.ARGS, "--exclude",
                             self.CRASHES, code=0).cases()
        case = cases["hostile:1/abi.fills.op_caps.larger"]
        self.assertEqual((case["outcome"], case["seconds"]), ("excluded", 0))

    def test_exclusion_comes_before_expectation(self):
        cases = self.hostile("crash:op_caps", *self.ARGS, "--xfail", "*caps*",
                             "--exclude", self.CRASHES, code=0).cases()
        self.assertEqual(
            cases["hostile:1/abi.fills.op_caps.larger"]["outcome"], "excluded")

    def test_file(self):
        known = self.write("known.txt", "# known\n\n"
                           "xfail   hostile:0/abi.fills.op_caps.*  a bug\r\n"
                           "exclude hostile:1/abi.fills.op_caps.* no time\n")
        cases = self.hostile("crash:op_caps", *self.ARGS, "--expect", known,
                             code=0).cases()
        first = cases["hostile:0/abi.fills.op_caps.stride"]
        second = cases["hostile:1/abi.fills.op_caps.stride"]
        self.assertEqual(first["outcome"], "failed as expected")
        self.assertTrue(first["text"].startswith("a bug ("))
        self.assertEqual(second["outcome"], "excluded")
        self.assertEqual(second["text"], "no time")

    def test_stale_patterns_fail(self):
        known = self.write("known.txt", "xfail cpu/abi.nosuch.* gone\n")
        cases = self.run_kit(CPU, *self.ARGS, "--expect", known,
                             code=1).cases()
        case = cases["plugin/kit.pattern.cpu/abi.nosuch.*"]
        self.assertEqual(case["outcome"], "failed")
        self.assertIn("known.txt:1", case["text"])

    def test_patterns_for_cases_left_out_are_not_stale(self):
        self.run_kit(CPU, *self.ARGS, "--exclude", "cpu/memory.*", code=0)

    def test_untested_device_fails(self):
        cases = self.run_kit(CPU, "--group", "ops", "--exclude", "*/ops.*",
                             "-o", "json", code=1).cases()
        self.assertEqual(cases["cpu/kit.tested"]["outcome"], "failed")
        self.assertIn("nothing was tested", cases["cpu/kit.tested"]["text"])

    def test_files_are_checked(self):
        for text, says in (("skip a b\n", "1: 'skip' is neither"),
                           ("\nxfail cpu/x\n", "2: no reason"),
                           ("exclude\n", "1: no pattern"),
                           ("xfail a b\0c\n", "not a text file")):
            self.usage(CPU, "--expect", self.write("known", text), says=says)
        self.usage(CPU, "--expect", "/nonexistent", says="cannot be opened")


class Usage(Kit):
    def test_plugin(self):
        self.usage(says="no plugin is given")
        self.usage("/nonexistent.so", says="No such file")
        self.usage(self.dir.name, says="not a file")
        self.usage(CPU, CPU, says="unexpected argument")

    def test_no_plugin_at_all(self):
        path = self.write("cleave_text.so", "this is no plugin\n" * 100)
        cases = self.run_kit(path, *FEW, "-o", "json", code=1).cases()
        self.assertEqual(cases["plugin/kit.query"]["outcome"], "failed")
        self.assertIn("invalid ELF header", cases["plugin/kit.query"]["text"])

    def test_settings(self):
        for setting, says in (
                ("cpu.threads=many", r"not a whole number in 0\.\.1024"),
                ("cpu.threads=5000", r"not a whole number in 0\.\.1024"),
                ("cpu.features=mmx", "not one of auto"),
                ("cpu.pin=maybe", "not on or off"),
                ("cpu.nosuch=1", "has no option 'nosuch'"),
                ("gpu.threads=1", "the plugin's name is 'cpu'"),
                ("threads=1", "NAME.key=VALUE")):
            self.usage(CPU, "--set", setting, says=says)

    def test_names(self):
        self.usage(CPU, "--group", "opps", says="did you mean 'ops'")
        self.usage(CPU, "--timeout", "0", says="--timeout")
        self.usage(CPU, "--support", "-o", "tap", says="no cases to report")

    def test_help(self):
        text = self.run_kit("--help", code=0).text
        self.assertTrue(text.startswith("usage: cleave-plugin-check PLUGIN.so"))
        self.assertIn("\nexamples\n", text)


class Support(Kit):
    def test_json(self):
        rows = self.run_kit(CPU, "--support", "-o", "json", code=0).json()
        answers = {(r["op"], r["dtype"]): r for r in rows}
        self.assertEqual(len(answers), len(rows))
        q8 = answers["matmul", "q8_0"]
        self.assertEqual((q8["answer"], q8["error_class"]), ("yes", "q8"))
        self.assertIn("channels by 32", q8["split"])

    def test_refusals_have_reasons(self):
        rows = self.hostile("none", "--set", "hostile.ops0=add", "--device",
                            "hostile:0", "--support", "-o", "json",
                            code=0).json()
        self.assertEqual({r["op"] for r in rows if r["answer"] == "yes"},
                         {"add"})
        for row in rows:
            self.assertEqual(row["reason"] != "", row["answer"] == "no")

    def test_md(self):
        lines = self.run_kit(CPU, "--support", code=0).text.splitlines()
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertEqual(lines[0].split("|")[2].strip(), "op")

    def test_plugin_that_hangs(self):
        result = self.hostile("hang:op_caps", "--support", "--timeout", "0.3",
                              code=1)
        self.assertIn("hostile:0: ended early: hung", result.errors)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
