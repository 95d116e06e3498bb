#!/usr/bin/env python3
"""The kit on the hostile plugin: every fault is found by the cases that are for
it, and none brings the kit down.

usage: test_hostile.py CLEAVE_PLUGIN_CHECK HOSTILE_SO [MODE...]
"""
import concurrent.futures
import fnmatch
import os
import re
import subprocess
import sys

# Of every mode, a case that must fail. "D" is the first device.
MATMUL = "D/ops.matmul.f32.5x96x40"
PRIVATE = "D/ops.private.matmul.f32.5x64x16"
FOUND_BY = {
    # devices
    "count_huge": "plugin/lifecycle.enumerate.count",
    "count_grows": "plugin/lifecycle.enumerate.count",
    "id_endless": "plugin/lifecycle.enumerate.infos",
    "id_odd": "plugin/lifecycle.enumerate.infos",
    "id_same": "plugin/lifecycle.enumerate.infos",
    "name_endless": "plugin/lifecycle.enumerate.infos",
    "kind_unknown": "plugin/lifecycle.enumerate.infos",
    "clock_unknown": "plugin/lifecycle.enumerate.infos",
    "mem_types_none": "plugin/kit.query",
    "mem_types_many": "plugin/kit.query",
    "mem_types_differ": "plugin/kit.query",
    "mem_align_odd": "D/memory.types.sane",
    "mem_import_align_odd": "D/memory.types.sane",
    "info_past": "plugin/lifecycle.enumerate.infos",
    "mem_past": "plugin/kit.query",
    # what is taken
    "answer_unknown": MATMUL,
    "class_unknown": MATMUL,
    "range_empty": MATMUL,
    "range_negative": MATMUL,
    "align_odd": MATMUL,
    "stride_odd": MATMUL,
    "granularity_negative": MATMUL,
    "variants_many": MATMUL,
    "variants_empty": MATMUL,
    "variants_class": MATMUL,
    "variants_name": MATMUL,
    "variants_twice": MATMUL,
    "variants_false": MATMUL,
    "granularity_false": "D/split.matmul.f32.*rows*",
    "layouts_unknown": MATMUL,
    "private_rows_odd": MATMUL,
    "private_unasked": PRIVATE,
    "static_zero": MATMUL,
    "static_none": MATMUL,
    "no_reason": MATMUL,
    "reason_endless": MATMUL,
    "caps_past": "D/split.matmul.f32.*",
    "impure": "D/ops.matmul.f32.5x96x40*",
    "alias_claimed": "D/ops.softmax.f32.5x77.over_0",
    "exact_claimed": MATMUL,
    "takes_all": "D/ops.malformed.unknown_op",
    "never_compiles": MATMUL,
    "wants_alignment": "D/ops.matmul.f32.5x96x40.offset",
    # memory
    "map_null": "D/memory.buffers.map",
    "map_elsewhere": "D/memory.buffers.*",
    "map_misaligned": "D/memory.buffers.*",
    "flush_nothing": "D/memory.buffers.map",
    "invalidate_nothing": "D/memory.buffers.map",
    "flush_any_range": "D/memory.buffers.map",
    "release_early": "D/memory.import.pointers",
    "release_never": "D/memory.import.pointers",
    "import_copies": "D/memory.import.pointers",
    "import_closes": "D/memory.import.descriptors",
    "import_anything": "D/memory.import.refused",
    "alloc_half": "D/memory.*",
    # results
    "wrong_result": MATMUL,
    "nan_swallowed": "D/ops.matmul.f32.5x96x40.special",
    "infinity_clipped": "D/ops.matmul.f32.5x96x40.special",
    "tail_wrong": "D/ops.matmul.f32.1x64x17*",
    "not_repeatable": "D/ops.matmul.f32.5x96x40*",
    "private_wrong": PRIVATE,
    "private_past": PRIVATE,
    "private_whole": PRIVATE,
    "past_end": MATMUL,
    "before_begin": MATMUL,
    "fills_gaps": "D/ops.matmul.f32.5x96x40.pad3",
    "changes_input": MATMUL,
    "ignores_strides": "D/ops.matmul.f32.5x96x40.pad3",
    "keeps_graph": "D/programs.keeps_nothing",
    "load_differs": "D/programs.bytes.round_trip",
    # timelines
    "flag_null": "D/sync.timeline.values",
    "flag_misaligned": "D/sync.timeline.values",
    "flag_disagrees": "D/sync.timeline.values",
    "value_failed": "D/sync.timeline.values",
    "status_unknown": "D/sync.timeline.failure_sticks",
    "message_endless": "D/sync.timeline.values",
    "backwards": "D/sync.timeline.values",
    "wait_ends_at_once": "D/sync.timeline.timeout",
    "times_out_at_once": "D/sync.timeline.timeout",
    "times_out_late": "D/sync.timeline.timeout",
    "wait_other_status": "D/faults.host_fails",
    "fail_ignored": "D/sync.timeline.failure_sticks",
    "fail_latest": "D/sync.timeline.failure_sticks",
    "signal_backwards": "D/sync.timeline.backwards",
    "starts_at_zero": "D/sync.timeline.values",
    # work
    "never_signals": "D/memory.transfers.fill",
    "signals_early": MATMUL,
    "ignores_waits": "D/sync.work.wait_first",
    "copies_at_once": "D/sync.queues.waits",
    "copies_refused": "D/sync.queues.in_order",
    "copies_in_line": "D/sync.queues.beside",
    "queue_short": "D/sync.work.queue_depth",
    "queue_blocks": "D/sync.work.queue_depth",
    "submit_blocks": "D/sync.work.no_block",
    "moves_nothing": "D/memory.transfers.fill",
    "takes_wrong_work": "D/programs.bindings",
    "lost_in_run": "D/sync.work.in_order",
    "fault_ignored": "D/faults.lost",
    # programs
    "accepts_garbage": "D/programs.bytes.damaged",
    "verdict_unknown": "D/programs.bytes.round_trip",
    "validate_fails": "D/programs.bytes.damaged",
    "load_crashes": "D/programs.bytes.damaged",
    "key_constant": "D/programs.bytes.key",
    "key_random": "D/programs.bytes.key",
    "key_forgets_bucket": "D/programs.bytes.key",
    "write_ignored": "D/programs.bytes.write_fails",
    "serializes_nothing": "D/programs.bytes.round_trip",
    "never_cancels": "D/programs.cancel",
    "one_program": "D/programs.twice",
    "untouched_null": "D/programs.info",
    "untouched_input": "D/programs.info",
    "untouched_false": "D/ops.graph.bucket.f32",
    "skips_extensions": "D/abi.reads.compile.required-extension",
    # times
    "trace_backwards": "D/timing.records",
    "trace_outside": "D/timing.bracket",
    "trace_other": "D/timing.records",
    "trace_name_endless": "D/timing.records",
    "trace_too_many": "D/timing.records",
    "trace_always": "D/timing.records",
    "tick_zero": "D/timing.calibrate",
    "tick_nan": "D/timing.calibrate",
    "tick_wrong": "D/timing.calibrate",
    "clock_off": "D/timing.calibrate",
    "clock_stands": "D/timing.calibrate",
    # the process
    "leak_block": "plugin/kit.query",
    "leak_fd": "plugin/lifecycle.cycles",
    "leak_thread": "plugin/lifecycle.cycles",
    "leak_program": "D/lifecycle.objects",
    "free_foreign": "plugin/kit.query",
    "free_twice": "plugin/kit.query",
    "write_past_block": "plugin/kit.query",
    "calls_late": "plugin/lifecycle.two_instances",
    "alloc_crashes": "plugin/lifecycle.no_memory.create.once",
    "alloc_leaks": "plugin/lifecycle.no_memory.create.once",
    "crash_unload": "plugin/lifecycle.unload",
    "message_empty": "plugin/kit.query",
    "signal_handler": "plugin/lifecycle.signals",
}

# Faults that any slot can have: a case that uses the slot.
USED_BY = {
    "create": "plugin/kit.query",
    "quiesce": "plugin/kit.query",
    "destroy": "plugin/kit.query",
    "enumerate": "plugin/kit.query",
    "device_open": "plugin/kit.query",
    "device_close": "plugin/kit.query",
    "mem_types": "plugin/kit.query",
    "op_caps": MATMUL,
    "buffer_alloc": MATMUL,
    "buffer_import": "D/ops.matmul.f32.5x96x40.import",
    "buffer_free": "D/lifecycle.objects",
    "buffer_map": MATMUL,
    "buffer_unmap": MATMUL,
    "buffer_flush": "D/memory.buffers.map",
    "buffer_invalidate": "D/memory.buffers.map",
    "timeline_create": MATMUL,
    "timeline_destroy": MATMUL,
    "timeline_query": "D/sync.timeline.values",
    "timeline_signal": "D/sync.timeline.values",
    "timeline_fail": "D/sync.timeline.failure_sticks",
    "timeline_wait": MATMUL,
    "program_compile": MATMUL,
    "program_info": "D/programs.info",
    "program_destroy": MATMUL,
    "program_serialize": "D/programs.bytes.round_trip",
    "program_validate": "D/programs.bytes.round_trip",
    "program_load": "D/programs.bytes.round_trip",
    "program_key": "D/programs.bytes.key",
    "submit": MATMUL,
    "trace_read": "D/timing.records",
    "calibrate": "D/timing.calibrate",
    "fault_inject": "D/faults.lost",
}
VOID = {"destroy", "device_close", "buffer_free", "buffer_unmap",
        "timeline_destroy", "program_destroy"}
# Slots whose answer OK promises something, and the host looks at it.
PROMISING = ["create", "device_open", "buffer_alloc", "buffer_import",
             "buffer_map", "timeline_create", "timeline_query",
             "program_compile", "program_load", "calibrate", "submit"]
for slot, case in USED_BY.items():
    for fault in ["crash", "abort", "exit", "print"]:
        FOUND_BY[f"{fault}:{slot}"] = case
    for fault in ["error", "silent", "status"] if slot not in VOID else []:
        FOUND_BY[f"{fault}:{slot}"] = case
for slot in PROMISING:
    FOUND_BY[f"empty:{slot}"] = USED_BY[slot]
for fault in ["crash", "abort", "exit", "print", "hang"]:
    FOUND_BY[f"{fault}:program_run"] = MATMUL
for slot in ["create", "op_caps", "timeline_query", "program_compile", "submit",
             "device_close", "destroy"]:
    FOUND_BY[f"hang:{slot}"] = USED_BY[slot]

# Modes of which the kit warns only (test_kit.py).
WARNED = {"leak_heap"}

# Seconds for a case that does not end; others may be slow under sanitizers.
HANGS = re.compile(r"hang:.*|never_signals|wait_.*|submit_blocks|lost_in_run|"
                   r"copies_in_line")


def modes_of(folder):
    """The names in the tables of the plugin's source."""
    names = []
    for name in sorted(os.listdir(folder)):
        if re.match(r"modes_\w+\.c$", name):
            with open(os.path.join(folder, name)) as file:
                names += re.findall(r'^    \{(?:\.name = )?"(\w+)"',
                                    file.read(), re.M)
    return names


def check(program, plugin, mode):
    """A complaint about how the kit took the mode, or None."""
    pattern = FOUND_BY[mode].replace("D/", "hostile:0/")
    command = [program, plugin, "--set", f"hostile.mode={mode}", "--set",
               "hostile.copy_queues0=1", "--set", "hostile.weights0=private",
               "--device", "hostile:0", "--filter", pattern, "-o", "tap",
               "--timeout", "2" if HANGS.match(mode) else "20"]
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              errors="replace", timeout=120)
    except subprocess.TimeoutExpired:
        return "the kit does not end"
    failed = [line.split(" - ", 1)[-1].split(" #")[0].strip()
              for line in done.stdout.splitlines()
              if line.startswith("not ok")]
    if done.returncode != 1:
        return (f"the kit exits with {done.returncode}, not 1: "
                f"{done.stderr.strip()[-300:]}")
    if not any(fnmatch.fnmatchcase(name, pattern) for name in failed):
        return f"{pattern} does not fail, but {failed or 'nothing'}"
    slot = re.match("(?:crash|abort|exit|hang):(.*)", mode)
    slot = slot[1] if slot else "dlclose" if mode == "crash_unload" else ""
    if slot == "program_run":  # on a thread of the plugin's own
        slot = "submit" if mode != "hang:program_run" else ""
    if slot and not re.search(rf"^# .* (in|after) {slot}\b", done.stdout, re.M):
        return f"it does not say that this happens in {slot}"
    return None


def main(program, plugin, *only):
    folder = os.path.join(os.path.dirname(__file__), "../plugins/hostile")
    bad = [f"{mode}: no case is named for it" for mode in modes_of(folder)
           if mode not in FOUND_BY and mode not in WARNED]
    # Without a fault the plugin is the reference one.
    whole = subprocess.run([program, plugin, "--set", "hostile.copy_queues0=1",
                            "--filter", "hostile:0/sync.*",
                            "--filter", "plugin/*", "-o", "tap"],
                           capture_output=True, text=True)
    if whole.returncode:
        bad.append(f"none: the kit exits with {whole.returncode}")
    modes = only or list(FOUND_BY)
    # Those that hang first: they wait, and leave the processor to the others.
    modes = sorted(modes, key=lambda mode: not HANGS.match(mode))
    workers = os.cpu_count() + 2
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        found = pool.map(lambda mode: check(program, plugin, mode), modes)
        bad += [f"{mode}: {said}" for mode, said in zip(modes, found) if said]
    for line in bad:
        print(line)
    print(f"{len(modes)} faults, {len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
